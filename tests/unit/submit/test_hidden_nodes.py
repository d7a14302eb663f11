# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a cloud that are powered down: sinfo does not show them, sbatch counts them."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import Knowledge
from tests.unit.submit.test_limits import LIMITS, PLAIN, SETTINGS, problems


def test_nodes_that_sinfo_hides_because_they_are_powered_down_count() -> None:
    shown = LIMITS.find("batch")
    assert shown is not None
    more = {**PLAIN, "batch": {**PLAIN["batch"], "TotalNodes": str(shown.total_nodes + 8)}}
    known = Knowledge(SETTINGS, more, (), {})
    asked = shown.total_nodes + 2

    def of_nodes(known: Knowledge) -> list[str]:
        return [text for text in problems(known, nodes=asked) if f"has {shown.total_nodes}." in text]

    assert of_nodes(Knowledge(SETTINGS, PLAIN, (), {})) and not of_nodes(known)
