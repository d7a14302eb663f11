# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank the others wait for, from stacks in the shape that faulthandler and py-spy write."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import standstill

TORCH = "/env/lib/python3.11/site-packages/torch/"
POLL = 'Thread 0x00007f01 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 320 in wait\n\n'


def stack(*frames: tuple[str, int, str]) -> str:
    lines = "".join(f'  File "{file}", line {line} in {name}\n' for file, line, name in frames)
    return f"{POLL}Current thread 0x00007f02 (most recent call first):\n{lines}"


def collective(name: str = "all_reduce", line: int = 50) -> str:
    return stack(
        (TORCH + "distributed/distributed_c10d.py", 2900, name),
        (TORCH + "distributed/c10d_logger.py", 81, "wrapper"),
        ("/code/train.py", line, "main"),
    )


def nodes(*stacks: str, **culprit: object) -> list[dict[str, object]]:
    """A node for each two ranks. `culprit`: more of the last rank."""
    rows: list[dict[str, object]] = [
        {"rank": rank, "state": "S", "cpu": 0.0, "waits_in": "", "stack": text} for rank, text in enumerate(stacks)
    ]
    rows[-1].update(culprit)
    return [{"node": f"node{at // 2 + 1:02}", "processes": rows[at : at + 2]} for at in range(0, len(rows), 2)]


def judged(*stacks: str, **culprit: object) -> standstill.Verdict | None:
    return standstill.verdict(standstill.states_of(nodes(*stacks, **culprit)))


@pytest.mark.parametrize(
    ("more", "activity"),
    [
        ({"waits_in": "hrtimer_nanosleep"}, "sleeps"),
        ({"waits_in": "futex_do_wait"}, "waits for a lock or another thread"),
        ({"state": "D"}, "waits for a disk or a network file system"),
        ({"state": "R", "cpu": 1.0}, "computes"),
    ],
)
def test_the_rank_outside_the_collective_is_the_culprit(more: dict[str, object], activity: str) -> None:
    data = stack(("/code/data.py", 42, "__next__"), ("/code/train.py", 30, "main"))
    verdict = judged(collective(), collective(), collective(), data, **more)
    assert verdict is not None and verdict.kind == "behind"
    (rank,) = verdict.ranks
    assert (rank.rank, rank.node, rank.place) == (3, "node02", "/code/data.py:42, in __next__")
    assert rank.activity == activity
    assert "3 other ranks wait in all_reduce (/code/train.py:50, in main)" in verdict.message


def test_a_stopped_rank_is_the_culprit_without_a_stack() -> None:
    verdict = judged(collective(), collective(), collective(), "", state="T")
    assert verdict is not None and [one.rank for one in verdict.ranks] == [3]


def test_different_operations_are_a_mismatch() -> None:
    verdict = judged(collective(), collective(), collective(), collective("barrier", 70))
    assert verdict is not None and (verdict.kind, [one.rank for one in verdict.ranks]) == ("mismatch", [3])
    assert verdict.ranks[0].operation == "barrier"


def test_no_rank_is_blamed_where_all_wait_in_the_same_place() -> None:
    verdict = judged(collective(), collective())
    assert verdict is not None and (verdict.kind, verdict.ranks) == ("same", ())


def test_a_rank_that_waits_for_gradients_is_no_culprit() -> None:
    backward = stack((TORCH + "autograd/graph.py", 869, "_engine_run_backward"), ("/code/train.py", 40, "main"))
    data = stack(("/code/data.py", 42, "__next__"))
    verdict = judged(backward, backward, data)
    assert verdict is not None and [one.rank for one in verdict.ranks] == [2]


def test_nothing_is_said_without_knowledge() -> None:
    assert standstill.verdict([]) is None
    assert judged("", "") is None
    assert judged(stack(("/code/a.py", 1, "f")), stack(("/code/a.py", 1, "f"))) is None
    assert standstill.states_of([{"processes": [None, {"rank": "x"}, 3]}, {"processes": "no"}]) == []


def test_py_spys_stacks_are_read() -> None:
    text = (
        'Thread 9 (idle): "Thread-1"\n    wait (threading.py:320)\n'
        'Thread 7 (idle): "MainThread"\n    __next__ (/code/data.py:42)\n    <module> (/code/train.py:9)\n'
    )
    assert standstill.main_thread(text)[0] == standstill.Frame("/code/data.py", 42, "__next__")
    assert len(standstill.main_thread(text)) == 2
