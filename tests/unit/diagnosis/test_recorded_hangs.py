# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on hangs of a real program in torch.distributed, as a node recorded them (hangs/record.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import Event, FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import standstill, stragglers
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import LIMIT
from ansible_collections.rankzero.slurm.plugins.module_utils.run import rank_looks

RECORDED = Path(__file__).resolve().parent / "hangs"


def judged(case: str) -> standstill.Verdict:
    document = json.loads((RECORDED / f"{case}.json").read_text(encoding="utf-8"))
    verdict = standstill.verdict(standstill.states_of([document]), world=4)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("case", "kind", "ranks", "words"),
    [
        ("alone", "alone", [2], ["rank 2 on node01 waits alone in all_reduce #6 (", "3 other ranks compute ("]),
        ("ended", "alone", [0], ["rank 0 on node01 waits in new_group (", "no process is seen of 3 other ranks"]),
        ("subgroup", "mismatch", [0], ["rank 0 on node01 waits in all_reduce #2 (", "but 3 in all_reduce ("]),
        ("late", "behind", [1], ["rank 1 on node01 computes (", "in evaluate); 2 other ranks wait in all_reduce #6 ("]),
    ],
)  # fmt: skip
def test_the_rank_at_fault_is_named(case: str, kind: str, ranks: list[int], words: list[str]) -> None:
    verdict = judged(case)
    assert (verdict.kind, [rank.rank for rank in verdict.ranks]) == (kind, ranks)
    assert all(word in verdict.message for word in words), verdict.message
    assert ("exclude" in verdict.remedy) is (kind == "behind")


@pytest.mark.parametrize("apart", range(8))
def test_the_rank_whose_steps_take_half_as_long_again_is_named_with_what_makes_them_so(apart: int) -> None:
    """Of two nodes, which look at their ranks at moments of their own."""
    document = json.loads((RECORDED / "slow.json").read_text(encoding="utf-8"))
    looks = rank_looks.looks_of([document])
    shifted = looks[apart:] + looks[:apart]
    halves = [
        [{**one, "processes": one["processes"][:2]}, {**two, "node": "node02", "processes": two["processes"][2:]}]
        for (one,), (two,) in zip(looks, shifted)
    ]
    named = stragglers.straggler(halves, {})
    assert named is not None and [rank.rank for rank in named.ranks] == [2]
    assert "rank 2 on node02 " in named.message and ", in read_batch)" in named.message


def test_connections_that_torch_tried_in_vain_are_why_somebody_cancelled() -> None:
    path = str(RECORDED / "connect.log")
    cancelled = Event("preempted_or_cancelled", LIMIT, "CANCELLED", 1, file="Slurm", witness=True)
    found = cause.find_cause([*scan.scan([path], 1).logs, FileEvents("Slurm", [cancelled], lines=1)], failed=True)
    assert (found.family, found.root.file if found.root else "") == ("rendezvous_failure", path)
