# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of another user's folder does not pay for the number of names that were put there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import safe_read
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath


def test_one_file_of_a_large_folder_is_opened_without_its_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(500):
        (tmp_path / f"z{number}").touch()
    (tmp_path / "result.json").write_text("{}")
    looked, scan, whole = 0, os.scandir, os.listdir

    class Counted:
        """The names of a folder, one by one."""

        def __init__(self, folder: Any) -> None:
            self.entries = scan(folder)

        def __enter__(self) -> Iterator[Any]:
            nonlocal looked
            for entry in self.entries:
                looked += 1
                yield entry

        def __exit__(self, *_error: object) -> None:
            self.entries.close()

    def listed(folder: Any) -> list[str]:
        nonlocal looked
        names = whole(folder)
        looked += len(names)
        return names

    monkeypatch.setattr(safe_read, "MOST_NAMES", 20)
    monkeypatch.setattr(safe_read.os, "listdir", listed)
    monkeypatch.setattr(safe_read.os, "scandir", Counted)
    beneath = Beneath(str(tmp_path))
    assert beneath.text("result.json", 100) == "{}" and beneath.file("missing", 100) is None
    assert looked <= 2 * 21
    assert len(beneath.names("")) == 20
