# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario's program: every rank leaves a mark; rank 0 waits for all of them and writes the artifact."""

import json
import os
import pathlib
import sys
import time

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with open(f"mark-{rank}.tmp", "w") as stream:
    stream.write(os.uname().nodename)
os.replace(f"mark-{rank}.tmp", f"mark-{rank}")
if rank == 0:
    marks = [f"mark-{number}" for number in range(world_size)]
    while not all(os.path.exists(mark) for mark in marks):
        os.listdir(".")
        time.sleep(0.1)
    hosts = {pathlib.Path(mark).read_text() for mark in marks}
    with open("result.json.tmp", "w") as stream:
        json.dump({"world_size": world_size, "hosts": len(hosts), "arguments": sys.argv[1:]}, stream)
    os.replace("result.json.tmp", "result.json")
time.sleep(60)  # `then: end` is what ends the job
