# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for a recipe of Megatron Bridge: a configuration with the fields that the example sets."""

from types import SimpleNamespace


def llama32_1b_pretrain_config():
    return SimpleNamespace(
        model=SimpleNamespace(), train=SimpleNamespace(), rng=SimpleNamespace(), checkpoint=SimpleNamespace()
    )
