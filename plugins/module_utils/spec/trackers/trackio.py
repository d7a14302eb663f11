# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""trackio: a folder in the run directory, or a server."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import CHOSEN, Kind, Setting

TRACKIO = Kind(
    "trackio",
    "trackio",
    ("server",),
    (
        Setting("TRACKIO_DIR", "{run_dir}/trackio", "what trackio writes is kept with the run"),
        Setting("TRACKIO_SERVER_URL", "{server}", CHOSEN),
    ),
    places=("{TRACKIO_SERVER_URL}", "{TRACKIO_DIR}"),
)
