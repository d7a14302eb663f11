# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates are compiled once, and kept for the user's next commands."""

from __future__ import annotations

import marshal
from pathlib import Path

import jinja2
import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs import render
from tests.unit.plan.containers import PYXIS, planned

PLAN = planned(PYXIS)
SITE = '{% extends "rankzero/job.sbatch.j2" %}\n{% block setup %}echo SITE {{ "a b" }}\n{{ super() }}{% endblock %}\n'


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the compiled templates, of a user who has none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(render._Compiled, "codes", {})
    return tmp_path / "rankzero" / "templates"


def next_command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Forget what this process has compiled. Returns the names of the templates that are compiled from now on."""
    compiled: list[str] = []
    compile_ = jinja2.Environment.compile

    def noted(*args: object, **options: object) -> object:
        compiled.append(str(args[2]))
        return compile_(*args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(jinja2.Environment, "compile", noted)
    monkeypatch.setattr(render._Compiled, "codes", {})
    return compiled


def test_the_next_command_compiles_nothing(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = render.render_script(PLAN)
    compiled = next_command(monkeypatch)
    assert render.render_script(PLAN) == script and not compiled
    assert kept.stat().st_mode & 0o077 == 0 and all(file.suffix == ".code" for file in kept.iterdir())


def test_another_text_another_release_and_other_filters_are_compiled(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "job.sbatch.j2").write_text(SITE, encoding="utf-8")
    assert "echo SITE 'a b'" in render.render_script(PLAN, str(site))
    (site / "job.sbatch.j2").write_text(SITE.replace("a b", "c d"), encoding="utf-8")
    compiled = next_command(monkeypatch)
    assert "echo SITE 'c d'" in render.render_script(PLAN, str(site)) and compiled == ["job.sbatch.j2"]
    for change in ("jinja2.__version__", "sys.version"):
        monkeypatch.setattr(change, "another")
        compiled = next_command(monkeypatch)
        render.render_script(PLAN)
        assert "rankzero/job.sbatch.j2" in compiled or "job.sbatch.j2" in compiled, change
    monkeypatch.setattr(render, "_own_digest", lambda: "another")
    compiled = next_command(monkeypatch)
    render.render_script(PLAN)
    assert compiled


@pytest.mark.parametrize("damage", [b"", b"nothing", b"\xe3", marshal.dumps("text")])
def test_a_damaged_file_is_compiled_anew(kept: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    script = render.render_script(PLAN)
    for file in kept.iterdir():
        file.write_bytes(damage)
    compiled = next_command(monkeypatch)
    assert render.render_script(PLAN) == script and compiled
    compiled = next_command(monkeypatch)
    assert render.render_script(PLAN) == script and not compiled


def test_what_another_user_could_have_written_is_not_run(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = render.render_script(PLAN)
    for file in kept.iterdir():
        file.chmod(0o666)
    compiled = next_command(monkeypatch)
    assert render.render_script(PLAN) == script and compiled
