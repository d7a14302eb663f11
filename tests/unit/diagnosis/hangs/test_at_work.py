# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evaluation or a checkpoint is no standstill: by all ranks, or by one for which the others wait."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import standstill
from tests.unit.diagnosis.test_standstill import collective, nodes, stack

MATMUL = "/env/lib/python3.11/site-packages/torch/nn/functional.py"


def inside(name: str, *, library: bool = False) -> str:
    """A stack in a function of the program, or of a library that the program calls."""
    called = (MATMUL if library else "/code/train.py", 9, name)
    return stack((MATMUL, 2, "linear"), called, ("/code/train.py", 30, "main"))


def judged(*stacks: str, world: int = 4, **last: object) -> standstill.Verdict | None:
    return standstill.verdict(standstill.states_of(nodes(*stacks, **last)), world)


@pytest.mark.parametrize(
    ("name", "at_work"),
    [
        ("evaluate", True), ("run_validation", True), ("save_checkpoint", True), ("test_epoch", True),
        ("generate_samples", True), ("EvalLoop", False), ("read_shard", False), ("interval", False), ("latest", False),
        ("retrieval", False),
    ],
)  # fmt: skip
def test_the_rank_that_the_others_wait_for_may_evaluate_or_save(name: str, at_work: bool) -> None:
    verdict = judged(collective(), collective(), collective(), inside(name))
    assert verdict is not None and [rank.rank for rank in verdict.ranks] == [3]
    assert verdict.at_work is verdict.as_dict()["at_work"] is at_work
    assert f"in {name}" in verdict.message


def test_a_function_of_a_library_is_no_evaluation_of_the_program() -> None:
    verdict = judged(collective(), collective(), collective(), inside("evaluate", library=True))
    assert verdict is not None and not verdict.at_work


@pytest.mark.parametrize("state", ["T", "D"])
def test_an_evaluation_that_is_stopped_or_blocked_stands_still(state: str) -> None:
    verdict = judged(collective(), collective(), collective(), inside("evaluate"), state=state)
    assert verdict is not None and not verdict.at_work


def test_where_all_ranks_are_in_code_of_their_own_none_waits_for_another() -> None:
    verdict = judged(*[inside("score")] * 4, waits_in="", cpu=1.0)
    assert verdict is not None and verdict.kind == standstill.WORK and verdict.at_work and not verdict.ranks
    assert "no rank waits for another: 3 of 4" in verdict.message and "/code/train.py:9, in score" in verdict.message


def test_where_a_rank_is_blocked_by_a_file_system_they_may_stand_still() -> None:
    verdict = judged(*[inside("evaluate")] * 4, state="D")
    assert verdict is None or not verdict.at_work


@pytest.mark.parametrize(("stacks", "world"), [((), 4), ((inside("score"),), 4), ((inside("score"), ""), 2)])
def test_nothing_is_known_where_a_rank_shows_nothing(stacks: tuple[str, ...], world: int) -> None:
    verdict = judged(*stacks, world=world) if stacks else standstill.verdict([], world)
    assert verdict is None or verdict.kind != standstill.WORK


def test_an_upload_that_outlives_the_other_ranks_is_named() -> None:
    verdict = judged(inside("save_model"), world=1)
    assert verdict is not None and verdict.kind == standstill.WORK
    verdict = judged(inside("upload"), world=4)
    assert verdict is not None and verdict.kind == "behind" and not verdict.at_work
