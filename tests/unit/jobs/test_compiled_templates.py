# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled templates: a later command takes over what an earlier one has compiled, unless it is not to be trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs import render
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import CompiledTemplates


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's cache, for templates that last."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(CompiledTemplates, "codes", {})
    monkeypatch.setattr(CompiledTemplates, "lasting", True)
    render._folder.cache_clear()
    yield tmp_path / "cache" / "rankzero" / "templates"
    render._folder.cache_clear()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the templates that Jinja has compiled."""
    names: list[str] = []
    compile_ = jinja2.Environment.compile

    def counted(environment: jinja2.Environment, source: str, name: str, *rest: object) -> object:
        names.append(name)
        return compile_(environment, source, name, *rest)  # type: ignore[call-overload]

    monkeypatch.setattr(jinja2.Environment, "compile", counted)
    return names


def loaded() -> jinja2.Template:
    """The batch script's template, as a new command loads it."""
    CompiledTemplates.codes.clear()
    return render.environment().get_template(render.SCRIPT)


def test_a_later_command_compiles_nothing(cache: Path, compiled: list[str]) -> None:
    loaded()
    assert len(compiled) == 1
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o600}
    assert loaded().blocks
    assert len(compiled) == 1


def test_what_others_could_have_written_is_compiled_anew(cache: Path, compiled: list[str]) -> None:
    loaded()
    (path,) = cache.iterdir()
    path.chmod(0o620)
    loaded()
    assert len(compiled) == 2
    loaded()  # it was replaced
    assert len(compiled) == 2
    cache.chmod(0o770)
    loaded()
    assert len(compiled) == 3
    cache.chmod(0o700)
    path.rename(cache / "elsewhere")
    path.symlink_to(cache / "elsewhere")
    loaded()
    assert len(compiled) == 4


@pytest.mark.parametrize("content", [b"", b"\n", b"not code", b"0" * 64 + b"\nj2"])
def test_a_damaged_file_is_replaced(cache: Path, compiled: list[str], content: bytes) -> None:
    loaded()
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    for damaged in (content, whole[:-100], whole[:70], b"1" + whole[1:]):
        path.write_bytes(damaged)
        before = len(compiled)
        assert loaded().blocks
        assert len(compiled) == before + 1 and path.read_bytes() == whole


def test_other_filters_are_another_maker(cache: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded()
    monkeypatch.setattr(render, "_maker", lambda: "another release")
    loaded()
    assert len(compiled) == 2


def test_a_home_without_a_cache_only_costs_time(
    cache: Path, compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    render._folder.cache_clear()
    assert loaded().blocks and loaded().blocks
    assert len(compiled) == 2 and not cache.exists()
