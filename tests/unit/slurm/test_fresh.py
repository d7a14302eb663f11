# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading what another host has written: a missing name is never asked for. tests/cluster/test_site.py is the proof."""

from __future__ import annotations

import builtins
import os
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import fresh
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import RunDirectory


def test_the_text_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text\n")
    assert fresh.text_of(str(tmp_path / "a")) == "text\n"
    assert fresh.text_of(str(tmp_path / "b")) == ""
    assert fresh.text_of(str(tmp_path / "no" / "b")) == ""
    assert fresh.text_of(str(tmp_path)) == ""


def test_a_missing_name_is_never_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(path: object, *_args: object, **_options: object) -> None:
        raise AssertionError(f"{path} was asked for")

    monkeypatch.setattr(builtins, "open", asked)
    monkeypatch.setattr(os, "stat", asked)
    monkeypatch.setattr(fresh, "sync", asked)
    run = RunDirectory(str(tmp_path))
    assert (run.claim(), run.started(), run.outcome(), run.events()) == (None, None, None, [])


def test_asking_anew_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.sync(str(tmp_path / "missing"))
    monkeypatch.setattr(fresh, "_libc", object())  # a C library without statx
    fresh.sync(str(tmp_path))
