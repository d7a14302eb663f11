# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment that is there is marked as used, and is removed by its key alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import UV_ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment

KEY = "0123456789abcdef" * 2


def test_absent_by_key_needs_no_project(tmp_path: Path) -> None:
    folder = tmp_path / "environments" / KEY
    (folder / "bin").mkdir(parents=True)
    real = str(Path(sys.executable).resolve())
    (folder / "bin" / "python").symlink_to(real)
    (folder / "env.json").write_text(json.dumps({"python": {"path": real}, "digest": "d"}))
    options = {"store_root": str(tmp_path), "state": "absent", "key": KEY}
    planned = ensure_environment(options, {}, check_mode=True)
    assert planned["changed"] and folder.exists()
    assert ensure_environment(options, {}) == planned
    assert planned["ref"] == {
        "kind": "environment", "key": KEY, "path": str(folder), "digest": None, "present": False,
    }  # fmt: skip
    assert not folder.exists()
    assert ensure_environment(options, {})["changed"] is False


def test_publishing_again_marks_what_is_there_as_used(tmp_path: Path) -> None:
    """So a prune after it keeps what a platform team still publishes, whoever uses it (docs/stores.md)."""
    options = {name: option.get("default") for name, option in UV_ENVIRONMENT.items()} | {"store_root": str(tmp_path)}
    request = {"pyproject": '[project]\nname = "x"\nversion = "0"\n'}
    folder = Path(ensure_environment(options, request, check_mode=True)["ref"]["path"])
    (folder / "bin").mkdir(parents=True)
    real = str(Path(sys.executable).resolve())
    (folder / "bin" / "python").symlink_to(real)
    (folder / "env.json").write_text(json.dumps({"python": {"path": real}, "digest": "d"}))
    mark = tmp_path / "used" / "environments" / folder.name
    for _publication in range(2):
        assert ensure_environment(options, request)["changed"] is False
        assert mark.stat().st_mtime > 1
        os.utime(mark, (1, 1))


@pytest.mark.parametrize("key", ["..", "abc", "G" * 32])
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(RankzeroError, match="key: "):
        ensure_environment({"store_root": str(tmp_path), "state": "absent", "key": key}, {})
