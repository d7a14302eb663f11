# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Some of the hostile specs of `benchmarks/run specs`, and that it would tell if one of them were obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs import render
from benchmarks.specs.executed import Ground
from benchmarks.specs.hostile import Hostile


def test_every_text_of_a_spec_arrives_as_it_was_written_and_none_is_executed(tmp_path: Path) -> None:
    hostile = Hostile(9, str(tmp_path))
    ground = Ground(tmp_path, "s" + hostile.part())
    for _number in range(25):
        spec = hostile.spec()
        assert ground.run(spec) == [], spec


def test_a_template_that_does_not_quote_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside `canary`, the working directory of the script, an unquoted text may do what it likes."""
    (tmp_path / "x").mkdir()
    ground = Ground(tmp_path / "x", "state")
    command = {"name": "job", "command": ["train.py", "$(touch executed)"]}
    assert ground.run(command) == []
    monkeypatch.setattr(render.shlex, "quote", str)
    assert ground.run(command) == ["executed: executed"]
    (ground.canary / "executed").unlink()
    monkeypatch.setattr(render, "_words", lambda values: render.Safe(" ".join(values)))
    assert any(problem.startswith("argv: ") for problem in ground.run({"name": "job", "command": ["x.py", "a  b"]}))
