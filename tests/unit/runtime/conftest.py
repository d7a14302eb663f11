# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the runtime as modules, for the tests that call them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.harness import Site

#: Each after those that it imports.
PARTS = ("disk", "holding", "pack", "preflight", "stage", "sealed_file", "sealed_mount", "sealed")


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, ModuleType]]:
    """The modules that staging is made of, by name; they import each other by these names."""
    made, path = {}, list(sys.path)
    for name in PARTS:
        spec = importlib.util.spec_from_file_location(name, os.path.join(RUNTIME, f"{name}.py"))
        assert spec and spec.loader
        made[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made[name])
    yield made
    sys.path[:] = path
    for name in PARTS:
        del sys.modules[name]


@pytest.fixture
def disk(parts: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("RANKZERO_RUN_DIR", "/state/runs/job/key/1")
    return parts["disk"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Files that need more in place have a fixture of this name of their own."""
    return Site(tmp_path / "cluster")
