# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks' logs as one, and their new lines as they come."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import merged_logs
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.merged_logs import (
    LAST_LINES,
    LONGEST,
    MOST_NEW,
    Tail,
    merge,
)


def write(logs: Path, name: str, content: bytes) -> None:
    (logs / name).parent.mkdir(parents=True, exist_ok=True)
    with (logs / name).open("ab") as stream:
        stream.write(content)


def test_lines_stand_by_time_each_with_its_rank(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write(logs, "0/rank-0000.log", b"an earlier attempt\n")
    write(logs, "1/rank-0000.log", b"hello\n2026-01-01 10:00:01 first\n  detail\n2026-01-01 10:00:05 third\n")
    write(logs, "1/rank-0011.log", b"2026-01-01 10:00:03,500 second\n\xff\xfe\x00binary\n2026-01-01 10:00:09 last")
    write(logs, "job.7.log", b"[rankzero] begin\n")
    write(logs, ".fetched.json", b"{}")
    target = Path(merge(str(logs)))
    assert target == tmp_path / "merged.log"
    assert target.read_bytes().splitlines() == [
        b"job     | [rankzero] begin",
        b"rank 0  | hello",
        b"rank 0  | 2026-01-01 10:00:01 first",
        b"rank 0  |   detail",
        b"rank 11 | 2026-01-01 10:00:03,500 second",
        b"rank 11 | \xff\xfe\x00binary",
        b"rank 0  | 2026-01-01 10:00:05 third",
        b"rank 11 | 2026-01-01 10:00:09 last",
    ]


def test_every_byte_of_every_rank_is_there_once(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for rank in range(20):
        lines = [b"2026-01-01 10:%02d:%02d rank %d\n" % (minute, rank, rank) for minute in range(30)]
        write(logs, f"0/rank-{rank:04d}.log", b"".join(lines))
    write(logs, "0/rank-0020.log", b"x" * (2 * LONGEST + 5))
    merged = Path(merge(str(logs))).read_bytes().splitlines()
    assert len(merged) == 20 * 30 + 3
    times = [line.split(b"| ")[1][:19] for line in merged if b"2026" in line]
    assert times == sorted(times)


def test_the_lines_of_a_shared_log_are_those_of_their_ranks(tmp_path: Path) -> None:
    shared = tmp_path / "logs" / "0" / "n1.ranks-2,9.log"
    shared.parent.mkdir(parents=True)
    shared.write_text("2: 2026-01-02 03:04:05 b\n9: 2026-01-02 03:04:07 d\n")
    (shared.parent / "rank-0000.log").write_text("2026-01-02 03:04:04 a\n2026-01-02 03:04:06 c\n")
    tail = Tail(str(tmp_path / "logs"))
    assert "rank 9 | 2026-01-02 03:04:07 d" in tail.begin()
    merged = Path(merge(str(tmp_path / "logs"))).read_text().splitlines()
    assert [line.replace(" | 2026-01-02 03:04", " ") for line in merged] == [
        "rank 0 :04 a", "rank 2 :05 b", "rank 0 :06 c", "rank 9 :07 d",
    ]  # fmt: skip
    with shared.open("a") as stream:
        stream.write("2: new\nslurmstepd: unmarked\n")
    assert tail.news({"0/n1.ranks-2,9.log": False}) == ["rank 2 | new", "n1.ranks-2,9 | slurmstepd: unmarked"]


def test_no_logs_are_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert Path(merge(str(tmp_path / "logs"))).read_bytes() == b""


def test_new_lines_as_they_come(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write(logs, "0/rank-0000.log", b"".join(b"old %d\n" % number for number in range(9)))
    tail = Tail(str(logs))
    assert tail.begin() == [f"rank 0 | old {number}" for number in range(9 - LAST_LINES, 9)]
    write(logs, "0/rank-0000.log", b"2026-01-01 10:00:02 b\nhal")
    write(logs, "0/rank-0001.log", b"2026-01-01 10:00:01 a\x1b[31m\n")
    grown = {"0/rank-0000.log": False, "0/rank-0001.log": True}
    assert tail.news(grown) == ["rank 1 | 2026-01-01 10:00:01 a", "rank 0 | 2026-01-01 10:00:02 b"]
    write(logs, "0/rank-0000.log", b"f\nlast")
    assert tail.news({"0/rank-0000.log": False}) == ["rank 0 | half"]
    assert tail.rest() == ["rank 0 | last"]
    # Truncated on the cluster, so fetched anew.
    (logs / "0" / "rank-0001.log").write_bytes(b"anew\n")
    assert tail.news({"0/rank-0001.log": True}) == ["rank 1 | anew"]


def test_more_logs_than_a_process_may_open(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for rank in range(200):
        lines = [b"2026-01-01 10:%02d:%02d rank %d\n" % (minute, rank % 60, rank) for minute in range(20)]
        write(logs, f"0/rank-{rank:04d}.log", b"".join(lines))
    few = f"""
import resource
from {merge.__module__} import merge
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
merge({str(logs)!r})
"""
    subprocess.run([sys.executable, "-c", few], check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    merged = (tmp_path / "merged.log").read_bytes().splitlines()
    assert len(set(merged)) == len(merged) == 200 * 20
    times = [line.split(b"| ")[1][:19] for line in merged]
    assert times == sorted(times)


@pytest.mark.parametrize("content", [b"1234567\n" * 10_000, b"x" * 150_000, b"\n" * 5000, b"ab" * 1500 + b"\nend"])
def test_blocks_of_any_size_give_the_same_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    write(tmp_path / "logs", "0/rank-0000.log", content)
    for held in (merged_logs.MOST_HELD, merged_logs.SMALLEST):
        monkeypatch.setattr(merged_logs, "MOST_HELD", held)
        merged = Path(merge(str(tmp_path / "logs"))).read_bytes()
        lines = [line.removeprefix(b"rank 0 | ") for line in merged.splitlines()]
        longest = min(LONGEST, held)
        assert b"".join(lines) == content.replace(b"\n", b"") and max(map(len, lines)) <= longest
        assert len(lines) == sum(max(1, -(-len(line) // longest)) for line in content.splitlines())


def test_of_a_log_that_grew_fast_the_end_is_shown_and_the_rest_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    write(logs, "0/rank-0000.log", b"old\nbegin")
    write(logs, "0/rank-0001.log", b"old\n")
    tail = Tail(str(logs))
    tail.begin()
    with (logs / "0" / "rank-0000.log").open("r+b") as stream:
        stream.seek(5_000_000_000)
        stream.write(b"\nthe end\nto")
    write(logs, "0/rank-0001.log", b"slow\n")
    tracemalloc.start()
    shown = tail.news({"0/rank-0000.log": False, "0/rank-0001.log": False})
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * MOST_NEW
    assert shown[1:] == ["rank 0 | the end", "rank 1 | slow"]
    assert shown[0].startswith("rank 0 | 5.0 GB are not shown") and shown[0].endswith("0/rank-0000.log")
    write(logs, "0/rank-0000.log", b"rn\n")
    assert tail.news({"0/rank-0000.log": False}) == ["rank 0 | torn"]


def test_of_many_short_lines_the_last_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_logs, "MOST_LINES", 3)
    logs = tmp_path / "logs"
    write(logs, "0/rank-0000.log", b"old\n")
    tail = Tail(str(logs))
    tail.begin()
    write(logs, "0/rank-0000.log", b"".join(b"%d\n" % number for number in range(1000)) + b"torn")
    note, *shown = tail.news({"0/rank-0000.log": False})
    assert shown == ["rank 0 | 997", "rank 0 | 998", "rank 0 | 999"] and "4 kB are not shown" in note
    assert tail.rest() == ["rank 0 | torn"]


def test_a_line_of_gigabytes_ends_with_its_last_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_logs, "MOST_NEW", 100_000)
    logs = tmp_path / "logs"
    write(logs, "0/rank-0000.log", b"old\n")
    tail = Tail(str(logs))
    tail.begin()
    write(logs, "0/rank-0000.log", b"x" * 1_000_000)
    (note,) = tail.news({"0/rank-0000.log": False})
    assert "996 kB are not shown" in note
    (rest,) = tail.rest()
    assert rest.startswith("rank 0 | xxx")
