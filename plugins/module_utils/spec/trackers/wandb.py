# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights & Biases: a run continues by its id, which the job chooses."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import (
    CHOSEN,
    GROUP,
    RESUMED,
    Kind,
    Setting,
)

WANDB = Kind(
    "wandb",
    "Weights & Biases",
    ("project", "entity", "server", "offline"),
    (
        Setting("WANDB_RUN_ID", "{run}", RESUMED),
        Setting("WANDB_RESUME", "allow", RESUMED),
        Setting("WANDB_NAME", "{run}", "the run is found by the name of the launch"),
        Setting("WANDB_RUN_GROUP", "{group}", GROUP),
        Setting("WANDB_TAGS", "{tags}", "the run says which commit and which key it has"),
        Setting("WANDB_DIR", "{run_dir}", "what wandb writes is kept with the run"),
        Setting("WANDB_PROJECT", "{project}", CHOSEN),
        Setting("WANDB_ENTITY", "{entity}", CHOSEN),
        Setting("WANDB_BASE_URL", "{server}", CHOSEN),
        Setting("WANDB_MODE", "offline", "the nodes have no way out; wandb sync uploads the run", "offline"),
    ),
    # Without an entity it is that of the user whose key is used.
    places=tuple(
        f"{server}/{{WANDB_ENTITY}}/{{WANDB_PROJECT}}/runs/{{WANDB_RUN_ID}}"
        for server in ("{WANDB_BASE_URL}", "https://wandb.ai")
    ),
    run="WANDB_RUN_ID",
)
