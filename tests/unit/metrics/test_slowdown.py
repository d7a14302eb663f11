# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a job is slow: its steps take longer than before, or those of a rank longer than the others'; odd nodes."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import monitor
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import RankLog
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.slowdown import find_slowdown
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import step_times


def steps(*times: float, first: int = 1) -> str:
    return "".join(f"step {first + at}/999 loss 2.0 ({1000 * time:.0f} ms)\n" for at, time in enumerate(times))


def log(early: float, late: float) -> RankLog:
    return RankLog(steps(9.0, 9.0, *[early] * 8), steps(*[late] * 12, first=100), 0.0)


def test_steps_that_take_longer_than_before() -> None:
    slow = find_slowdown([(0, log(0.5, 2.0))])
    assert slow is not None and (slow.usual, slow.now, slow.ranks) == (0.5, 2.0, ())
    assert slow.sentence == "steps take 2 s, 4.0 times as long as before (0.5 s)"
    assert find_slowdown([(0, log(0.5, 0.9))]) is None
    assert find_slowdown([(0, RankLog("", steps(0.5), 0.0))]) is find_slowdown([]) is None


def test_a_rank_whose_own_steps_take_longer() -> None:
    ranks = [(rank, log(0.5, 2.0 if rank == 6 else 0.5)) for rank in range(8)]
    slow = find_slowdown(ranks)
    assert slow is not None and slow.ranks == (6,) and slow.sentence == "steps take 0.5 s"
    assert find_slowdown([(0, log(0.5, 0.5)), (1, log(0.5, 0.9))]) is None, "too few to compare"


def test_step_times_are_those_between_time_stamps_where_none_is_stated() -> None:
    text = "".join(f"2026-03-01 10:00:{at:02} step {number} loss 2.0\n" for number, at in ((1, 0), (2, 4), (4, 12)))
    assert step_times(text) == [4.0, 4.0]


def sampled(node: str, load: float, power: float) -> monitor.NodeSamples:
    gpu = monitor.GpuSample(utilisation=99.0, power=power, temperature=60.0)
    return monitor.NodeSamples(node, load=load, peak_memory_mb=100.0, memory_total_mb=1000.0, gpus={"0": gpu})


def test_a_node_is_odd_that_differs_from_most() -> None:
    usual = {f"n{number}": sampled(f"n{number}", 4.0, 400.0) for number in range(4)}
    odd = {"n7": sampled("n7", 96.0, 100.0)}
    assert monitor.odd_nodes({**usual, **odd}) == {"n7": "load 96 (usual 4), GPU 0 at 100 W (usual 400 W)"}
    assert monitor.odd_nodes(usual) == {}
    full = monitor.NodeSamples("n8", load=4.0, peak_memory_mb=990.0, memory_total_mb=1000.0)
    hot = monitor.NodeSamples("n9", load=4.0, gpus={"1": monitor.GpuSample(temperature=92.0)})
    found = monitor.odd_nodes({**usual, "n8": full, "n9": hot})
    assert found == {"n8": "memory 99 % full", "n9": "GPU 1 at 92 degrees"}


def test_clocks_of_whole_seconds_and_steps_below_one_show_a_slowdown() -> None:
    text, now = "", 0.0
    for step in range(1, 120):
        now += 0.2 if step < 100 else 2.0
        text += f"2026-01-01 00:{int(now) // 60:02}:{int(now) % 60:02} step {step} loss 1\n"
    slow = find_slowdown([(0, RankLog(text, text, 0.0))])
    assert slow is not None and (round(slow.usual, 1), slow.now) == (0.2, 2.0)
