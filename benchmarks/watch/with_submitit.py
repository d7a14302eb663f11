# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same watch by submitit, run on the head: watch.py FOLDER SECONDS IDS, a file with one job id per line.

It checks as submitit's own wait() does: whether each job is done, once per second.
"""

import sys
import time

import submitit


def main(folder: str, seconds: float, ids: "list[str]") -> None:
    jobs = [submitit.SlurmJob(folder, job_id) for job_id in ids]
    until = time.time() + seconds
    while time.time() < until:
        if all([job.done() for job in jobs]):  # noqa: C419 - each is asked, as by a program that waits for each
            break
        time.sleep(1)


if __name__ == "__main__":
    with open(sys.argv[3], encoding="utf-8") as stream:
        main(sys.argv[1], float(sys.argv[2]), stream.read().split())
