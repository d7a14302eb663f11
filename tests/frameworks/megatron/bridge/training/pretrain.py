# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for megatron.bridge.training.pretrain: the last rank prints the losses."""

import os
from pathlib import Path

import standing_in


def pretrain(config, forward_step_func):
    options = {**vars(config.model), **vars(config.train), **vars(config.rng)}
    last = int(os.environ["WORLD_SIZE"]) - 1
    standing_in.train(
        options,
        config.train.train_iters,
        Path(config.checkpoint.save),
        standing_in.megatron_line,
        standing_in.megatron_tracker,
        last,
    )
    standing_in.hang()
