# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any file can be read: packed, huge, without line ends, unreadable, random. Prefixes are understood."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import shutil
import subprocess
import tracemalloc
from pathlib import Path
from typing import IO

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, lines, prefilter, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import model, registry

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    ("raw", "text", "rank", "node"),
    [
        (b"plain", "plain", None, None),
        (b"[rank3]: text", "text", 3, None),
        (b"[rank3]:[rank3]: text", "text", 3, None),
        (b"3: text", "text", 3, None),
        (b"[default3]:text", "text", 3, None),
        (b"node07: text", "text", None, "node07"),
        (b"10.0.0.7: [rank12]: text", "text", 12, "10.0.0.7"),
        (b"2: [rank17]:text", "text", 17, None),
        (b"[1,4]<stderr>:text", "text", 4, None),
        (b"\x1b[31m[rank1]: red\x1b[0m", "red", 1, None),
        (b" 50%|##   | 1/2\r100%|####| 2/2\rKeyError: 'x'", "KeyError: 'x'", None, None),
        (b"ValueError: text", "ValueError: text", None, None),
        (b"cv2.error: text", "cv2.error: text", None, None),
        (b"2026-01-01T00:00:01.5Z [rank2]: text", "text", 2, None),
        (b"Jan 02 03:04:05 [rank2]: text", "text", 2, None),
        (b"2026-01-01 00:00:01,123 Traceback (most", "Traceback (most", None, None),
        (b"2026-01-01 00:00:01,123 INFO text", "2026-01-01 00:00:01,123 INFO text", None, None),
        (b"llm.pretrain/0 [default0]:[rank4]: text", "text", 4, None),
        (b"n1.Error2: text", "n1.Error2: text", None, None),
        (b"text\xff\xfe\r", "text\ufffd\ufffd", None, None),
    ],
)
def test_prefixes_and_colours(raw: bytes, text: str, rank: int | None, node: str | None) -> None:
    line = lines.parse_line(1, raw)
    assert (line.number, line.text, line.rank, line.node) == (1, text, rank, node)


@pytest.mark.parametrize("seed", range(40))
def test_no_bytes_crash_it(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    words = [
        b"Traceback (most recent call last):\n",
        b'  File "x"',
        b"Error: ",
        b"\n",
        b"\r",
        b"[rank",
        b"]:",
        b"\x1b[",
    ]
    words += [OOM, b"The above exception was the direct cause", b"exitcode: -9", b"\x00\xff", b": " * 9, b"9" * 50]
    file = tmp_path / "a.log"
    file.write_bytes(b"".join(dice.choice([*words, dice.randbytes(9)]) for _ in range(dice.randrange(900))))
    found = scan.scan([str(file)])
    assert not found.unreadable
    root = cause.find_cause(found.logs).root
    assert root is None or 1 <= root.line <= found.logs[0].lines


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"x" * (3 * lines.BLOCK) + b"\n" + OOM)
    with lines.opened(str(file)) as stream:
        long, last = lines.raw_lines(stream)
    assert len(long) <= lines.LONGEST
    assert last == OOM.rstrip()
    assert cause.find_cause(scan.scan([str(file)]).logs).family == "cuda_oom"


def test_packed_logs_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rank0.out.gz"
    file.write_bytes(gzip.compress(b"start\n" + OOM))
    assert scan.find_logs(str(tmp_path)) == [str(file)]
    assert cause.find_cause(scan.scan([str(file)]).logs).family == "cuda_oom"


def test_a_packed_log_that_unpacks_to_gigabytes_is_refused_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_UNPACKED", 4 << 20)
    for name, size in (("bomb", 8 << 20), ("good", 2 << 20)):
        (tmp_path / f"{name}.log.gz").write_bytes(gzip.compress(bytes(size) + b"\n" + OOM))
    found = scan.scan(scan.find_logs(str(tmp_path)))
    (why,) = found.unreadable.values()
    assert "more than 4 MB" in why and cause.find_cause(found.logs).family == "cuda_oom"


def test_unreadable_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_bytes(OOM)
    (tmp_path / "torn.log.gz").write_bytes(gzip.compress(OOM * 99)[:30])
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    found = scan.scan(scan.find_logs(str(tmp_path)))
    assert sorted(Path(path).name for path in found.unreadable) == ["gone.log", "torn.log.gz"]
    assert cause.find_cause(found.logs).family == "cuda_oom"


TRACE = b"[rank1]: Traceback (most recent call last):\n[rank1]:   x.py, line 1\n[rank1]: " + OOM
QUIET = b"nothing to see here, all is well with this one\n" * 900


def in_parts(monkeypatch: pytest.MonkeyPatch, tool: list[str] | None) -> None:
    """Nothing is read whole from here on, and `tool` finds where to read."""
    monkeypatch.setattr(scan, "MUCH", 0)
    monkeypatch.setattr(scan, "BIG", 1)
    monkeypatch.setattr(prefilter, "tool", lambda: tool)


def tools() -> list[list[str] | None]:
    found = prefilter.tool()
    with_grep = [shutil.which("grep") or "grep", "-a", "-b", "-n", "-H", "-Z", "-F"]
    return [None, with_grep, found] if found and "rg" in found[0] else [None, with_grep]


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: Path(tool[0]).name if tool else "python")
@pytest.mark.parametrize(
    "log",
    [
        pytest.param(QUIET + TRACE + QUIET, id="in the middle"),
        pytest.param(QUIET + TRACE, id="at the end"),
        pytest.param(TRACE + QUIET, id="at the beginning"),
        pytest.param(QUIET + b"run.sh: line 4: 7 Killed    python\n", id="Killed"),
        pytest.param(QUIET + b"node1: \xff\x00" + TRACE, id="odd bytes"),
        pytest.param(QUIET + b"50%|##| 1/2\r" * 9000 + OOM + QUIET, id="a progress bar of 100 kB before it"),
        pytest.param(QUIET + b"run.sh: line 3: fork: Cannot allocate memory\n", id="no anchor, at the end"),
        pytest.param(QUIET, id="healthy"),
        pytest.param(b"".join(b"step %d error: 0.1\n" % step for step in range(3000)) + TRACE, id="many harmless hits"),
        pytest.param(b"", id="empty"),
        pytest.param(b"x" * 70_000 + b"\n" + TRACE, id="long first line"),
        pytest.param(b"x" * 90_000, id="no line end"),
    ],
)
def test_a_log_read_in_parts_gives_what_reading_it_whole_gives(
    log: bytes, tool: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(log)
    whole = cause.find_cause(scan.scan([str(file)]).logs)
    in_parts(monkeypatch, tool)
    found = cause.find_cause(scan.scan([str(file)]).logs)
    assert (found.family, found.root and found.root.line) == (whole.family, whole.root and whole.root.line)


def test_an_anchor_across_two_blocks_is_found_by_python(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(
        b"y" * 100 + b"\n" + b"x" * (4 * lines.BLOCK - 105) + b"Traceback (most recent call last):\n" + OOM
    )
    assert prefilter.in_python(str(file)).all() == [(2, 101, True), (3, 4 * lines.BLOCK + 31, False)]


def test_a_tool_that_fails_leaves_the_work_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_parts(monkeypatch, ["false"])
    monkeypatch.setattr(prefilter, "_by_tool", lambda *_: False)
    files = [tmp_path / "a.log", tmp_path / "b.log"]
    for file in files:
        file.write_bytes(QUIET + TRACE)
    found = scan.scan(list(map(str, files)))
    assert [log.events[0].line for log in found.logs] == [903, 903]


def test_memory_stays_small_whatever_the_lines_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "endless.log"
    with file.open("wb") as stream:
        # Sparse: 48 MB of zeros without a line end, and a cause behind them.
        stream.truncate(48 << 20)
        stream.seek(0, 2)
        stream.write(b"\n" + TRACE)
    in_parts(monkeypatch, tools()[1])
    monkeypatch.setattr(prefilter, "GREP_MEMORY", 32 << 20)
    tracemalloc.start()
    found = scan.scan([str(file)])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert cause.find_cause(found.logs).family == "cuda_oom"
    assert most < 24 << 20


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: Path(tool[0]).name if tool else "python")
@pytest.mark.parametrize("end", [b"\n" + TRACE, b" " + OOM, b""], ids=["after it", "in it", "nothing"])
def test_of_a_line_as_long_as_the_file_both_ends_are_looked_at(
    tool: list[str] | None, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To clean a log takes a second for 30 MB: the diagnosis of 5 GB in one line took minutes."""
    size, reads = 64 << 20, {"cleaned": 0, "plain": 0}

    class Counted(io.BufferedReader):
        name_of_it = "plain"

        def read(self, count: int | None = -1, /) -> bytes:
            data = super().read(count)
            reads[self.name_of_it] += len(data)
            return data

    class Cleaned(Counted):
        name_of_it = "cleaned"

    def cleaner(stream: IO[bytes]) -> IO[bytes]:
        return Cleaned(io.FileIO(os.dup(stream.fileno())))

    file = tmp_path / "endless.log"
    with file.open("wb") as stream:
        stream.write(b"srun: error: node01: task 0: Exited with exit code 1 ")
        stream.truncate(size)
        stream.seek(0, 2)
        stream.write(end)
    in_parts(monkeypatch, tool)
    monkeypatch.setattr(prefilter, "GREP_MEMORY", 32 << 20)
    found = scan.scan([str(file)], cleaner=cleaner, opener=lambda path: Counted(io.FileIO(path)))
    assert reads["cleaned"] < 1 << 20 and reads["plain"] < size + (1 << 20)
    assert found.logs[0].lines == end.count(b"\n") + (not end.endswith(b"\n"))
    root = cause.find_cause(found.logs).root
    assert root is not None
    if end:
        assert (root.family, root.line) == ("cuda_oom", max(1, end.count(b"\n")))


def test_of_many_short_logs_only_some_are_read_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of logs of a few kilobytes: the others are searched first, as long ones are."""
    monkeypatch.setattr(scan, "MUCH", 1000)
    assert scan._longest([300, 300, 300]) == scan.HUGE
    assert scan._longest([300] * 8000) == 300
    assert scan._longest([100, 200, 300, 500, 900]) == 500
    assert scan._longest([scan.HUGE, scan.HUGE]) == scan.BIG


def test_the_tool_searches_some_files_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line of all paths of a large job would be too long."""
    files = [tmp_path / f"rank{rank}.log" for rank in range(5)]
    for rank, file in enumerate(files):
        file.write_bytes(QUIET + (TRACE if rank == 4 else b""))
    in_parts(monkeypatch, tools()[1])
    monkeypatch.setattr(prefilter, "FILES", 2)
    found = scan.scan(list(map(str, files)))
    assert [len(log.events) for log in found.logs] == [0, 0, 0, 0, 1]


def test_a_sites_own_strings_are_looked_for_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = model.Signature(
        "license", "no license", "buy one", (model.Match(re.compile("no lice"), ("no lice",), model.CAUSE),)
    )
    file = tmp_path / "a.log"
    file.write_bytes(QUIET + b"solver: no lice left\n" + QUIET)
    in_parts(monkeypatch, tools()[1])
    assert cause.find_cause(scan.scan([str(file)], signatures=(*registry.SIGNATURES, own)).logs).family == "license"


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd to pack with")
def test_zstd_is_unpacked(tmp_path: Path) -> None:
    plain = tmp_path / "rank0.log"
    plain.write_bytes(b"start\n" + OOM)
    subprocess.run(["zstd", "-q", "--rm", str(plain)], check=True)
    assert scan.find_logs(str(tmp_path)) == [f"{plain}.zst"]
    assert cause.find_cause(scan.scan([f"{plain}.zst"]).logs).family == "cuda_oom"


def test_a_zstd_log_is_named_where_nothing_unpacks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.log.zst"
    file.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    found = scan.scan([str(file)])
    assert not found.logs
    assert "zstd" in found.unreadable[str(file)]


def test_several_processes_find_the_same_in_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SHARED", 1)
    files = [tmp_path / f"rank{rank}.log" for rank in range(9)]
    for rank, file in enumerate(files):
        file.write_bytes(QUIET + (TRACE if rank == 4 else b""))
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    paths = scan.find_logs(str(tmp_path))
    alone, together = scan.scan(paths, 1), scan.scan(paths, 3)
    assert alone == together
    assert [log.file for log in together.logs] == list(map(str, files))
