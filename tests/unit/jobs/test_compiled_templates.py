# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled templates: the launches of one command compile them once, and an edited template anew."""

from __future__ import annotations

import os
from pathlib import Path

import jinja2
import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs import render


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


def test_the_launches_of_a_command_compile_a_template_once(tmp_path: Path, compiled: list[str]) -> None:
    template = tmp_path / render.SITE_SCRIPT
    template.write_text(f'{{% extends "{render.SCRIPT}" %}}\n')
    for _launch in range(3):
        assert render.environment(str(tmp_path)).get_template(render.SITE_SCRIPT).render is not None
    assert compiled == [render.SITE_SCRIPT]
    template.write_text("echo {{ key }}\n")
    os.utime(template, (1, 1))
    assert render.environment(str(tmp_path)).get_template(render.SITE_SCRIPT).render(key="a b") == "echo 'a b'\n"
    assert compiled == [render.SITE_SCRIPT] * 2
