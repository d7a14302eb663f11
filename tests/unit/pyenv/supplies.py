# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of sets of packages share: a project, the module's options, a uv.lock, a file that may be written."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import ensure_packages

PYPROJECT = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["alpha"]\n'


def options(store: str, **changes: Any) -> dict[str, Any]:
    return {
        "store_root": store, "extras": [], "python": None, "platform": None, "torch": "auto", "mode": "wheelhouse",
        "source": None, "download": "auto", "uv": None, "state": "present", **changes,
    }  # fmt: skip


def ensure(store: str, check_mode: bool = False, lock: str | None = None, text: str = PYPROJECT, **changes: Any) -> Any:
    return ensure_packages(options(store, **changes), {"pyproject": text, "uv_lock": lock}, check_mode=check_mode)


def writable(path: Path) -> Path:
    for one in (path, path.parent, path.parent.parent):
        one.chmod(one.stat().st_mode | 0o200)
    return path


def locked(tmp_path: Path) -> str:
    folder = tmp_path / "locking"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    subprocess.run(["uv", "lock", "-q", "--python", "/usr/bin/python3"], cwd=folder, check=True)
    return (folder / "uv.lock").read_text(encoding="utf-8")
