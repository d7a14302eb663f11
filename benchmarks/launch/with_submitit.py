# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch by submitit, run on the head: launch.py FOLDER WATCH PROGRAM [ARGUMENT...]. WATCH is yes or no.

A script that is not part of the benchmark's package, because its Python has only submitit.
"""

import os
import subprocess
import sys

import submitit


class Program:
    """What runs on every node: the program in its folder. submitit pickles it."""

    def __init__(self, folder: str, command: "list[str]") -> None:
        self.folder = folder
        self.command = command

    def __call__(self) -> int:
        return subprocess.run(self.command, cwd=self.folder, check=True).returncode


def main(folder: str, watch: str, command: "list[str]") -> None:
    os.makedirs(folder, exist_ok=True)
    executor = submitit.AutoExecutor(folder=os.path.join(folder, "logs"), cluster="slurm")
    executor.update_parameters(name="submitit", nodes=2, tasks_per_node=1, timeout_min=5)
    job = executor.submit(Program(folder, ["python3", *command]))
    print(f"job {job.job_id} submitted", flush=True)
    if watch == "yes":
        job.results()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
