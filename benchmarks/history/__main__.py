# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a history of launches costs: `status`, `prune --check` and the search for the logs of a job on state roots with
10, 1,000 and 10,000 launches, in seconds, and in seconds of CPU time.

benchmarks/run history [--rounds 5] [--sizes 10,1000,10000] [--against REF]. The launches are made up, and squeue, sacct
and scontrol are stand-ins that know no job: only the reading of the state root is measured. No cluster is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import results
from benchmarks.releases import collections_of

EMPTY_PLAY = "- hosts: slurm_login\n  gather_facts: false\n  tasks: []\n"
FIRST = 1_700_000_000


def make_history(state_root: Path, count: int) -> None:
    """Write the run directories of `count` launches with 200 names that have ended."""
    for number in range(count):
        run = state_root / "runs" / f"job{number % 200:03d}" / f"{number:016x}" / "1"
        (run / "logs" / "0").mkdir(parents=True)
        begun, job_id, success = FIRST + 60 * number, str(1000 + number), number % 5 != 0
        events = [{"time": begun, "event": "intent"}, {"time": begun + 1, "event": "submitted", "job_id": job_id}]
        started = {"time": begun + 2, "attempt": 0, "job_id": job_id, "nodes": ["node01", "node02"], "world_size": 4}
        outcome = {
            "time": begun + 50,
            "started": begun + 2,
            "attempt": 0,
            "job_id": job_id,
            "ended_by": "program",
            "success": success,
            "exit_code": int(not success),
            "message": "proven" if success else "the program ended with exit code 1",
        }
        (run / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        (run / "claim").write_text(f"1 cluster {job_id}\n")
        (run / "started.json").write_text(json.dumps(started))
        (run / "outcome.json").write_text(json.dumps(outcome))
        (run / "launch.json").write_text("{}\n")
        (run / "logs" / "0" / "rank-0000.log").write_text("step 1\n")


class Ground:
    """A folder with an inventory of this machine, stand-ins for Slurm's commands, and a play without tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        python = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
        (folder / "inventory").write_text(f"[slurm_login]\nlogin {python}\n")
        (folder / "empty.yml").write_text(EMPTY_PLAY)
        commands = folder / "bin"
        commands.mkdir()
        for name in ("squeue", "sacct", "scontrol"):
            (commands / name).write_text("#!/bin/sh\nexit 0\n")
            (commands / name).chmod(0o755)
        path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "HOME": str(folder)}

    def seconds(
        self, playbook: str, *options: str, state_root: Path | None = None, collections: str = ""
    ) -> tuple[float, float]:
        """How long a playbook takes, and how much CPU time, in seconds. It must end with 0."""
        variables = ["-e", json.dumps({"launch_cluster": {"state_root": str(state_root)}})] if state_root else []
        argv = ["ansible-playbook", "-i", str(self.folder / "inventory"), playbook, *variables, *options]
        environment = {**self.environment, **({"ANSIBLE_COLLECTIONS_PATH": collections} if collections else {})}
        begun, used = time.monotonic(), _cpu_seconds()
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
        return time.monotonic() - begun, _cpu_seconds() - used


def _cpu_seconds() -> float:
    """CPU time of all processes that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


Measured = dict[str, list[tuple[float, float]]]


def measure(ground: Ground, state_root: Path, measured: Measured, collections: str = "") -> None:
    """Add the seconds and CPU seconds of each way in one round. The first `status` finds no index."""
    shutil.rmtree(state_root / "index", ignore_errors=True)
    shutil.rmtree(ground.folder / "fetched", ignore_errors=True)
    for way, playbook, options in (
        ("empty play", "empty.yml", ()),
        ("status, no index", "rankzero.slurm.status", ()),
        ("status", "rankzero.slurm.status", ()),
        ("status, active", "rankzero.slurm.status", ("-e", "active=true")),
        ("logs, by job", "rankzero.slurm.logs", ("-e", "job_id=1004", "-e", f"dest={ground.folder}/fetched")),
        ("prune --check", "rankzero.slurm.prune", ("-e", "older_than=30", "--check")),
    ):
        place = None if way == "empty play" else state_root
        seconds = ground.seconds(playbook, *options, state_root=place, collections=collections)
        measured.setdefault(way, []).append(seconds)


def table(rows: dict[str, Measured]) -> str:
    """Medians of each way, with CPU time in brackets, and for `status` the ratio to the empty play."""
    ways = list(next(iter(rows.values())))
    lines = ["| launches | " + " | ".join(ways) + " | status / empty play |", "| --- |" + " --- |" * (len(ways) + 1)]
    for name, measured in rows.items():
        medians = {way: tuple(map(statistics.median, zip(*measured[way]))) for way in ways}
        shown = " | ".join(f"{medians[way][0]:.2f} ({medians[way][1]:.2f})" for way in ways)
        lines.append(f"| {name} | {shown} | {medians['status'][0] / medians['empty play'][0]:.2f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run history", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is run")
    parser.add_argument("--sizes", default="10,1000,10000", help="numbers of launches, with commas")
    parser.add_argument("--against", default="", metavar="REF", help="measure the collection at this commit as well")
    options = parser.parse_args()
    rows: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as name:
        ground = Ground(Path(name))
        old = collections_of(options.against, Path(name) / "other") if options.against else ""
        for size in options.sizes.split(","):
            state_root = Path(name) / f"state-{size}"
            make_history(state_root, int(size))
            versions = {f"{int(size):,}": "", **({f"{int(size):,}, {options.against}": old} if old else {})}
            for _round in range(options.rounds):
                for version, collections in versions.items():
                    measure(ground, state_root, rows.setdefault(version, {}), collections)
    text = table(rows)
    print(text)
    results.save("history", text, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
