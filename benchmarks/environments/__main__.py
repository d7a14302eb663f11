# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare ways to provide the ranks with an environment that has torch: benchmarks/run environments.

See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, layout, profile
from benchmarks import results
from benchmarks.environments.matrix import matrix
from benchmarks.launch import table

HERE = Path(__file__).resolve().parent
WAYS = ("sealed", "venv", "uv run")
SIZES = (1, 2, 4, 8)
# Wraps the real program on the nodes, so that the operations of the step that holds the mount are counted too.
HOLDER = """#!/bin/bash
case "$*" in
    *"sealed.py hold"*)
        set -- -f -qq -e trace=%file -o "$RANKZERO_RUN_DIR/trace.hold.$SLURM_NODEID" /usr/bin/python3 "$@"
        exec strace "$@" ;;
esac
exec /usr/bin/python3 "$@"
"""
TRACED = 'exec strace -f -qq -e trace=%file -o "$RANKZERO_RUN_DIR/trace.rank.$RANK" '


def lab_of(name: str, kind: str, nodes: int) -> layout.Lab:
    """A lab whose nodes use this machine's disk, or a network share with an ordinary user."""
    site = kind == "site"
    options = {
        "name": name, "directory": "", "way": "auto", "nodes": nodes, "cpus": 0 if site else 16, "memory": 64000,
        "gpus": 8, "accounting": "slurmdbd", "job_comments": False, "internet": False, "partitions": [],
        "slurm_conf": [], "binds": [], "slurm": "host", "profile": kind, "gpu_type": "", "gres": [],
    }  # fmt: skip
    return layout.from_options(options)


class Bench:
    """All ways to provide the environment, on one lab."""

    def __init__(self, lab: layout.Lab, scratch: Path, cold: bool = False) -> None:
        self.lab, self.scratch, self.cold = lab, scratch, cold
        self.directory, self.shared = Path(lab.directory), Path(lab.shared)
        self.project = scratch / "project"
        shutil.copytree(HERE / "project", self.project)
        self.numbers = count(1)
        self.roots = {name: f"{lab.shared_inside}/rankzero/{name}" for name in ("state_root", "store_root")}
        self.tools = self.shared / "bench-tools"
        self.tools.mkdir(mode=0o755)
        uv = shutil.which("uv")
        if uv:
            shutil.copy(uv, self.tools / "uv")
        (self.tools / "python3").write_text(HOLDER)
        (self.tools / "python3").chmod(0o755)

    def launch(self, way: str, nodes: int, ranks: int, traced: bool = False) -> Path:
        """Run the program to its end. Returns the run directory."""
        name, inside = f"bench-{next(self.numbers)}", f"{self.lab.shared_inside}/bench-tools"
        mode = "none" if way == "uv run" else way
        program = '"$RANKZERO_PYTHON" rank.py'
        if way == "uv run":
            (made,) = self.shared.glob("rankzero/store_root/environments/*/bin/python")
            environment = f"{self.lab.shared_inside}/{made.parent.parent.relative_to(self.shared)}"
            program = f"UV_PROJECT_ENVIRONMENT={environment} UV_CACHE_DIR=/tmp/uv-cache UV_OFFLINE=1 "
            program += f"{inside}/uv run --no-sync rank.py"
        job = {
            "name": name,
            "shell": (TRACED + f"bash -c '{program}'") if traced else f"exec bash -c '{program}'",
            "code": {"src": str(self.project)},
            "resources": {"nodes": nodes, "time": "00:20:00"},
            "launcher": {"ranks_per_node": ranks},
            "environment": {"mode": mode, "project": str(self.project), "torch": "cpu"},
            "preflight": {"budget": 300},
            "monitor": {"host": 0, "gpu": 0},
            **({"setup": {"commands": [f'export PATH="{inside}:$PATH"']}} if traced else {}),
        }
        # JSON is valid YAML.
        file = self.scratch / f"{name}.yml"
        file.write_text(json.dumps(job))
        settings: dict[str, object] = {**self.roots, "templates": str(HERE / "templates")}
        if self.lab.site:
            settings["resources"] = {"account": profile.ACCOUNT}
        play = ["ansible-playbook", "-i", str(self.directory / "inventory.yml"), "rankzero.slurm.train"]
        extra = json.dumps({"launch_cluster": settings, "launch_logs_dest": str(self.scratch / "logs")})
        done = subprocess.run(
            [*play, "-e", f"job={file}", "-e", extra], capture_output=True, text=True, check=False, cwd=self.scratch
        )
        if done.returncode != 0:
            raise RuntimeError(f"{way} on {nodes} x {ranks} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
        (run,) = self.shared.glob(f"rankzero/state_root/runs/{name}/*/1")
        return run

    def seconds(self, way: str, nodes: int, ranks: int) -> float:
        """Seconds from the batch script's first line until the last rank has imported torch."""
        if self.cold:
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("3")
        run = self.launch(way, nodes, ranks)
        begun = float((run / "batch").read_text())
        return max(float((run / f"rank.{rank}").read_text().split()[0]) for rank in range(nodes * ranks)) - begun

    def operations(self, way: str, nodes: int) -> tuple[int, int]:
        """(opens, other look-ups) of the environment's files on shared storage: a rank per node, and the mounter."""
        run = self.launch(way, nodes, 1, traced=True)
        store = f"{self.lab.shared_inside}/rankzero/store_root/environments/"
        opens = others = 0
        for trace in run.glob("trace.*"):
            for line in trace.read_text(errors="replace").splitlines():
                if store in line:
                    call = re.search(r"\b([a-z0-9_]+)\(", line)
                    if call and call[1] in ("open", "openat", "openat2", "execve"):
                        opens += 1
                    else:
                        others += 1
        return opens, others


def times(bench: Bench, nodes: int, ranks: int, rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for way in ("sealed", "venv"):
        bench.launch(way, 1, 1)  # builds what is missing
    for number in range(rounds):
        for way in WAYS[number % 3 :] + WAYS[: number % 3]:
            seconds[way].append(bench.seconds(way, nodes, ranks))
            print(f"[bench] {way}: {seconds[way][-1]:.1f} s", file=sys.stderr, flush=True)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run environments", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="launches of each way (5)")
    parser.add_argument("--nodes", type=int, default=8, help="nodes for the times (8)")
    parser.add_argument("--ranks", type=int, default=8, help="ranks a node for the times (8)")
    parser.add_argument("--profile", choices=["friendly", "site"], default="friendly", help="of the lab")
    parser.add_argument("--parts", default="times,operations,matrix", help="which parts (times,operations,matrix)")
    parser.add_argument("--cold", action="store_true", help="empty the machine's page cache before each launch (root)")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    parts = options.parts.split(",")
    lines = [f"Load of the machine at the beginning: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n"]
    raw: dict[str, object] = {"date": datetime.date.today().isoformat(), "options": vars(options)}
    with tempfile.TemporaryDirectory(prefix="rankzero-bench-") as scratch:
        if "matrix" in parts:
            rows = matrix(Path(scratch) / "matrix")
            raw["matrix"] = rows
            lines.append(table.markdown(["test", "times", "result"], rows))
        if set(parts) & {"times", "operations"}:
            lab = lab_of("bench-environments", options.profile, max(options.nodes, 1))
            cluster.apply(lab, "absent")
            cluster.apply(lab, "present")
            try:
                lines += on_lab(Bench(lab, Path(scratch), options.cold), options, parts, raw)
            finally:
                cluster.apply(lab, "absent")
    lines.append(f"Load at the end: {os.getloadavg()[0]:.1f}.\n")
    results.save(f"environments-{options.profile}", "\n".join(lines), raw)
    print("\n".join(lines))
    return 0


def on_lab(bench: Bench, options: argparse.Namespace, parts: Sequence[str], raw: dict[str, object]) -> list[str]:
    lines = []
    if "times" in parts:
        seconds = times(bench, options.nodes, options.ranks, options.rounds)
        raw["seconds"] = seconds
        rows = [[way, table.spread(values, 1), table.ratio(values, seconds["venv"])] for way, values in seconds.items()]
        lines.append(
            f"Seconds until all ranks of {options.nodes} x {options.ranks} have torch, page cache "
            f"{'cold' if options.cold else 'as it was'}; median of {options.rounds}.\n"
        )
        lines.append(table.markdown(["way", "seconds", "times the shared venv"], rows))
    if "operations" in parts:
        counted: dict[str, dict[int, tuple[int, int]]] = {}
        for way in ("sealed", "venv"):
            counted[way] = {n: bench.operations(way, n) for n in SIZES if n <= options.nodes}
            print(f"[bench] {way}: {counted[way]}", file=sys.stderr, flush=True)
        raw["operations"] = counted
        rows = [
            [way, nodes, opens, others, f"{sum(counted['venv'][nodes]) / max(1, opens + others):.0f}"]
            for way, sizes in counted.items()
            for nodes, (opens, others) in sizes.items()
        ]
        lines.append("Operations on shared storage that name a file of the environment, one rank a node (strace).\n")
        lines.append(table.markdown(["way", "nodes", "opens", "other look-ups", "times fewer than venv"], rows))
    return lines


if __name__ == "__main__":
    sys.exit(main())
