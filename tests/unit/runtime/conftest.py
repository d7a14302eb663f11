# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the runtime as modules, for the tests that call them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.runtime.harness import Site, runtime_parts

PARTS = (
    "node.disk", "node.job_end", "node.pack", "preflight.program", "node.copies", "node.sealed_file",
    "node.sealed_mount", "node.sealed",
)  # fmt: skip


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, ModuleType]]:
    """The modules that staging is made of, by the names of their files."""
    with runtime_parts(PARTS[0]):
        yield {name.partition(".")[2]: importlib.import_module(name) for name in PARTS}


@pytest.fixture
def disk(parts: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("RANKZERO_RUN_DIR", "/state/runs/job/key/1")
    return parts["disk"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Files that need more in place have a fixture of this name of their own."""
    return Site(tmp_path / "cluster")


@pytest.fixture(autouse=True, scope="module")
def every_stand_in_is_called(request: pytest.FixtureRequest) -> Iterator[None]:
    """A stand-in that nothing calls proves nothing: the runtime may do by other means what it once did with it."""
    Site.made.clear()
    yield
    config = request.config
    if request.session.testsfailed or config.getoption("keyword") or any("::" in word for word in config.args):
        return  # a part of the file's tests says nothing
    own = {name for site in Site.made for name in site.own_stand_ins()}
    assert own == {name for site in Site.made for name in own if site.called(name)}
