# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MLflow: its server chooses the id of a run, so the first attempt asks for one (runtime/start/tracker.py)."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import CHOSEN, Kind, Setting

#: The variable in which the job gives the ranks the id that the server has chosen.
MLFLOW_RUN = "MLFLOW_RUN_ID"

MLFLOW = Kind(
    "mlflow",
    "MLflow",
    ("server", "project"),
    (
        Setting("MLFLOW_TRACKING_URI", "{server}", CHOSEN),
        Setting("MLFLOW_EXPERIMENT_NAME", "{project}", CHOSEN),
        Setting("RANKZERO_TRACKER_COMMIT", "{commit}", "the run says which commit it has"),
    ),
    run=MLFLOW_RUN,
)
