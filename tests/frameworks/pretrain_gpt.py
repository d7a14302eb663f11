# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for Megatron-LM's pretrain_gpt.py: the last rank prints the losses."""

import argparse
import os
from pathlib import Path

import standing_in

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("save", "load"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--train-iters", type=int, required=True)
    parser.add_argument("--exit-signal-handler", action="store_true", required=True)
    known, others = parser.parse_known_args()
    last = int(os.environ["WORLD_SIZE"]) - 1
    standing_in.train(
        others, known.train_iters, known.save, standing_in.megatron_line, standing_in.megatron_tracker, last
    )
    standing_in.hang()
