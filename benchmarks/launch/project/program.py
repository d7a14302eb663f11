# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of every job here: program.py SECONDS RECORD BEFORE. Rank 0 writes its artifact, then every rank waits.

SECONDS: how long it continues after the artifact. RECORD: a file on the shared disk that gets a line for each run.
BEFORE: how long it runs before the artifact.
"""

import json
import os
import sys
import time

seconds, record, before = float(sys.argv[1]), sys.argv[2], float(sys.argv[3])
if os.environ.get("SLURM_PROCID") == "0":
    with open(record, "a", encoding="utf-8") as stream:
        stream.write(f"{os.environ['SLURM_JOB_ID']}\n")
    time.sleep(before)
    with open("result.json.new", "w", encoding="utf-8") as stream:
        json.dump({"loss": 1.0}, stream)
    os.replace("result.json.new", "result.json")
time.sleep(seconds)
