# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank of a slow job the others wait for, and a rank whose memory its node has swapped out."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import standstill, stragglers
from tests.unit.diagnosis.test_standstill import collective, nodes, stack

DATA = stack(("/code/data.py", 42, "__next__"), ("/code/train.py", 30, "main"))
WORK = stack(("/code/model.py", 7, "forward"), ("/code/train.py", 31, "main"))


def look(*late: int, ranks: int = 4, text: str = DATA) -> list[dict[str, object]]:
    return nodes(*[text if rank in late else collective() for rank in range(ranks)])


def test_the_rank_that_most_looks_show_outside_of_the_collective_is_late() -> None:
    found = stragglers.straggler([look(3), look(0), look(3), look(3)] * 4, {"node02": "load 96 (usual 4)"})
    assert found is not None and [one.rank for one in found.ranks] == [3]
    assert found.message == (
        "rank 3 on node02 waits (/code/data.py:42, in __next__), on a node with load 96 (usual 4): "
        "the others wait in collectives while it works"
    )
    assert found.kind == "slow" and "resources.exclude: [node02]" in found.remedy


def test_a_late_rank_does_what_most_looks_at_its_line_show() -> None:
    def at_work(waits_in: str) -> list[dict[str, object]]:
        return nodes(collective(), collective(), collective(), DATA, waits_in=waits_in)

    found = stragglers.straggler([at_work("hrtimer_nanosleep")] * 6 + [at_work("futex_wait_queue")] * 2, {})
    assert found is not None and "rank 3 on node02 sleeps (/code/data.py:42, in __next__)" in found.message


@pytest.mark.parametrize(
    "looks",
    [
        [look(3)],
        [look(3), look(0), look(1), look(2)] * 4,
        [look(0, 1, 2, 3, text=WORK)] * 16,
        [look()] * 16,
        [],
    ],
    ids=["one look", "in turn", "all work", "all wait", "nobody answers"],
)
def test_nothing_is_said_where_no_rank_stands_out(looks: list[list[dict[str, object]]]) -> None:
    assert stragglers.straggler(looks, {}) is None


def test_a_slow_link_and_an_odd_node_are_named_where_all_ranks_wait() -> None:
    link = {"node": "node01", "network": [{"from": "node01", "to": "node02"}]}
    others: list[dict[str, object]] = [{"node": "node03"}, {"node": "node04"}]
    found = stragglers.straggler([[*look(), link, *others]] * 3, {})
    assert found is not None and found.message.startswith("node01, whose connections have unsent data; node02")
    odd = stragglers.straggler([look()] * 3, {"node02": "GPU 0 at 90 W (usual 400 W)"})
    assert odd is not None and odd.message == "node02: GPU 0 at 90 W (usual 400 W)"
    assert [one.rank for one in odd.ranks] == [2, 3]


def test_a_rank_whose_own_steps_take_longer_is_named_without_a_look() -> None:
    found = stragglers.straggler([], {}, (5,))
    assert found is not None and found.message == "rank 5: its own steps take longer"


@pytest.mark.parametrize(
    ("pages", "kilobytes", "swaps"), [(900.0, 200_000, True), (900.0, 12, False), (2.0, 200_000, False)]
)
def test_a_rank_that_waits_for_swapped_memory_says_so(pages: float, kilobytes: int, swaps: bool) -> None:
    documents = nodes(collective(), collective(), collective(), DATA, state="D", swap_kb=kilobytes)
    verdict = standstill.verdict(standstill.states_of([{**one, "swapped_in": pages} for one in documents]))
    assert verdict is not None and [one.rank for one in verdict.ranks] == [3]
    assert ("waits for memory that its node has swapped out" in verdict.message) is swaps
