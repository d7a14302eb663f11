# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job files that `rankzero init --from` makes of scripts of the projects behind the examples, from their own
checkouts (tests/checkouts.py), and the one that says what the CPU lab's launcher does, which is several programs: each
rank's program is compared with that of the script under plain sbatch.

Filled in is what their users fill in, and sizes that the lab has. Stand-ins: the programs, which note their calls, uv,
and torch.distributed.run (tests/frameworks).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rankzero.sbatch.convert import Asked, converted
from tests.cluster.both_ways import BothWays, Script
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site
from tests.cluster.test_projects import (
    PROGRAM,
    SMALL,
    STAND_INS,
    TINY_LAUNCHER,
    TINY_PROGRAM,
    cpu_lab,
    filled_in,
    kempnerforge,
    megatron_lm,
)
from tests.repository import ROOT
from tests.unit.command.sbatch.recorded import needs_sandbox

pytestmark = [pytest.mark.more, needs_sandbox]

#: `uv run` in an environment which is the machine's own Python.
UV = """#!/bin/sh
shift
case $1 in
python) shift; exec python3 "$@" ;;
torchrun) shift; exec python3 -m torch.distributed.run "$@" ;;
esac
"""
#: Sizes that the lab has, and names of its own.
HEADER = {"partition": "batch", "account": "research", "time": "10", "mem": "1G", "cpus-per-task": "1"}
SIZES = dict.fromkeys(("nodes", "ntasks-per-node", "gpus-per-node"), "2")
MORE = ("--train.max_steps=1000", "--optimizer.lr=1e-4")
#: Project -> script -> its arguments.
ARGUMENTS: dict[str, dict[str, tuple[str, ...]]] = {
    "KempnerForge": {
        "scripts/slurm/singlenode.sh": ("configs/train/7b.toml", *MORE),
        "scripts/slurm/multinode.sh": ("configs/train/debug.toml", *MORE),
        "scripts/slurm/7b_requeue.sh": MORE,
        "scripts/slurm/13b_validation.sh": (),
    },
    "Megatron-LM": {"run_megatron.slurm": ()},
    "CPU lab": {},
}
PROGRAMS = {"KempnerForge": "scripts/train.py", "Megatron-LM": "pretrain_gpt.py"}
#: What a job does in its own way, as the table of `init` says: addresses, interfaces, its name and folder. A variable
#: that only the job sets is its own as well.
OWN = (
    *("MASTER_ADDR", "MASTER_PORT", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "PATH", "PYTHONPATH"),
    *("SLURM_JOB_NAME", "SLURM_SUBMIT_DIR"),
)
#: A script that says no CPUs gets one a node; a job, one a rank.
CPUS = ("SLURM_CPUS_ON_NODE", r"SLURM_JOB_CPUS_PER_NODE\w*")
#: What the CPU lab's launcher sets for its own lines, and the caches, which a cluster has for all of its jobs.
OF_TINY = ("NNODES", "PROJECT_DIR", "OFFLINE_ROOT", r"RUN_\w+", "SLURM_LABELIO", "HF_HOME", "HF_DATASETS_CACHE")
#: What its launcher says of its job: by options, by variables, and in its own lines.
TINY = {
    "name": "tiny",
    "code": {"src": ".."},
    "resources": {"nodes": 2, "cpus_per_rank": 2, "memory": "1G", "time": "00:10:00", "account": "research"},
    "launcher": {"kind": "torchrun", "rendezvous": "c10d", "ranks_per_node": 2},
    "command": [TINY_PROGRAM, "--subset", "2000", "--epochs", "3"],
    "offline": True,
    "preflight": {"imports": ["torch", "transformers", "numpy"]},
    "logs": {"style": "slurm"},
    "env": {"PYTORCH_DIST_BACKEND": "gloo", "TOKENIZERS_PARALLELISM": "false"},
}


@pytest.fixture(scope="module", params=sorted(ARGUMENTS))
def project(
    request: pytest.FixtureRequest, lab: LabCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BothWays]:
    if lab.way != "realistic":
        pytest.skip("users of their own need root on this machine")
    folder = tmp_path_factory.mktemp("checkout") / "project"
    {"KempnerForge": kempnerforge, "Megatron-LM": megatron_lm, "CPU lab": cpu_lab}[request.param](folder)
    scripts = {path: job_of(folder, request.param, path) for path in ARGUMENTS[request.param]}
    if request.param == "CPU lab":
        scripts = {TINY_LAUNCHER: tiny_job(folder)}
    site = Site(lab, tmp_path_factory.mktemp("projects"), "project-jobs")
    yield BothWays(site, {Path(path).stem: script for path, script in scripts.items()})
    site.close()


def job_of(folder: Path, project: str, path: str) -> Script:
    """A script of a project with the job file that is made of it; its environment is the machine's own Python."""
    values = {rf"(?m)^(#SBATCH --{name}=).*": rf"\g<1>{value}" for name, value in HEADER.items()}
    values |= {rf"(?m)^(#SBATCH --{name}=)[2-9].*": rf"\g<1>{value}" for name, value in SIZES.items()}
    # The CPUs of a node's one task are those of its ranks.
    values |= {r"(?m)^(#SBATCH --ntasks-per-node=1\n(?:.*\n)*?#SBATCH --cpus-per-task=).*": r"\g<1>2"}
    filled_in(folder, values, path)
    stand_in = folder / STAND_INS
    for link in stand_in.glob("bin/uv"):
        link.unlink()
    (stand_in / "bin" / "uv").write_text(UV, encoding="utf-8")
    (stand_in / "bin" / "uv").chmod(0o755)
    shutil.copytree(ROOT / "tests" / "frameworks" / "torch", stand_in / "torch", dirs_exist_ok=True)
    (folder / "pyproject.toml").touch()
    program = folder / PROGRAMS[project]
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM, encoding="utf-8")
    arguments = ARGUMENTS[project][path]
    here = Path.cwd()
    os.chdir(folder)
    try:
        made = converted(path, "jobs", Asked(arguments))
    finally:
        os.chdir(here)
    spec = yaml.safe_load(made.text)
    assert "script" not in spec, made.text
    assert spec.pop("environment") == {"mode": "venv", "project": ".."}
    job = f"jobs/{Path(path).stem}.yml"
    (folder / "jobs").mkdir(exist_ok=True)
    (folder / job).write_text(yaml.safe_dump({**spec, "name": Path(path).stem.replace("_", "-")}), encoding="utf-8")
    known = {"PATH": f"{{folder}}/{STAND_INS}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    known["PYTHONPATH"] = f"{{folder}}/{STAND_INS}"
    meant = meant_in(*OWN, *(CPUS if "cpus_per_rank" not in spec["resources"] else ()))
    line = ("sbatch", path, *arguments)
    return Script(folder, line, path, environment=known, job=job, meant=meant)


def meant_in(*variables: str) -> str:
    """Differences in these variables, and in those that only the job sets."""
    return rf": \w+: sbatch not set;|: ({'|'.join(variables)}): "


def tiny_job(folder: Path) -> Script:
    """The CPU lab's launcher with the job that does the same: preflight, check of the packages, ranks."""
    (folder / "jobs").mkdir()
    (folder / "jobs" / "tiny.yml").write_text(yaml.safe_dump(TINY), encoding="utf-8")
    known = {"PYTHONPATH": f"{{folder}}/{STAND_INS}/pkgs"}
    line = ("sbatch", *SMALL[:4], "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4", TINY_LAUNCHER)
    return Script(folder, line, TINY_LAUNCHER, environment=known, job="jobs/tiny.yml", meant=meant_in(*OWN, *OF_TINY))


def test_the_jobs_made_of_its_scripts_start_the_same_programs(project: BothWays) -> None:
    wrong, counts = {}, {}
    for name in project.scripts:
        try:
            counts[name] = project.compare(name)
        except AssertionError as problem:
            wrong[name] = str(problem)
    assert not wrong, "\n".join(wrong.values())
    assert counts == {name: 2 if name == "singlenode" else 4 for name in project.scripts}
