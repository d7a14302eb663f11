# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts the programs on the nodes: bounded in time and output, with a closed input and the variables given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.runtime.harness import runtime_parts

PYTHON = [sys.executable, "-I", "-c"]


@pytest.fixture(name="children")
def _children() -> Iterator[ModuleType]:
    with runtime_parts("core.children") as module:
        yield module


def test_output_and_messages_are_apart_and_the_last_message_is_the_complaint(children: ModuleType) -> None:
    ended = children.run([*PYTHON, "import sys; print('out'); sys.stderr.write('a\\nb\\n'); sys.exit(3)"], {}, 60)
    assert (ended.returncode, ended.out, ended.stderr, ended.complaint) == (3, b"out\n", "a\nb", "b")
    silent = children.run([*PYTHON, "raise SystemExit(4)"], {}, 60)
    assert silent.complaint == "exit code 4"
    assert not children.run([*PYTHON, ""], {}, 60).complaint


def test_it_reads_nothing_of_this_process_and_gets_the_variables_given(
    children: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_HANDED_ON", "1")
    program = "import os, sys; print(repr(sys.stdin.read()), 'NOT_HANDED_ON' in os.environ, os.environ['GIVEN'])"
    assert children.run([*PYTHON, program], {"GIVEN": "2"}, 60).stdout == "'' False 2"
    assert children.run([*PYTHON, program], {"GIVEN": "2"}, 60, stdin=b"text").stdout == "'text' False 2"


def test_one_that_does_not_end_is_killed_with_what_it_has_started(children: ModuleType, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(TimeoutError) as error:
            children.run(["/bin/sh", "-c", 'sleep 600 > "$0" & sleep 600', str(pipe)], {"PATH": os.defpath}, 0.5)
        assert "killed" in str(error.value.strerror)
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b"", "nobody has the pipe open for writing"
    finally:
        os.close(reader)


def test_only_so_much_of_the_output_is_kept(children: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "MOST_BYTES", 4)
    monkeypatch.setattr(children, "MOST_MESSAGE_BYTES", 4)
    ended = children.run(
        [*PYTHON, "import sys; print('first', 'x' * 9000); sys.stderr.write('y' * 9000 + 'last')"], {}, 60
    )
    assert (ended.out, ended.err) == (b"firs", b"last")


def test_one_that_cannot_be_started_is_an_error_of_the_system(children: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        children.run([str(tmp_path / "absent")], {}, 60)
