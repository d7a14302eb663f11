# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any file can be read: packed, huge, without line ends, unreadable, random. Prefixes are understood."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, lines, scan

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
        (b"n1.Error2: text", "n1.Error2: text", None, None),
        (b"text\xff\xfe\r", "text\ufffd\ufffd", None, None),
    ],
)
def test_prefixes_and_colours(raw: bytes, text: str, rank: int | None, node: str | None) -> None:
    assert lines.parse_line(1, raw) == lines.Line(1, text, rank, node)


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


def test_unreadable_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_bytes(OOM)
    (tmp_path / "torn.log.gz").write_bytes(gzip.compress(OOM * 99)[:30])
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    found = scan.scan(scan.find_logs(str(tmp_path)))
    assert sorted(Path(path).name for path in found.unreadable) == ["gone.log", "torn.log.gz"]
    assert cause.find_cause(found.logs).family == "cuda_oom"


def test_a_big_log_gives_the_same_through_the_prefilter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.log"
    trace = b"[rank1]: Traceback (most recent call last):\n[rank1]:   x.py, line 1\n[rank1]: " + OOM
    file.write_bytes(b"nothing to see\n" * 5000 + trace + b"nothing to see\n" * 5000)
    whole = cause.find_cause(scan.scan([str(file)]).logs)
    monkeypatch.setattr(scan, "BIG", 1000)
    asked = []
    prefiltered = scan._prefiltered
    monkeypatch.setattr(scan, "_prefiltered", lambda path, strings: asked.append(path) or prefiltered(path, strings))
    assert cause.find_cause(scan.scan([str(file)]).logs) == whole
    assert asked == [str(file)]
    assert whole.root is not None
    assert whole.root.line == 5003
