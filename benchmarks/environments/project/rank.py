# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank that imports torch, and records when the import was done and from where."""

import os
import time

import torch

with open(os.path.join(os.environ["RANKZERO_RUN_DIR"], "rank." + os.environ["RANK"]), "w") as stream:
    stream.write(f"{time.time()} {torch.__file__}\n")
