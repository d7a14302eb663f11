# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where failures are provoked: a separate lab cluster, programs in its shared folder, and their logs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, faults, layout, profile
from benchmarks.diagnosis.provoke.case import Case

SECONDS = 240
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL")
LARGEST = 40_000

_TORCHRUN = """srun {label}--ntasks-per-node=1 --cpu-bind=none bash -c 'exec {python} -m torch.distributed.run \\
    --nnodes=$SLURM_NNODES --nproc-per-node={ranks} --node-rank=$SLURM_NODEID \\
    --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT train.py'
"""
_SRUN = """srun {label}--ntasks-per-node={ranks} --cpu-bind=none bash -c 'export RANK=$SLURM_PROCID \\
    LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec {python} train.py'
"""
_SCRIPT = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --exclusive
#SBATCH --output={out}
{header}
export PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL=https://packages.example/simple UV_DEFAULT_INDEX=https://packages.example/simple
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 PYTHON={python} PYTHONUNBUFFERED=1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
{env}
cd {folder}
{body}
"""


class Ground:
    """A lab and a folder on it. `python`: an interpreter with torch, whose environment is bound into the nodes."""

    def __init__(self, name: str, python: str, *, site: bool = False, extra: tuple[str, ...] = ()) -> None:
        self.python = python
        self.site = site
        options: dict[str, object] = {
            "name": name, "directory": "", "way": "auto", "nodes": 2 if site else 8, "cpus": 0 if site else 16,
            "memory": 64000, "gpus": 0, "accounting": "slurmdbd", "job_comments": False, "internet": False,
            "partitions": [] if site else [
                {"name": "batch", "default": True, "grace_time": 10}, {"name": "urgent", "priority": 10},
                {"name": "short", "max_time": "00:10:00"},
            ],
            "slurm_conf": [] if site else ["OverTimeLimit=0"],
            "binds": [str(Path(python).parent.parent), *extra],
            "slurm": "host", "profile": "site" if site else "friendly", "gpu_type": "", "gres": [],
        }  # fmt: skip
        self.lab = layout.from_options(options)
        self.shared = Path(self.lab.shared) / "provoke"
        self.inside = f"{self.lab.shared_inside}/provoke"

    def __enter__(self) -> Ground:
        cluster.apply(self.lab, "absent")
        cluster.apply(self.lab, "present")
        self.shared.mkdir(mode=0o777, exist_ok=True)
        self.shared.chmod(0o777)
        return self

    def __exit__(self, *_error: object) -> None:
        cluster.apply(self.lab, "absent")

    @property
    def faults(self) -> faults.Faults:
        return faults.Faults.of(self.lab.directory)

    def head(self, argv: list[str], timeout: float = 60, text: str | None = None) -> subprocess.CompletedProcess[str]:
        become = list(profile.become_user(self.lab)) if self.lab.realistic else []
        return subprocess.run(
            [f"{self.lab.directory}/bin/head", *become, *argv],
            check=False, capture_output=True, text=True, timeout=timeout, input=text, cwd="/", errors="replace",
        )  # fmt: skip

    def node(self, name: str, argv: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [f"{self.lab.directory}/bin/node", name, *argv], check=False, capture_output=True, text=True, cwd="/"
        )

    def provoke(self, case: Case) -> dict[str, str]:
        """Run a case and return its logs unchanged: name -> text."""
        folder, inside = self.shared / case.name, f"{self.inside}/{case.name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        for name, text in {"train.py": case.program, **case.files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("@HERE@", inside), encoding="utf-8", newline="")
        if case.style == "head":
            done = self.head(
                ["env", f"PYTHON={self.python}", "bash", "-c", f"cd {inside}; {case.program} 2>&1"], SECONDS
            )
            return {case.name: done.stdout}
        label = "--label " if case.style == "label" else ""
        if case.style == "files":
            label = "--output=rank-%4t.log "
        body = {"torchrun": _TORCHRUN, "batch": case.program}.get(case.style, _SRUN)
        if case.style != "batch":
            body = body.format(label=label, python="$PYTHON", ranks=case.ranks)
        header = [*case.header, *(["--account=research"] if self.site else [])]
        out = f"{inside}/slurm.out"
        script = _SCRIPT.format(
            name=case.name, nodes=case.nodes, out=out, python=self.python, folder=inside,
            header="\n".join(f"#SBATCH {line}" for line in header),
            env="\n".join(f"export {key}={value}" for key, value in case.env.items()),
            body=(case.before + "\n" if case.before else "") + body,
        )  # fmt: skip
        done = self.head(["sbatch", "--parsable", "--open-mode=append"], text=script.replace("@HERE@", inside))
        if done.returncode:
            raise RuntimeError(f"{case.name}: sbatch: {done.stderr}")
        job = done.stdout.strip().split(";")[0]
        logs = [folder / "slurm.out"]
        self._watch(case, job, folder)
        if case.style == "files":
            logs = [*sorted(folder.glob("rank-*.log")), *logs]
        return {path.name: path.read_bytes().decode("utf-8", "replace") for path in logs if path.exists()}

    def _watch(self, case: Case, job: str, folder: Path) -> None:
        deadline = time.monotonic() + SECONDS
        acted = case.act is None
        while time.monotonic() < deadline:
            shown = self.head(["squeue", "--noheader", "--states=all", "--format=%T|%N|%r", f"--jobs={job}"]).stdout
            state, nodes, _reason = (shown.strip().splitlines() or ["||"])[-1].split("|", 2)
            if not acted and state == "RUNNING":
                text = "".join(path.read_text(errors="replace") for path in folder.glob("*.[ol][uo]*"))
                if re.search(case.when, text):
                    names = self.head(["scontrol", "show", "hostnames", nodes]).stdout.split()
                    assert case.act is not None
                    case.act(self, job, names)
                    acted = True
            if acted and state in ENDED:
                time.sleep(1.5)
                return
            time.sleep(0.5)
        self.head(["scancel", job])
        raise RuntimeError(f"{case.name}: job {job} did not end within {SECONDS} s ({shown.strip()})")


def scrubbed(text: str, python: str, extra: tuple[str, ...] = ()) -> str:
    """Replace this machine's paths and names, so that the log could be any user's."""
    for place in (*extra, str(Path(python).parent.parent)):
        text = text.replace(place, "/home/user/" + os.path.basename(place))
    for shared in ("/shared", layout.SITE_SHARED):
        text = text.replace(f"{shared}/provoke/", "/shared/project/")
    return text.replace(str(Path.home()) + "/", "/home/user/")


def shortened(text: str) -> str:
    """At most LARGEST characters: the beginning and the end, cut at line ends."""
    if len(text) <= LARGEST:
        return text
    half = LARGEST // 2
    return text[:half].rsplit("\n", 1)[0] + "\n" + text[-half:].split("\n", 1)[1]
