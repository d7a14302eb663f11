#!/usr/bin/env python3
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time module job_diagnosis on the run directory of a large job: one rank failed, all others waited for it.

Slurm's commands are replaced by such that know no job, as long after its end.

usage: ranks.py [--folder DIR] [--ranks 8000] [--kilobytes 100] [--repeat 2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import predict
import speed

PER_NODE = 8


def write_run(state_root: str, ranks: int, size: int) -> tuple[str, int]:
    """A run directory with a log of `size` bytes for each rank; its path, and the rank that failed."""
    run = os.path.join(state_root, "runs", "big", "a" * 16, "1")
    logs = os.path.join(run, "logs", "0")
    os.makedirs(logs)
    os.chmod(state_root, 0o700)
    failed, now = ranks * 3 // 5, time.time()
    nodes = [f"n{number:04d}" for number in range(ranks // PER_NODE)]
    began = {"attempt": 0, "time": now - 600, "nodes": nodes, "world_size": ranks}
    ended = {
        "success": False, "exit_code": 1, "message": "exit code 1", "time": now, "attempt": 0, "nodes": nodes,
        "ended_by": "step",
    }  # fmt: skip
    for name, document in (("started.json", began), ("outcome.json", ended)):
        with open(os.path.join(run, name), "w", encoding="utf-8") as stream:
            json.dump(document, stream)
    bodies = [speed.healthy(seed, size, seed) for seed in range(4)]
    for rank in range(ranks):
        head = (
            f"[rankzero] RANK={rank} LOCAL_RANK={rank % PER_NODE} WORLD_SIZE={ranks} NODE_RANK={rank // PER_NODE} "
            f"host={nodes[rank // PER_NODE]}\n"
        )
        with open(os.path.join(logs, f"rank-{rank:04d}.log"), "wb") as stream:
            stream.write(head.encode() + bodies[rank % len(bodies)] + speed.ending(rank, failed))
    return run, failed


def without_jobs(folder: str) -> str:
    """A folder with Slurm's commands that know no job."""
    os.makedirs(folder)
    for name in ("squeue", "scontrol", "sacct", "sinfo"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
            stream.write("#!/bin/sh\nexit 0\n")
        os.chmod(os.path.join(folder, name), 0o755)
    return folder


def diagnose(run: str, commands: str) -> str:
    """Run the module as Ansible does; the family, rank and node that it names."""
    code = (
        f"import sys; sys.path.insert(0, {speed.HERE!r}); import predict; predict.as_collection()\n"
        "from ansible_collections.rankzero.slurm.plugins.modules import job_diagnosis; job_diagnosis.main()"
    )
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": {"run_dir": run, "write": False}})
    path = os.pathsep.join([commands, os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=arguments,
        stdout=subprocess.PIPE,
        env={**os.environ, "PATH": path},
        check=True,
        text=True,
    )
    found = json.loads(done.stdout)["diagnosis"]
    return f"{found['family']} rank {found['ranks']} on {found['nodes']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where to write the logs; by default a temporary folder")
    parser.add_argument("--ranks", type=int, default=8000)
    parser.add_argument("--kilobytes", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    predict.as_collection()
    with tempfile.TemporaryDirectory(prefix="diagnosis-ranks-", dir=options.folder) as folder:
        run, failed = write_run(os.path.join(folder, "state"), options.ranks, options.kilobytes << 10)
        commands, answers = without_jobs(os.path.join(folder, "slurm")), list[object]()
        seconds, cpu, memory = speed.measured(lambda: diagnose(run, commands), options.repeat, answers)
        size = options.ranks * options.kilobytes * 1024 / 1e9
        print(f"{options.ranks} logs, {size:.2f} GB, rank {failed} failed: {answers[0]}")
        print(f"{seconds:.1f} s, {cpu:.1f} s of CPU, {memory / 1024:.0f} MB")


if __name__ == "__main__":
    main()
