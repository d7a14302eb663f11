# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorBoard: a folder in the run directory."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import Kind, Setting

TENSORBOARD = Kind(
    "tensorboard",
    "TensorBoard",
    (),
    (Setting("TENSORBOARD_LOGGING_DIR", "{run_dir}/tensorboard", "one folder is one run of TensorBoard"),),
    places=("{TENSORBOARD_LOGGING_DIR}",),
)
