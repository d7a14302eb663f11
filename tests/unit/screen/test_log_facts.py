# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fetched logs say of a run, in both styles of names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import rank_of
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import ends_by_rank, progress_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card, last_words
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, FetchedLogs, Launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.log_facts import evidence, rank_logs


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("0/rank-0000.log", 0),
        ("rank-0012.log", 12),
        ("rank-10000.log", 10000),
        ("1/ddp.123.node03.5.out", 5),
        ("ddp-v1.2.123.node03.example.org.10.out", 10),
        ("step.log", None),
        ("job.7.log", None),
        ("rank-0001.txt", None),
        ("a.out", None),
    ],
)
def test_the_rank_of_a_log_in_either_style(path: str, rank: int | None) -> None:
    assert rank_of(path) == rank


def banner(rank: int, world: int) -> str:
    return f"[rankzero] RANK={rank} LOCAL_RANK=0 WORLD_SIZE={world} NODE_RANK=0 host=node01 attempt=0\n"


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(folder)


def test_all_ranks_have_started_and_the_last_one_says_the_losses(tmp_path: Path) -> None:
    """As Megatron does: the last rank prints them. Of an older attempt nothing is shown."""
    write(tmp_path, "0/gpt.7.node01.0.out", banner(0, 99))
    for rank in range(4):
        lines = "".join(
            f" iteration {step:8d}/ 20 | consumed samples: 1 | lm loss: {9 - step / 4:E} |\n" for step in range(1, 21)
        )
        text = (
            banner(rank, 4) + "node01:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n" + (lines if rank == 3 else "")
        )
        write(tmp_path, f"1/gpt.7.node0{rank}.{rank}.out", text)
    assert list(rank_logs(Beneath(str(tmp_path)))) == [0, 1, 2, 3]
    rows = evidence(str(tmp_path))
    assert rows[:2] == [("ranks", "4 of 4 started with WORLD_SIZE 4"), ("network", "NCCL over IB")]
    assert [title for title, _text in rows[2:]] == ["losses", "", "", "", ""]
    assert rows[-1][1] == "iteration       20/ 20 | consumed samples: 1 | lm loss: 4.000000E+00 |"
    lines = card(Ending(Launched("gpt", "/r"), logs=FetchedLogs(str(tmp_path))))
    assert "  ranks     4 of 4 started with WORLD_SIZE 4" in lines
    assert "  losses    iteration       16/ 20 | consumed samples: 1 | lm loss: 5.000000E+00 |" in lines


def test_ranks_that_share_a_log_are_told_apart(tmp_path: Path) -> None:
    """The last rank is silent long before the others; the exception is that of one rank, and not the first one."""
    steps = "".join(f"{rank}: step {step} loss {rank}.5\n" for step in range(40000) for rank in (2, 4))
    shared = "".join(f"{rank}: {banner(rank, 6)}" for rank in (2, 3, 4, 5)) + "5: step 7 loss 5.5\n" + steps
    shared += "4: ValueError: of four\n2: loss 2.5\n3: RuntimeError: of three\n"
    write(tmp_path, "0/node01.ranks-2-5.log", shared)
    write(tmp_path, "0/rank-0000.log", banner(0, 6))
    write(tmp_path, "0/000/rank-0001.log", banner(1, 6))
    logs = rank_logs(Beneath(str(tmp_path)))
    assert [Path(path).name for path in logs.values()] == [
        "rank-0000.log", "rank-0001.log", *["node01.ranks-2-5.log"] * 4,
    ]  # fmt: skip
    assert evidence(str(tmp_path))[0] == ("ranks", "6 of 6 started with WORLD_SIZE 6")
    ends = dict(ends_by_rank(logs))
    assert progress_of(ends[5], None).step == 7 and ends[5].head == banner(5, 6) + "step 7 loss 5.5\n"
    words = last_words(str(tmp_path))
    assert words[0] == "from 0/node01.ranks-2-5.log:" and words[-1].strip() == "RuntimeError: of three"
    assert not any("of four" in line for line in words)


def test_who_is_silent_who_means_another_world_and_a_slow_network_are_named(tmp_path: Path) -> None:
    write(tmp_path, "0/rank-0000.log", banner(0, 4) + "x NCCL INFO Using network Socket\n")
    write(tmp_path, "0/rank-0001.log", banner(1, 2))
    write(tmp_path, "0/rank-0003.log", "nothing yet")
    assert evidence(str(tmp_path)) == [
        ("ranks", "2 of 4 started with WORLD_SIZE 2 and 4; nothing from rank 2, 3"),
        ("network", "NCCL over Socket; Socket is the slow way"),
    ]


def test_logs_that_tell_nothing_are_no_rows(tmp_path: Path) -> None:
    assert evidence(str(tmp_path / "nowhere")) == []
    assert evidence(write(tmp_path, "0/rank-0000.log", "hello\n")) == []


def test_of_named_logs_the_lowest_rank_with_an_exception_speaks(tmp_path: Path) -> None:
    write(tmp_path, "0/gpt.7.node02.10.out", "ValueError: ten\n")
    where = write(tmp_path, "0/gpt.7.node01.9.out", "ValueError: nine\n")
    assert last_words(where) == ["from 0/gpt.7.node01.9.out:", "  ValueError: nine"]
