# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures that were provoked for real on a lab, each diagnosed whole: family and root line.

`python -m benchmarks.diagnosis.provoke` provokes them again; the labels were written before the logs were diagnosed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import scan
from benchmarks.diagnosis.provoke.case import HEALTHY
from benchmarks.diagnosis.provoke.kept import Kept, diagnosed, kept
from tests.repository import bullet_list

CASES = list(kept())


def misread(case: Kept) -> str | None:
    """What is wrong with the diagnosis of a failure: its family or its root line."""
    family, root, text = diagnosed(case)
    right_line = root in case.roots if case.family != HEALTHY else root is None
    return None if case.accepts(family) and right_line else f"{case.id}: {family} at {root}: {text}"


def test_every_provoked_failure_is_understood() -> None:
    wrong = [problem for case in CASES if (problem := misread(case))]
    assert not wrong, bullet_list(wrong)


def test_there_are_many_and_of_many_kinds() -> None:
    families = {case.family for case in CASES}
    assert len(families) >= 30 and len(CASES) >= 180
    assert sum(case.family == HEALTHY for case in CASES) >= 10
    assert all(path.stat().st_size <= 40_000 for case in CASES for path in case.logs)


@pytest.mark.parametrize("name", ["healthy-retries", "healthy-requeued", "healthy-clean-up", "file-missing"])
def test_the_same_is_said_of_a_big_log(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of big logs what stands near complaints is read, and both ends."""
    (case,) = (case for case in CASES if case.id == name)
    (log,) = case.logs
    text = log.read_bytes()
    middle = text.find(b"\nstep 9/") + 1 or text.find(b" step 9/") - 1
    filler = b"the weather is fine and nothing else happens here\n" * 2000
    (tmp_path / log.name).write_bytes(text[:middle] + filler + text[middle:] if middle > 0 else filler + text)
    monkeypatch.setattr(scan, "BIG", 10_000)
    family, root, text_of_root = diagnosed(replace(case, logs=(tmp_path / log.name,)))
    assert case.accepts(family), f"{family} at {root}: {text_of_root}"
