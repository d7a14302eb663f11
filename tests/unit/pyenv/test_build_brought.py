# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds on a host that reaches no package source: what it asks the controller for, and what it makes of that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import build as building
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Needs, Request, build
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import Brought
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.tool import find_uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import UvError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import WheelFile
from tests.unit.pyenv.building import PYPROJECT, built, ensure, leftovers, value


def brought(store: str, wheelhouse: str, **changes: Any) -> Brought:
    wheels = []
    for name, version in (("alpha", "1.0"), ("beta", "2.0")):
        filename = f"{name}-{version}-py3-none-any.whl"
        path = os.path.join(wheelhouse, filename)
        wheels.append(WheelFile(name, version, filename, file_sha256(path), os.path.getsize(path), path))
    return Brought(**{"lock_key": "ab", "lock": "# lock\n", "wheels": wheels, **changes})


def test_without_any_source_it_says_what_it_needs(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # now uv would ask the public index, and UV_OFFLINE is set
    needs = build(Request(recipe(PYPROJECT), store, controller_sources="s"))
    assert isinstance(needs, Needs)
    assert "cannot be reached" in needs.reason
    assert needs.python["markers"]["sys_platform"] == "linux"
    assert needs.lock is None
    assert needs.lock_key
    assert needs.uv is False
    assert not os.path.exists(f"{store}/environments/{recipe(PYPROJECT).key}")
    with pytest.raises(UvError, match="cannot be reached"):
        build(Request(recipe(PYPROJECT), store, download="head"))
    assert leftovers(store) == []


def test_download_by_the_controller_asks_nothing_of_the_host(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_from_sources", lambda *_arguments: pytest.fail("the host was asked"))
    assert isinstance(build(Request(recipe(PYPROJECT), store, download="controller")), Needs)


def test_brought_wheels(store: str, wheelhouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    result = built(store, brought=brought(store, wheelhouse))
    path = f"{store}/environments/{recipe(PYPROJECT).key}"
    assert (result["downloaded_by"], result["lock"]["key"]) == ("controller", "ab")
    assert value(path) == "2"
    # What the controller resolved is what it gets back when the environment is built again.
    needs = building._needs(Request(recipe(PYPROJECT), store, controller_sources="s"), _python(), os.environ, "")
    assert needs.lock is None
    os.rename(f"{store}/locks/pylock.ab.toml", f"{store}/locks/pylock.{needs.lock_key}.toml")
    needs = building._needs(Request(recipe(PYPROJECT), store, controller_sources="s"), _python(), os.environ, "")
    assert needs.lock == "# lock\n"


def _python() -> Any:
    from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import choose

    return choose(PYPROJECT, None)


def test_both_ways_install_the_same(store: str, wheelhouse: str) -> None:
    first = built(store)
    ensure(store, state="absent")
    assert built(store, brought=brought(store, wheelhouse))["digest"] == first["digest"]


def test_wheels_that_the_host_does_not_see(store: str, wheelhouse: str, tmp_path: Path) -> None:
    given = brought(store, wheelhouse)
    sent = tmp_path / "sent"
    sent.mkdir()
    os.rename(given.wheels[0].path, tmp_path / "away.whl")
    with open(given.wheels[1].path, "ab") as stream:
        stream.write(b"!")  # the same name, another content: not seen either
    result = build(Request(recipe(PYPROJECT), store, brought=given))
    assert isinstance(result, Needs)
    assert list(result.files) == ["alpha-1.0-py3-none-any.whl", "beta-2.0-py3-none-any.whl"]
    os.rename(tmp_path / "away.whl", sent / "alpha-1.0-py3-none-any.whl")
    result = build(Request(recipe(PYPROJECT), store, brought=Brought(**{**vars(given), "folder": str(sent)})))
    assert isinstance(result, Needs)
    assert list(result.files) == ["beta-2.0-py3-none-any.whl"]


def test_uv_from_its_wheel(store: str, wheelhouse: str, wheel_maker: Callable[..., Path], uv: str) -> None:
    version = subprocess.run([uv, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    stand_in = f'#!/bin/sh\nexec {uv} "$@"\n'
    path = wheel_maker(Path(wheelhouse), "uv", version, {f"uv-{version}.data/scripts/uv": stand_in})
    tool = WheelFile("uv", version, path.name, file_sha256(str(path)), path.stat().st_size, str(path))
    os.environ["PATH"] = "/usr/bin:/bin"
    given = brought(store, wheelhouse)
    without = build(Request(recipe(PYPROJECT), store, brought=given))
    if isinstance(without, dict):
        pytest.skip("this machine has uv in /usr/bin")
    assert without.uv is True
    built(store, brought=Brought(**{**vars(given), "tool": tool}))
    assert os.access(f"{store}/tools/uv-{version}/uv", os.X_OK)
    assert leftovers(store) == []


def test_uv_is_fetched_with_pip_once(
    store: str, wheelhouse: str, wheel_maker: Callable[..., Path], uv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], check=False, capture_output=True).returncode:
        pytest.skip("/usr/bin/python3 has no ensurepip (package python3-venv)")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if find_uv(store, None, None, os.environ):
        pytest.skip("this machine has uv in /usr/bin")
    version = subprocess.run([uv, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    stand_in = f'#!/bin/sh\nexec {uv} "$@"\n'
    wheel_maker(Path(wheelhouse), "uv", version, {f"uv-{version}.data/scripts/uv": stand_in})
    assert built(store)["uv"] == version
    assert os.listdir(f"{store}/tools") == [f"uv-{version}"]
    os.remove(f"{wheelhouse}/uv-{version}-py3-none-any.whl")
    ensure(store, state="absent")
    assert built(store)["uv"] == version


def test_uv_that_cannot_be_fetched_is_needed_from_the_controller(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if find_uv(store, None, None, os.environ):
        pytest.skip("this machine has uv in /usr/bin")
    python = replace(_python(), path="/bin/false")
    monkeypatch.setattr(building, "choose", lambda *_arguments: python)
    needs = build(Request(recipe(PYPROJECT), store))
    assert isinstance(needs, Needs)
    assert needs.uv and "could not be downloaded with pip" in needs.reason
    assert leftovers(store) == []
