# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is slow: a node, a pair, everybody; and who only seems to be."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.judge import Rule, judge, limit, unlike
from tests.unit.fabric.sweeps import MB, adapter, facts, four, measure, result

RULE = Rule(0.7, 4.0)


def judged(swept: Any, rule: Rule = RULE) -> tuple[str, list[str], list[list[str]]]:
    verdict = judge(swept, rule)
    return verdict["verdict"], verdict["slow_nodes"], verdict["slow_pairs"]


def test_where_nothing_stands_out_nothing_is_said() -> None:
    found = judge(four(), RULE)
    assert (found["verdict"], found["findings"]) == ("fine", [])
    assert found["median"] == pytest.approx(504.5 * MB)
    assert found["nodes"][0] == {"name": "n1", "best": 502 * MB, "worst": 500 * MB, "pairs": 3, "slow": False}


def test_a_slow_node_is_slow_with_everybody_and_its_partners_are_not() -> None:
    found = judge(four("n3"), RULE)
    assert (found["verdict"], found["slow_nodes"], found["slow_pairs"]) == ("slow_nodes", ["n3"], [])
    assert found["findings"] == [
        "slow node n3: at best 5.00 MB/s, 1.0 % of the median, with each of its 3 partners",
        "all 4 nodes together: 5.00 MB/s, 1.0 % of the median pair; they wait for n3",
    ]


def test_a_slow_pair_accuses_no_node() -> None:
    swept = four()
    swept["measures"][0] = measure(("n1", "n2"), 1.0, 20.0)
    found = judge(swept, RULE)
    assert (found["verdict"], found["slow_nodes"], found["slow_pairs"]) == ("slow_pairs", [], [["n1", "n2"]])
    assert found["findings"] == [
        (
            "slow pair n1 and n2: 20 MB/s, 4 % of the median, and both are fine with others: "
            "check the switches and cables between them"
        )
    ]


def test_everything_slow_needs_an_expectation() -> None:
    assert judged(four(), Rule(0.7, 4.0, expected=800 * MB))[0] == "all_slow"
    assert judged(four(), Rule(0.7, 4.0, expected=600 * MB))[0] == "fine"
    (finding,) = judge(four(), Rule(0.7, 4.0, expected=50e9))["findings"]
    assert finding.startswith("everything is slow: the median is 504 MB/s, 1 % of the 50.0 GB/s expected")


def test_two_nodes_have_nothing_to_be_compared_with() -> None:
    assert judged(result(measure(("n1", "n2"), 0.1))) == ("unknown", [], [])


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([100, 100, 100], 70.0),  # they do not scatter: the share decides
        ([100, 101, 99, 100], 70.0),
        ([100, 60, 140, 100, 100], 70.0),
        ([100, 50, 150, 60, 140], 35.0),  # they scatter so much that only what is far below is one
        ([100, 90, 110, 80, 120], 100 - 4 * 1.4826 * 10),
    ],
)
def test_an_outlier_is_one_by_both_rules_or_far_below(numbers: list[float], expected: float) -> None:
    assert limit(numbers, RULE) == pytest.approx(expected)


def test_a_stricter_rule_finds_more() -> None:
    swept = four("n3", number=450.0)
    assert judged(swept)[1] == []
    assert judged(swept, Rule(0.95, 4.0))[1] == ["n3"]
    assert judged(swept, Rule(0.95, 400.0))[1] == []


def test_a_node_that_could_not_be_measured_is_slow_and_says_why() -> None:
    swept = four()
    for place, one in enumerate(swept["measures"]):
        if "n2" in one["nodes"] and one["kind"] == "pair":
            swept["measures"][place] = measure(one["nodes"], error="n2: Connection refused")
    found = judge(swept, RULE)
    assert found["slow_nodes"] == ["n2"]
    assert found["findings"] == ["slow node n2: no pair with it could be measured (n2: Connection refused)"]
    swept["measures"][-1] = measure(swept["nodes"], kind="set", error="n2: no word of it")
    assert judge(swept, RULE)["findings"][-1] == "all 4 nodes together could not be measured: n2: no word of it"


def test_a_pair_that_failed_between_two_fine_nodes_is_a_slow_pair() -> None:
    swept = four()
    swept["measures"][0] = measure(("n1", "n2"), error="n1: timed out")
    found = judge(swept, RULE)
    assert found["slow_pairs"] == [["n1", "n2"]]
    assert found["findings"] == [
        "slow pair n1 and n2: could not be measured (n1: timed out), and both are fine with others"
    ]


def test_all_nodes_together_may_be_slower_than_any_pair() -> None:
    swept = four()
    swept["measures"][-1] = measure(swept["nodes"], 1.0, 100.0, kind="set")
    found = judge(swept, RULE)
    assert found["verdict"] == "fine"
    (finding,) = found["findings"]
    assert finding.startswith("all 4 nodes together: 100 MB/s, 20 % of the median pair; what they share (links between")


def test_who_is_slow_with_the_settings_of_today_is_slow_although_others_are_better() -> None:
    swept = four("n3", number=1.0)
    better = [measure(one["nodes"], 1.0, 900.0, candidate="eth0") for one in four()["measures"][:-1]]
    swept["measures"] += better
    swept["candidates"].append({"name": "eth0", "variables": {}, "interface": "eth0", "median": 900 * MB})
    found = judge({**swept, "chosen": "eth0"}, RULE)
    assert (found["verdict"], found["slow_nodes"], found["slow_pairs"]) == ("slow_nodes", ["n3"], [])
    assert found["findings"] == [
        "with current: slow node n3: at best 1.00 MB/s, 0.2 % of the median, with each of its 3 partners"
    ]
    assert found["median"] == 900 * MB


def test_a_candidate_that_is_neither_chosen_nor_current_accuses_nobody_and_one_that_failed_is_told() -> None:
    swept = four()
    swept["candidates"].append({"name": "hca", "variables": {}, "interface": "ib1", "median": 0.0})
    swept["measures"].append(measure(("n1", "n2"), candidate="hca", error="n1, n2: has no ib1"))
    found = judge(swept, RULE)
    assert (found["verdict"], found["slow_nodes"]) == ("fine", [])
    assert found["findings"] == ["candidate hca could not be measured: n1, n2: has no ib1"]


def test_settings_with_which_nothing_works_accuse_no_node() -> None:
    swept = four()
    swept["measures"] += [measure(one["nodes"], error="has no ib7", candidate="now") for one in swept["measures"][:-1]]
    swept["candidates"].insert(0, {"name": "now", "variables": {}, "interface": "ib7", "median": 0.0})
    found = judge(swept, RULE)
    assert (found["verdict"], found["slow_nodes"]) == ("fine", [])
    assert found["findings"] == ["candidate now could not be measured: has no ib7"]


def test_a_node_with_other_hardware_is_told() -> None:
    usual = facts(rdma=[adapter("InfiniBand")], gpus=8)
    odd = facts({"eth0": False}, rdma=[adapter("InfiniBand", "25 Gb/sec (1X HDR)")], gpus=7)
    assert unlike({"n1": usual, "n2": usual, "n3": odd}) == [
        "n3 is unlike the others: interfaces eth0, not eth0, ib0",
        "n3 is unlike the others: adapters mlx5_0 25 Gb/sec (1X HDR), not mlx5_0 400 Gb/sec (4X NDR)",
        "n3 is unlike the others: GPUs 7, not 8",
    ]
    assert unlike({"n1": usual, "n2": odd}) == []
