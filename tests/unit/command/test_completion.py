# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Completion in real shells: the printed script is sourced, and its function is called as the shell calls it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rankzero.completion import script
from tests.repository import ROOT
from tests.unit.command.conftest import Ansible

INVENTORY = "slurm_login:\n  hosts:\n    ux: {}\n    gamma: {}\n"
#: What is typed before the tab; the last word is completed. Then the candidates.
TYPED: dict[str, list[str]] = {
    "ru": ["run"],
    "l": ["ls", "logs", "lab"],
    "run jobs/train.yml --no": ["--nodes"],
    "attach --unt": ["--until"],
    "attach --until st": ["started"],
    "ls -c ": ["ux", "gamma"],
    "ls --cluster g": ["gamma"],
    "lab ": ["up", "stop", "down"],
    "pull g": ["gpt"],
    "why ": ["gpt", "two words"],
    "completion z": ["zsh"],
    # Files are the shell's own.
    "run jo": [],
    "run jobs/train.yml -- --l": [],
    "nonsense x": [],
}
BASH = """\
source completion
COMP_WORDS=(rankzero {words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_rankzero
[ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p rankzero > /dev/null
"""
# compadd and _files belong to zsh's own completion, which calls the function.
ZSH = """\
compdef() {{ : }}
compadd() {{ shift; print -rl -- "$@" }}
_files() {{ : }}
source completion
words=(rankzero {words})
CURRENT=$#words
_rankzero
"""
FISH = """\
source completion
complete --do-complete {line}
"""


@pytest.fixture
def place(ansible: Ansible, tmp_path: Path) -> Path:
    """A project with an inventory and fetched logs, and a command `rankzero`."""
    project = Path.cwd()
    (project / "inventory").mkdir()
    (project / "inventory" / "hosts.yml").write_text(INVENTORY, encoding="utf-8")
    for name in ("gpt", "two words"):
        (project / "runs" / name).mkdir(parents=True)
    command = tmp_path / "tools" / "rankzero"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m rankzero "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return project


def completed(shell: str, program: str, place: Path) -> set[str]:
    (place / "completion").write_text(script(shell), encoding="utf-8")
    tools = f"{place.parent / 'tools'}:{os.environ['PATH']}"
    shown = subprocess.run(
        [shell, *(["--norc"] if shell == "bash" else ["-f"] if shell == "zsh" else ["--no-config"]), "-c", program],
        cwd=place,
        env={**os.environ, "PATH": tools, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    return set(shown.stdout.splitlines())


def quoted(line: str) -> str:
    *before, last = line.split(" ")
    return " ".join([*before, shlex.quote(last)])


def needed(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def test_bash(place: Path) -> None:
    for line, candidates in TYPED.items():
        assert completed("bash", BASH.format(words=quoted(line)), place) == set(candidates), line


def test_zsh(place: Path) -> None:
    needed("zsh")
    for line, candidates in TYPED.items():
        assert completed("zsh", ZSH.format(words=quoted(line)), place) == set(candidates), line


def test_fish(place: Path) -> None:
    needed("fish")
    for line in ("ru", "ls -c ", "lab ", "why "):
        shown = completed("fish", FISH.format(line=shlex.quote(f"rankzero {line}")), place)
        assert set(TYPED[line]) <= shown, line
