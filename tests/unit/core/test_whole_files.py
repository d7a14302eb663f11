# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of others that are read whole have a limit, and an error that names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import whole_files


def test_a_file_above_the_limit_is_named_with_its_size_and_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text("[1, 2, 3]", encoding="utf-8")
    assert whole_files.read_json(str(path)) == [1, 2, 3] and whole_files.text_of(str(path), 9) == "[1, 2, 3]"
    with pytest.raises(ValueError, match="no object"):
        whole_files.json_of(str(path))
    for read in (whole_files.content_of, whole_files.text_of, whole_files.json_of):
        with pytest.raises(OSError, match=str(path)) as raised:
            read(str(path), 8)
        assert "9 bytes" in str(raised.value) and " 8 " in str(raised.value)


def test_what_is_endless_or_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A sparse file of a terabyte, a pipe without a writer, and lists in one another."""
    sparse, pipe, deep = tmp_path / "sparse", tmp_path / "pipe", tmp_path / "deep.json"
    with sparse.open("wb") as stream:
        stream.truncate(1 << 40)
    os.mkfifo(pipe)
    deep.write_text("[" * 200_000, encoding="utf-8")
    for path in (sparse, pipe):
        with pytest.raises(OSError, match=str(path)):
            whole_files.content_of(str(path))
        assert whole_files.read_json(str(path)) is None
    assert whole_files.read_json(str(deep)) is None


def test_of_a_long_text_the_last_whole_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a secret\nsecond\nlast\n", encoding="utf-8")
    assert whole_files.last_text(str(path), 1000) == "a secret\nsecond\nlast\n"
    assert whole_files.last_text(str(path), 16) == "second\nlast\n"
    with path.open("rb") as stream:
        assert whole_files.last_bytes(stream, 5) == b"last\n"
