# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way to run another program."""

from __future__ import annotations

import os
import sys
import time

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children, programs

PATH = {"PATH": os.environ["PATH"]}


def test_a_program_gets_its_list_of_variables_a_closed_input_and_its_folder() -> None:
    done = children.run(["sh", "-c", "cat; env; pwd; echo bad >&2; exit 3"], {**PATH, "A": "b"}, cwd="/")
    lines = done.stdout.splitlines()
    assert {"A=b", "/"} <= set(lines) and not any(line.startswith("HOME=") for line in lines)
    assert (done.returncode, done.stderr) == (3, "bad\n")


def test_its_input_and_both_outputs_are_bytes_and_text() -> None:
    given = b"\xff\r\n" * 100_000
    done = children.run(["sh", "-c", "echo bad >&2; cat"], PATH, stdin=given, joined=True)
    assert done.out == b"bad\n" + given and done.err == b""
    assert done.stdout.startswith("bad\n\ufffd\n\ufffd\n")


def test_a_program_that_cannot_be_started_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="nowhere"):
        children.run(["/nowhere/at/all"], PATH)


@pytest.mark.parametrize("program", ["yes", "exec >&- 2>&-; sleep 600"])
def test_a_program_is_ended_in_time(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(programs, "MOST_OUTPUT", 10)
    with pytest.raises(children.Late):
        children.run(["sh", "-c", program], PATH, seconds=1)


def test_what_it_has_started_ends_with_it() -> None:
    with pytest.raises(children.Late) as caught:
        children.run(["sh", "-c", "sleep 600 & echo $!; wait"], PATH, seconds=5)
    number = int(caught.value.out)
    while os.path.exists(f"/proc/{number}") and _state(number) != "Z":
        time.sleep(0.05)


def _state(number: int) -> str:
    try:
        with open(f"/proc/{number}/stat", encoding="ascii") as stream:
            return stream.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_of_long_outputs_the_beginning_and_of_messages_the_end_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_OUTPUT", 10)
    monkeypatch.setattr(programs, "MOST_MESSAGES", 10)
    text = "for f in (1, 2): __import__('os').write(f, b'first' + b'.' * 300000 + b'last')"
    done = children.run([sys.executable, "-I", "-c", text], PATH)
    assert (done.returncode, done.out, done.err) == (0, b"first.....", b"......last")


def test_the_last_message_of_a_failure_is_the_complaint() -> None:
    ends = [
        children.run(["sh", "-c", words], PATH) for words in ("echo a >&2; echo b >&2; exit 3", "exit 4", "echo a >&2")
    ]
    assert [end.complaint for end in ends] == ["b", "exit code 4", ""]


def test_an_input_that_nobody_reads_is_no_error() -> None:
    assert children.run(["true"], PATH, stdin=b"x" * 1_000_000).returncode == 0


def test_on_a_node_what_takes_too_long_is_an_error_of_the_system() -> None:
    with pytest.raises(TimeoutError) as caught:
        programs.run(["sleep", "600"], PATH, 0.1)
    assert "killed" in str(caught.value.strerror)
