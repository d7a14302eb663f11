# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ctrl-C at a real terminal: the playbook gets it and detaches, and the command says how to come back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rankzero import errors
from tests.repository import ROOT
from tests.terminals import Terminal
from tests.unit.command.conftest import Ansible

JOB = {
    "name": "gpt",
    "key": "72ee2a70" * 8,
    "generation": 2,
    "job_id": "7",
    "run_dir": "/s/runs/gpt/72ee2a70/2",
    "submission": "submitted",
}


@pytest.fixture
def types(ansible: Ansible) -> Iterator[Callable[..., Terminal]]:
    """Starts the command at a terminal. It finds the stand-in as any installation finds its ansible-playbook."""
    opened: list[Terminal] = []
    python = Path(ansible.program).parent / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    start = f"import sys; sys.executable = {str(python)!r}; from rankzero.command import main; sys.exit(main())"

    def typed(*words: str) -> Terminal:
        path = str(ROOT / "python")
        opened.append(Terminal([sys.executable, "-c", start, *words], Path(os.getcwd()), 120, PYTHONPATH=path))
        return opened[-1]

    yield typed
    for terminal in opened:
        terminal.close()


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("run jobs/train.yml -c ux", "rankzero attach gpt/72ee2a7072ee2a70/2 -c ux"),
        ("attach 7", "rankzero attach 7"),
        ("logs gpt -f", "rankzero attach gpt"),
    ],
)
def test_playbook_detaches_and_the_way_back_is_shown(
    line: str, target: str, types: Callable[..., Terminal], ansible: Ansible
) -> None:
    ansible.answer(0, *([("job", "ok", JOB)] if line.startswith("run") else []), waits=True)
    terminal = types(*line.split())
    terminal.read("waiting")
    terminal.interrupt()
    shown = terminal.read()
    assert terminal.process.wait() == errors.INTERRUPTED
    assert "detached" in shown, "the playbook was not told"
    assert shown.index("detached") < shown.index("the job continues")
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[-2:] == [f"follow: {target}", f"stop:   {target.replace('attach', 'cancel')}"]
    assert "Traceback" not in shown


def test_no_job_is_promised_before_one_is_submitted(types: Callable[..., Terminal], ansible: Ansible) -> None:
    ansible.answer(0, ("job", "ok", {**JOB, "submission": "missing"}), waits=True)
    terminal = types("run", "jobs/train.yml")
    terminal.read("waiting")
    terminal.interrupt()
    shown = terminal.read()
    assert terminal.process.wait() == errors.INTERRUPTED, shown
    assert shown.strip().endswith("interrupted")
