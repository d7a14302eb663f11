# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose Python is too old gets a sentence, not a traceback: what has to hold before anything is imported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import errors
from tests.repository import COLLECTION, bullet_list, files, imported_modules, read


def ours(path: str) -> list[str]:
    """What a file imports of the collection, in order."""
    return [name for _line, name in sorted(imported_modules(path)) if name.startswith(COLLECTION)]


#: Those that run on a host; the rest of them only documents an action.
MODULES = [path for path in files("plugins/modules/", ".py") if ours(path)]
#: What is imported before the check, and the check itself.
FIRST = [f"plugins/module_utils/core/{name}.py" for name in ("ansible", "errors")]
CHECK = f"{COLLECTION}.plugins.module_utils.core.ansible"


def test_the_message_names_the_interpreter_and_what_to_do() -> None:
    said = errors.python_too_old("login1", "/usr/bin/python3", "3.6.8", ["/usr/bin/python3.11"])
    for part in ("3.9 or newer", "/usr/bin/python3 on login1 is Python 3.6.8", "ansible_python_interpreter"):
        assert part in said
    assert "It has /usr/bin/python3.11." in said
    assert "Install one" in errors.python_too_old("login1", "python3", "3.6.8", [])


def test_newer_interpreters_are_found_by_name_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python3.8", "python3.9", "python3.12", "python3", "python2.7"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert errors.newer_pythons() == [str(tmp_path / "python3.12"), str(tmp_path / "python3.9")]


def test_a_module_imports_the_check_before_anything_else_of_the_collection() -> None:
    assert MODULES
    first = {path: ours(path)[0] for path in MODULES}
    late = [f"{path} imports {name} first" for path, name in first.items() if name != CHECK]
    assert not late, bullet_list(late)


def test_what_is_read_before_the_check_is_within_the_older_grammar() -> None:
    newer = []
    for path in MODULES + FIRST:
        try:
            ast.parse(read(path), path, feature_version=(3, 7))
        except SyntaxError as error:
            newer.append(f"{path}:{error.lineno}: {error.msg}")
    assert not newer, bullet_list(newer)
