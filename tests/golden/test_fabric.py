# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table and the file of a sweep, compared whole with files (RANKZERO_UPDATE_GOLDEN=1 writes them).

Three sweeps: one slow node; another interface that is better; NCCL's own choice that nothing beats.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.fabric import group_vars, report
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.judge import Rule, judge
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.suggest import suggest
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import OWN_FABRICS
from tests.unit.fabric.sweeps import MB, adapter, facts, four, measure

HERE = Path(__file__).parent / "fabric"
RULE = Rule(0.7, 4.0)
CLUSTER = {"partitions": [{"gpus_per_node": 8}, {"gpus_per_node": 8}], "gpu_types": ["h100"]}


def better() -> dict[str, Any]:
    """ib1 is three times as fast as what jobs get now."""
    found = four()
    for one in found["measures"]:
        one["candidate"] = "ib1"
    found["measures"] += [
        measure(pair, 1.0, 170.0) for pair in (("n1", "n2"), ("n3", "n4"), ("n1", "n3"), ("n2", "n4"))
    ]
    variables = {"GLOO_SOCKET_IFNAME": "ib1", "NCCL_SOCKET_IFNAME": "ib1"}
    candidates = [
        {"name": "current", "variables": {}, "interface": "eth0", "median": 170 * MB},
        {"name": "ib1", "variables": variables, "interface": "ib1", "median": 504.5 * MB},
    ]
    return {**found, "candidates": candidates, "chosen": "ib1"}


def nccl() -> dict[str, Any]:
    """Sixteen ranks by nccl-tests, one candidate, which is worse."""
    node = facts({"eth0": False, "ib0": True, "ib1": True}, rdma=[adapter("InfiniBand")], gpus=8)
    found = four(number=400000.0)
    for one in found["measures"]:
        for row in one["rows"]:
            row["bus"] *= 900
    candidates = [
        {"name": "current", "variables": {"NCCL_NET": "IB"}, "interface": "ib0", "median": 454.05e9},
        {"name": "one_rail", "variables": {"NCCL_IB_HCA": "=mlx5_0"}, "interface": "ib0", "median": 49.5e9},
    ]
    about = {"method": "nccl_tests", "backend": "nccl", "why": "all_reduce_perf is on every node", "ranks_per_node": 8}
    return {**found, **about, "facts": dict.fromkeys(found["nodes"], node), "candidates": candidates}


SWEEPS = {"slow-node": four("n3"), "better": better(), "nccl": nccl()}


def compared(name: str, text: str) -> None:
    path = HERE / name
    if os.environ.get("RANKZERO_UPDATE_GOLDEN"):
        HERE.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing"
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SWEEPS)
def test_the_table(name: str) -> None:
    swept = SWEEPS[name]
    lines = report.table(swept, judge(swept, RULE), RULE, suggest(CLUSTER, swept["facts"]))
    compared(f"{name}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", SWEEPS)
def test_the_file(name: str) -> None:
    swept = SWEEPS[name]
    text = group_vars.render(swept, judge(swept, RULE), suggest(CLUSTER, swept["facts"]))
    compared(f"{name}.yml", text)
    # It is what launch_cluster.fabrics takes, and known as ours until somebody changes it.
    known = OWN_FABRICS.parse(yaml.safe_load(text)["nccl_measured"])
    assert {item.name: item.value for item in known["measured"]} == {
        variable: setting["value"] for variable, setting in group_vars.measured(swept).items()
    }
    assert group_vars.is_ours(text)
    assert not group_vars.is_ours(text + "own: true\n")
    assert not group_vars.is_ours(text.replace("---\n", "", 1))
