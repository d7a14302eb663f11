# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The traceback of a failed function, found in logs that a real Python has written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rankzero.tracebacks import traceback_of

PLAIN = "def f():\n    raise ValueError('no')\nf()\n"
CHAINED = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('no') from error\n"
HANDLED = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['key']\n"
BEFORE = "import traceback\ntry:\n    [][1]\nexcept IndexError:\n    traceback.print_exc()\n"


def written(place: Path, program: str, name: str = "0/rank-0000.log") -> tuple[Path, str]:
    """A rank's log, and what Python wrote of the exception."""
    log = place / name
    log.parent.mkdir(parents=True, exist_ok=True)
    said = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False).stderr
    log.write_text(f"[rankzero] RANK=0\nstep 1\n{said}", encoding="utf-8")
    return log, said.rstrip("\n")


@pytest.mark.parametrize("program", [PLAIN, CHAINED, HANDLED])
def test_a_traceback_is_whole(tmp_path: Path, program: str) -> None:
    log, said = written(tmp_path, program)
    with log.open("a", encoding="utf-8") as stream:
        stream.write("[rankzero] the program ended with exit code 1\n")
    assert traceback_of([log]) == said


def test_what_was_printed_before_and_caught_is_another(tmp_path: Path) -> None:
    log, said = written(tmp_path, BEFORE + PLAIN)
    assert said.count("Traceback") == 2 and traceback_of([log]).count("Traceback") == 1
    assert said.endswith(traceback_of([log]))


def test_the_rank_that_is_named_and_the_newest_attempt_come_first(tmp_path: Path) -> None:
    old, _said = written(tmp_path, HANDLED, "0/rank-0001.log")
    first, _said = written(tmp_path, CHAINED, "10/rank-0000.log")
    second, said = written(tmp_path, PLAIN, "10/rank-0001.log")
    silent, _said = written(tmp_path, "", "11/rank-0001.log")
    logs = sorted([old, first, second, silent])
    assert traceback_of(logs, [1]) == said
    assert "ZeroDivisionError" in traceback_of(logs) and traceback_of([silent]) == ""
