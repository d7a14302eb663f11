# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example's files. Its program is tested by tests/cluster/first_run_program.py, in the example's environment."""

from __future__ import annotations

import configparser
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "first_run"


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def module(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


def test_the_text_is_what_its_program_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    written = (EXAMPLE / "data" / "text.txt").read_text(encoding="utf-8")
    assert module(EXAMPLE / "data" / "make_text.py").text() == written
    assert 100_000 < len(written) < 200_000


def test_every_file_that_the_job_names_is_there() -> None:
    job = load(EXAMPLE / "jobs" / "first_run.yml")
    folder = EXAMPLE / "jobs"
    assert (folder / job["code"]["src"] / job["command"][0]).is_file()
    assert (folder / job["environment"]["project"] / "pyproject.toml").is_file()
    for pattern in job["code"]["exclude"]:
        assert (EXAMPLE / pattern.strip("/")).exists(), f"code.exclude names {pattern}, which is not there"


def test_ansible_finds_the_inventory_and_the_job() -> None:
    settings = configparser.ConfigParser()
    settings.read(EXAMPLE / "ansible.cfg")
    assert (EXAMPLE / settings["defaults"]["inventory"]).is_file()
    template = load(EXAMPLE / "inventory" / "group_vars" / "all.yml")["job"]
    assert Path(template.replace("{{ inventory_dir }}", str(EXAMPLE / "inventory"))).is_file()


@pytest.mark.parametrize("path", sorted((EXAMPLE / "inventory").glob("*.yml")), ids=lambda path: path.stem)
def test_every_inventory_has_one_login_host_with_its_storage(path: Path) -> None:
    hosts = load(path)["slurm_login"]["hosts"]
    assert len(hosts) == 1
    (variables,) = hosts.values()
    assert set(variables["launch_cluster"]) >= {"state_root", "store_root"}


def test_no_file_names_an_index_or_this_machine() -> None:
    for path in EXAMPLE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert not re.search(r"https?://", path.read_text(encoding="utf-8")), path
