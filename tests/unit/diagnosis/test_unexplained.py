# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of an exception that no family knows: where the program raised it, and what it wrote before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.diagnosis.test_advice import diagnosed

RECORDED = Path(__file__).resolve().parents[2] / "diagnosis" / "recorded"
RUN = "/scratch/someone/rankzero/runs/fit/0123456789abcdef/3/work"
SNAPSHOT = "/scratch/someone/store/code/0123456789abcdef0123456789abcdef"
LIBRARY = "/opt/env/lib/python3.11/site-packages/tables/core.py"
HEAD = "Traceback (most recent call last):\n"


def frame(file: str, line: int, function: str, code: str = "") -> str:
    """A frame of a traceback as Python writes it."""
    return f'  File "{file}", line {line}, in {function}\n' + (f"    {code}\n" if code else "")


@pytest.mark.parametrize(
    ("folder", "shown"),
    [(RUN, "work/src/rows.py:12"), (SNAPSHOT, "work/src/rows.py:12"), ("/home/someone/mine", "src/rows.py:12")],
)
def test_the_deepest_frame_of_the_program_is_named_with_its_line(tmp_path: Path, folder: str, shown: str) -> None:
    text = (
        HEAD
        + frame(f"{folder}/fit.py", 40, "<module>", "main()")
        + frame(f"{folder}/src/rows.py", 12, "split", "cells = table['colour']")
        + frame(LIBRARY, 900, "__getitem__", "return self._find(key)")
        + "KeyError: 'colour'\n"
    )
    found = diagnosed(tmp_path, text)
    assert found.what == f"{shown} raised KeyError: 'colour'"
    assert shown in found.remedy and "in split" in found.remedy and "`cells = table['colour']`" in found.remedy
    assert "core.py" not in found.what + found.remedy


def test_an_exception_of_a_library_only_is_not_said_to_be_of_the_program(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, HEAD + frame(LIBRARY, 900, "__getitem__", "return self._find(key)") + "KeyError: 'a'\n")
    assert found.what == "the program raised KeyError: 'a'"
    assert "tables/core.py:900" in found.remedy


def test_the_first_of_a_chain_is_placed_where_the_chain_left_the_program(tmp_path: Path) -> None:
    text = (
        HEAD
        + frame(LIBRARY, 900, "_find", "return index[key]")
        + "KeyError: 'colour'\n\nThe above exception was the direct cause of the following exception:\n\n"
        + HEAD
        + frame(f"{RUN}/fit.py", 40, "<module>", "cells = table['colour']")
        + frame(LIBRARY, 930, "__getitem__", "raise KeyError(key) from error")
        + "KeyError: 'colour!'\n"
    )
    found = diagnosed(tmp_path, text)
    assert found.what == "work/fit.py:40 raised KeyError: 'colour'"
    assert "cells = table['colour']" in found.remedy


def test_a_traceback_of_rich_is_read_as_well(tmp_path: Path) -> None:
    text = (
        "╭───────────── Traceback (most recent call last) ─────────────╮\n"
        f"│ {RUN}/fit.py:10 in <module>                                  │\n"
        "│                                                             │\n"
        "│    8                                                        │\n"
        "│ ❱ 10 │   main(7)                                            │\n"
        "╰─────────────────────────────────────────────────────────────╯\n"
        "ZeroDivisionError: division by zero\n"
    )
    found = diagnosed(tmp_path, text)
    assert found.what == "work/fit.py:10 raised ZeroDivisionError: division by zero"
    assert "`main(7)`" in found.remedy


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("ERROR: shard 7 has no rows", True),
        ("could not read the index of shard 7", True),
        ("step 12 loss 0.31", False),
        ("shard 7 has 12 rows", False),
    ],
)
def test_a_complaint_before_the_traceback_is_told(tmp_path: Path, before: str, told: bool) -> None:
    text = (
        f"{before}\n{HEAD}{frame(f'{RUN}/fit.py', 40, '<module>', 'mean(rows)')}ZeroDivisionError: division by zero\n"
    )
    assert (before in diagnosed(tmp_path, text).remedy) == told


def test_braces_in_a_message_stay(tmp_path: Path) -> None:
    text = HEAD + frame(f"{RUN}/fit.py", 4, "main", "raise KeyError(f'{name}')") + "LookupError: no {where} in {code}\n"
    found = diagnosed(tmp_path, text)
    assert found.what == "work/fit.py:4 raised LookupError: no {where} in {code}"
    assert "{name}" in found.remedy


def test_long_messages_and_lines_are_shortened(tmp_path: Path) -> None:
    text = HEAD + frame(f"{RUN}/fit.py", 4, "main", f"call({'x' * 900})") + f"LookupError: {'y' * 900}\n"
    found = diagnosed(tmp_path, text)
    assert len(found.what) < 200 and len(found.remedy) < 400


def recorded_exceptions() -> list[str]:
    labels = [json.loads(line) for line in (RECORDED / "labels.jsonl").read_text().splitlines()]
    return [log for label in labels if label["family"] == "exception" for log in label["logs"][:1]]


def test_of_the_recorded_runs_each_unknown_exception_names_a_line_of_its_program(tmp_path: Path) -> None:
    named, unknown = [], []
    for name in recorded_exceptions():
        found = diagnosed(tmp_path, (RECORDED / name).read_text(errors="replace"))
        if found.family == "exception" and found.root is not None and "Error" in found.root.text:
            unknown.append(name)
            named += [name] if ".py:" in found.what else []
    assert len(unknown) >= 10
    assert named == unknown
