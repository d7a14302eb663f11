# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a QOS against one request, each alone. tests/unit/submit/test_limits.py has recorded clusters."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.associations import Charge, over_limits
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import QOS, Knowledge


def refused(nodes: int, gpus: int = 0, minutes: float | None = 10.0, **limits: str) -> list[str]:
    """The options that the sentences name, for a job on a cluster whose QOS `large` has these limits."""
    row = {**dict.fromkeys(QOS, ""), "Name": "large", **limits}
    known = Knowledge({"AccountingStorageEnforce": "limits"}, qos={"large": row})
    asked = {"node": nodes, "gres/gpu": gpus * nodes}
    per_node = {"node": 1, "gres/gpu": gpus}
    seconds = None if minutes is None else minutes * 60
    found = over_limits(known, Charge("ml", "large"), None, asked=asked, per_node=per_node, time_seconds=seconds)
    return [sentence.partition(":")[0] for sentence in found]


@pytest.mark.parametrize(
    ("limits", "fits", "refuses"),
    [
        ({"MinTRES": "node=2"}, {"nodes": 2}, {"nodes": 1}),
        ({"MinTRES": "gres/gpu=8"}, {"nodes": 2, "gpus": 4}, {"nodes": 1, "gpus": 4}),
        ({"MaxTRES": "node=2"}, {"nodes": 2}, {"nodes": 3}),
        ({"MaxTRESPerNode": "gres/gpu=4"}, {"nodes": 2, "gpus": 4}, {"nodes": 1, "gpus": 5}),
        ({"MaxWall": "01:00:00"}, {"nodes": 1, "minutes": 60}, {"nodes": 1, "minutes": 61}),
        ({"MaxTRESMins": "node=20"}, {"nodes": 2, "minutes": 10}, {"nodes": 2, "minutes": 11}),
        ({"MaxTRESMins": "node=20", "MaxWall": "1"}, {"nodes": 9, "minutes": None}, {"nodes": 1, "minutes": 20}),
    ],
)
def test_a_limit_refuses_what_is_just_beyond_it(limits, fits, refuses) -> None:
    assert refused(**fits, **limits) == []
    [option] = refused(**refuses, **limits)
    assert option.startswith("resources.")


def test_only_the_strongest_of_two_limits_is_said() -> None:
    assert refused(5, MaxTRES="node=2", GrpTRES="node=2") == ["resources.nodes"] * 2, "two columns are two limits"
    row = {**dict.fromkeys(QOS, ""), "MaxTRES": "node=4"}
    weaker = {**row, "MaxTRES": "node=2"}
    known = Knowledge({"AccountingStorageEnforce": "limits"}, qos={"large": weaker, "partition": row})
    given = {"asked": {"node": 3}, "per_node": {}, "time_seconds": None}
    assert list(over_limits(known, Charge("ml", "large"), "partition", **given)) == []
