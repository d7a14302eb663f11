# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch checklist and stalls, from the ends of logs; and what the monitors wrote."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import checklist, monitor
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.silence import find_silence, find_stall
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import seconds_in

BANNER = "[rankzero] RANK={0} LOCAL_RANK=0 WORLD_SIZE={1} NODE_RANK=0 host=n1\n"


def log(text: str, modified: float = 1000.0, rank: int = 0, world: int = 2) -> checklist.RankLog:
    return checklist.RankLog(BANNER.format(rank, world) + text, text, modified)


def answers(logs: dict[int, checklist.RankLog], **known: float) -> dict[str, tuple[str, bool | None]]:
    ranks = {rank: checklist.facts_of(log, known.get("begun")) for rank, log in logs.items()}
    return {one.question: (one.answer, one.ok) for one in checklist.answers(ranks, **known)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (
            " iteration 20/ 100 | consumed samples: 640 | elapsed time per iteration (ms): 512.5 | lm loss: 2.1E+00 |",
            0.5125,
        ),
        ("step 3/30 loss 0.5 (12.0 ms)", 0.012),
        ("step 3 loss 2.0 step_time: 1.5s", 1.5),
        ("{'loss': 2.3} 12%|#| 12/100 [00:10<01:00, 4.00it/s]", 0.25),
        (" 12%|#| 12/100 [00:10<01:00, 2.50s/it]", 2.5),
        ("step 3/30 loss 0.5", None),
    ],
)
def test_a_line_says_how_long_a_step_took(line: str, seconds: float | None) -> None:
    assert seconds_in(line) == pytest.approx(seconds)


def test_time_stamps_decide_over_what_lines_say() -> None:
    lines = "".join(
        f"2026-01-01 00:00:{second:02d},500 step {step} loss 1 (9 ms)\n" for step, second in ((1, 0), (2, 4), (3, 8))
    )
    found = checklist.progress_of(log(lines), None)
    assert found is not None
    assert (found.step, found.seconds) == (3, 4.0)


def test_what_came_before_the_steps_is_no_part_of_their_time() -> None:
    """Imports and start-up of 40 s, then ten steps of 6 s whose lines give no time."""
    text = "".join(f"step {step}/90 loss 1\n" for step in range(1, 11))
    found = checklist.progress_of(log(text, modified=1100.0), 1000.0)
    assert found is not None and (found.seconds, found.average) == (None, 10.0)
    assert answers({0: log(text, modified=1100.0)}, begun=1000.0, now=1101.0)["steps"] == (
        "step 10 of 90, the last 1 s ago",
        True,
    )
    # The average with them is too long for a step, and no less than one: it may say that there is none any more.
    found_stall = stall({0: log(text, modified=1100.0)}, 1300.0, 1000.0)
    assert found_stall is not None and (found_stall.median, found_stall.step) == (None, 10)
    assert "the median step" not in found_stall.sentence
    assert stall({0: log(text, modified=1100.0)}, 1150.0, 1000.0) is None
    stamped = "".join(f"2026-01-01 00:01:{40 + 6 * step:02} step {step}/90 loss 1\n" for step in range(1, 4))
    assert answers({0: log(f"2026-01-01 00:00:00 importing\n{stamped}")})["steps"] == ("step 3 of 90, 6 s a step", True)


def test_the_check_list_of_a_run() -> None:
    said = (
        BANNER.format(0, 2)
        + "x NCCL INFO NET/Socket : Using [0]eth0\nstep 4/9 loss 1 (500 ms)\nsaved checkpoint to /c/4\n"
    )
    found = answers({0: log(said), 1: log("", rank=1)}, world=3, begun=900.0, now=1003.0)
    assert found["all ranks started"] == ("2 of 2 started with WORLD_SIZE 2; nothing from rank 2", False)
    assert found["world size"] == ("2", False)
    assert found["network"] == ("NCCL over Socket; Socket is the slow way", False)
    assert found["steps"] == ("step 4 of 9, 0.5 s a step, the last 3 s ago", True)
    assert found["model saved"] == ("rank 0 reports it", True)
    begun = answers({0: log("step 4/9 loss 1\nSaving checkpoint to /c/4\n")})
    assert begun["model saved"] == ("it has begun, no rank reports its end", None)


def test_of_thousands_of_ranks_the_ends_of_each_log_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less of each log, and nothing of it is kept: what is found is the same."""
    monkeypatch.setattr(checklist, "ALL_BYTES", 1)
    monkeypatch.setattr(checklist, "ALL_STEPS", 1)
    steps = "".join(f"step {step} loss 2 ({step} ms)\n" for step in range(4000))
    for rank in (0, 1):
        (tmp_path / f"{rank}.log").write_text(BANNER.format(rank, 2) + steps + "Checkpoint 7 was written\n")
    found = checklist.all_facts({rank: str(tmp_path / f"{rank}.log") for rank in (0, 1, 2)})
    assert [(facts.banner, facts.host, facts.saved) for facts in found.values()] == [
        ((0, 2), "n1", True), ((1, 2), "n1", True), (None, None, False)
    ]  # fmt: skip
    assert found[1].progress is not None and found[2].progress is None
    assert (found[1].progress.step, found[1].progress.seconds) == (3999, pytest.approx(3.996))


def test_the_last_lines_of_a_silent_rank_take_no_more_memory_than_those_of_each(tmp_path: Path) -> None:
    """Rank 1 ends, then rank 0 writes a million lines into the file that they share."""
    path, lines = tmp_path / "n1.ranks-0-1.log", 10**6
    with path.open("w", encoding="utf-8") as stream:
        stream.write(f"0: {BANNER.format(0, 2)}0: step 1 loss 3.0\n1: {BANNER.format(1, 2)}1: RuntimeError: of one\n")
        stream.writelines(f"0: step {step} loss 2.5\n" for step in range(2, lines))
    tracemalloc.start()
    try:
        ends = dict(checklist.ends_by_rank({0: str(path), 1: str(path)}))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ends[1].tail.endswith("RuntimeError: of one\n") and ends[1].head.startswith("[rankzero] RANK=1 ")
    assert ends[0].tail.endswith(f"\nstep {lines - 1} loss 2.5\n") and len(ends[0].tail) == checklist.TAIL_BYTES
    assert ends[0].head.startswith("[rankzero] RANK=0 ") and len(ends[0].head) == checklist.HEAD_BYTES
    assert most < 16 << 20, f"{most >> 20} MB of a file of {path.stat().st_size >> 20} MB"


def test_a_line_without_an_end_does_not_hide_the_other_rank(tmp_path: Path) -> None:
    path = tmp_path / "n1.ranks-0-1.log"
    path.write_text("1: begun\n1: ended\n0: " + "x" * (5 << 20) + " the last\n", encoding="utf-8")
    ends = dict(checklist.ends_by_rank({0: str(path), 1: str(path)}))
    assert ends[1].head == ends[1].tail == "begun\nended\n"
    assert ends[0].head.startswith("xxx") and ends[0].tail.endswith("x the last\n")


def test_no_step_is_a_matter_of_time() -> None:
    assert answers({0: log("loading")}, begun=900.0, now=960.0)["first step"][1] is None
    assert answers({0: log("loading")}, begun=900.0, now=9960.0)["first step"] == (
        "none yet, 9060 s after the start",
        False,
    )
    assert answers({}) == {}


def stall(logs: dict[int, checklist.RankLog], now: float, begun: float | None = None) -> checklist.Stall | None:
    return find_stall({rank: checklist.facts_of(log, begun) for rank, log in logs.items()}, now, 10.0, 60.0)


def test_a_silence_counts_until_a_step_has_a_time() -> None:
    def silence(text: str, now: float) -> checklist.Stall | None:
        return find_silence({0: checklist.facts_of(log(text, 1000.0))}, 900.0, now, 60.0)

    assert silence("loading\n", 1050.0) is None
    before, first = silence("loading\n", 1070.0), silence("step 1 loss 3\n", 1070.0)
    assert before is not None and (before.age, before.median, before.step) == (70.0, None, None)
    assert before.sentence == "no step yet, and no line in any log for 70 s"
    assert first is not None and first.step == 1
    assert silence("step 1 loss 3 (500 ms)\nstep 2 loss 3 (500 ms)\n", 1070.0) is None, "find_stall knows that"
    assert before.as_dict()["median"] is None


def test_after_the_last_step_none_is_missing_and_silence_counts_again() -> None:
    logs = {0: checklist.facts_of(log("".join(f"step {n}/20 loss 3 (500 ms)\n" for n in range(1, 21)), 1000.0))}
    assert find_stall(logs, 1070.0, 10.0, 60.0) is None, "it saves its model"
    silence = find_silence(logs, 900.0, 1070.0, 60.0)
    assert silence is not None and silence.step == 20, "its ranks are looked at"
    behind = checklist.facts_of(log("step 19/20 loss 3 (500 ms)\n", 1000.0))
    assert find_stall({0: behind}, 1070.0, 10.0, 60.0)
    one = find_stall({**logs, 1: behind}, 1070.0, 10.0, 60.0)
    assert one is not None and one.behind == (1,), "a step of that rank is missing"


def test_steps_within_a_second_have_a_time_by_clocks_of_whole_seconds() -> None:
    text = "".join(
        f"2026-01-01 00:00:{second:02} step {4 * second + n} loss 1\n" for second in range(9) for n in range(4)
    )
    facts = checklist.facts_of(log(text))
    assert facts.progress is not None and facts.progress.seconds == 0.25


def test_a_job_stands_still_when_no_rank_makes_a_step() -> None:
    steps = "".join(f"step {n}/99 loss 1 (2000 ms)\n" for n in range(1, 6))
    logs = {0: log(steps, 1000.0), 1: log(steps + "step 6/99 loss 1 (2000 ms)\n", 1010.0), 2: log(steps, 1000.0)}
    assert stall(logs, 1060.0) is None
    found = stall(logs, 1100.0)
    assert found is not None
    assert (found.step, found.behind, found.median) == (6, (0, 2), 2.0)
    assert found.sentence == "no step for 90 s, 45 times the median step of 2 s; behind: ranks 0, 2"


def test_where_one_rank_tells_its_steps_the_one_that_went_quiet_is_behind() -> None:
    steps = "".join(f"step {n}/99 loss 1 (1000 ms)\n" for n in range(1, 900))
    logs = {0: log(steps, 1000.0), 1: log("", 995.0), 2: log("", 300.0), 3: log("", 999.0)}
    found = stall(logs, 1100.0)
    assert found is not None and found.behind == (2,)
    # Where all but one are quiet nothing is said: they never write.
    logs[1], logs[3] = log("", 200.0), log("", 200.0)
    found = stall(logs, 1100.0)
    assert found is not None and found.behind == ()
    assert stall({0: log("no steps", 1.0)}, 9999.0) is None


def test_samples_of_nodes(tmp_path: Path) -> None:
    """nvidia-smi's lines are written by hand in its format."""
    (tmp_path / "n1.host.csv").write_text(
        "time,load1,mem_used_mb,cpu_percent,mem_total_mb\n2026-01-01T00:00:00,1.5,500,20,1000\n2026-01-01T00:00:15,0.5,400,5,1000\n"
    )
    for node, use in (("n1", 100), ("n2", 98), ("n3", 0)):
        (tmp_path / f"{node}.gpu.csv").write_text(
            "timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu\n"
            f"2026/01/01 00:00:00.000, 0, 88.1 W, 50 %, 900 MiB, 61\n"
            f"2026/01/01 00:00:15.000, 0, 88.1 W, {use} %, 800 MiB, 55\n"
            "Failed to initialize NVML: Unknown Error\n"
        )
    found = monitor.read_samples(Beneath(str(tmp_path)))
    assert (found["n1"].load, found["n1"].memory_percent) == (0.5, 50.0)
    gpu = found["n2"].gpus["0"]
    assert (gpu.utilisation, gpu.peak_memory_mb, gpu.peak_temperature, gpu.power) == (98, 900, 61, 88.1)
    assert found["n3"].complaints[0][1:] == (4, "Failed to initialize NVML: Unknown Error")
    assert monitor.idle_nodes(found) == ["n3"]
    assert monitor.read_samples(Beneath(str(tmp_path / "none"))) == {}


def test_of_a_long_series_the_end_is_read(tmp_path: Path) -> None:
    row = "2026-01-01T00:00:00+0000,1.5,500,20,1000\n"
    (tmp_path / "n1.host.csv").write_text(
        "time,load1,mem_used_mb,cpu_percent,mem_total_mb\n" + row * 5000 + row.replace("1.5", "7")
    )
    assert monitor.read_samples(Beneath(str(tmp_path)))["n1"].load == 7
