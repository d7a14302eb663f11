# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import pythons
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import (
    Python,
    choose,
    executable_by_all,
    inspect_python,
    requires_python,
    satisfies,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[project]\nname = "a"\nrequires-python = ">=3.10"\n', ">=3.10"),
        ("[ project ]  # mine\nrequires-python='>=3.9,<4'  # why\n", ">=3.9,<4"),
        ('[project]\n"requires-python" = "==3.11.*"\n[tool.x]\n', "==3.11.*"),
        ('[tool.x]\nrequires-python = ">=3.8"\n[project]\nname = "a"\n', ""),
        ('[project]\nname = "a"\n[project.urls]\nrequires-python = ">=3.8"\n', ""),
        ('[project]\n# requires-python = ">=3.8"\n', ""),
        ('requires-python = ">=3.8"\n', ""),
        ("", ""),
    ],
)
def test_requires_python(text: str, expected: str) -> None:
    assert requires_python(text) == expected


@pytest.mark.parametrize(
    ("specifiers", "expected"),
    [
        ("", True),
        (">=3.10", True),
        (">=3.11.2", True),
        (">=3.11.3", False),
        (">=3.9,<3.11", False),
        (">=3.9, <3.12", True),
        ("<4", True),
        ("==3.11.*", True),
        ("==3.1.*", False),
        ("==3.11", False),
        ("===3.11.2", True),
        ("!=3.11.*", False),
        ("!=3.11.2", False),
        ("!=3.10.*,!=3.12.*", True),
        ("~=3.10", True),
        ("~=3.10.0", False),
        ("~=3.11.1", True),
        (">3.11", True),
        (">3.11.2", False),
        ("<=3.11", False),
        ("<=3.11.2", True),
        (">=3.10rc1", True),
    ],
)
def test_satisfies(specifiers: str, expected: bool) -> None:
    assert satisfies((3, 11, 2), specifiers) is expected


@pytest.mark.parametrize("specifiers", ["3.11", "=>3.9", ">=", "python>=3"])
def test_no_specifier(specifiers: str) -> None:
    with pytest.raises(RankzeroError, match="requires-python"):
        satisfies((3, 11, 2), specifiers)


def python(path: str, version: str, libc: str = "glibc 2.36") -> Python:
    minor = version.rpartition(".")[0]
    markers = {"python_full_version": version, "python_version": minor, "platform_machine": "x86_64"}
    return Python(path, markers, libc)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Python]:
    pythons_of: dict[str, Python] = {}
    monkeypatch.setattr(pythons, "inspect_python", pythons_of.get)
    monkeypatch.setattr(pythons, "executable_by_all", lambda path: not path.startswith("/private/"))
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for path in ("/private/3.13.0", "/usr/3.9.2", "/usr/3.11.2", "/opt/3.12.1"):
        pythons_of[path] = python(path, path.rpartition("/")[2])
    return pythons_of


def pyproject(specifiers: str) -> str:
    return f'[project]\nrequires-python = "{specifiers}"\n'


@pytest.mark.parametrize(
    ("specifiers", "request_", "expected"),
    [
        ("", None, "/usr/3.9.2"),
        (">=3.10", None, "/usr/3.11.2"),
        (">=3.9", "3.12", "/opt/3.12.1"),
        ("", "3.11.2", "/usr/3.11.2"),
    ],
)
def test_choose(installed: dict[str, Python], specifiers: str, request_: str | None, expected: str) -> None:
    assert choose(pyproject(specifiers), request_, list(installed)).path == expected


def test_root_does_not_take_what_others_cannot_run(
    installed: dict[str, Python], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RankzeroError, match=r"/private/3\.13\.0 \(other users cannot execute it\)"):
        choose("", "3.13", list(installed))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert choose("", "3.13", list(installed)).path == "/private/3.13.0"


def test_nothing_fits(installed: dict[str, Python]) -> None:
    with pytest.raises(RankzeroError) as caught:
        choose(pyproject(">=3.14"), None, list(installed))
    for part in ('requires-python = ">=3.14"', "/usr/3.9.2 (3.9.2)", "/opt/3.12.1 (3.12.1)", "environment.python"):
        assert part in caught.value.message
    with pytest.raises(RankzeroError, match=r"environment\.python: 3\.12.*Found: none"):
        choose("", "3.12", [])


def test_ask_this_interpreter() -> None:
    base = os.path.realpath(sys.executable)
    answer = inspect_python(base)
    if sys.prefix == sys.base_prefix or answer is not None:
        assert answer is not None
        assert answer.version == tuple(sys.version_info[:3])
        assert answer.markers["sys_platform"] == sys.platform
        assert answer.minor == f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize("script", ["exit 3", "echo nonsense", "echo '{}'", "echo '[]'"])
def test_ask_something_else(tmp_path: Path, script: str) -> None:
    path = tmp_path / "python3"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    assert inspect_python(str(path)) is None
    assert inspect_python(str(tmp_path / "missing")) is None


def test_target() -> None:
    target = python("/p", "3.11.2").target()
    assert target is not None
    assert (target.python, target.machine, target.glibc) == ((3, 11), "x86_64", (2, 36))
    assert python("/p", "3.11.2", libc="").target() is None


def test_executable_by_all(tmp_path: Path) -> None:
    path = tmp_path / "python3"
    path.write_text("", encoding="utf-8")
    path.chmod(0o755)
    assert executable_by_all("/bin/sh")
    tmp_path.chmod(0o700)
    assert not executable_by_all(str(path))
    assert not executable_by_all(str(tmp_path / "missing"))
