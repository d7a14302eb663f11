# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what a launch needs is on the cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.refs import is_present
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.publish import bundle_key, publish_files


def test_code_is_there_when_its_folder_is(tmp_path: Path) -> None:
    assert is_present({"kind": "code", "path": str(tmp_path)})


def test_the_runtime_is_there_when_its_folder_holds_what_its_name_says(tmp_path: Path) -> None:
    files = {"job.sh": "true\n", "rank.sh": ""}
    ref = {"kind": "runtime", "key": bundle_key(files), "path": str(tmp_path / "runtime" / bundle_key(files))}
    assert not is_present(ref)
    assert publish_files(ref["path"], files)
    assert is_present(ref)
    (Path(ref["path"]) / "json.py").write_text("", encoding="utf-8")
    assert not is_present(ref)
    assert publish_files(ref["path"], files)
    assert is_present(ref)


def test_an_environment_is_there_only_while_its_python_is(tmp_path: Path) -> None:
    ref = {"kind": "environment", "path": str(tmp_path)}
    assert not is_present(ref)  # a folder alone is no environment
    real = str(Path(sys.executable).resolve())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(real)
    (tmp_path / "env.json").write_text(json.dumps({"python": {"path": real}}))
    assert is_present(ref)
    (tmp_path / "bin" / "python").unlink()
    (tmp_path / "bin" / "python").symlink_to("/nowhere/python3.11")
    assert not is_present(ref)
