# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python package: what the wheel holds, and that it works in an environment of its own, without the checkout."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest
import tomllib
from packaging.version import Version

from tests import wheels
from tests.repository import BIN, PAGES, bullet_list, dead_links, files, load_yaml, read, run

AT_THE_TOP = ("galaxy.yml", "COPYING", "README.md", "CHANGELOG.rst", "AGENTS.md", "llms.txt")
INSIDE = "ansible_collections/rankzero/slurm/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def rankzero(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.installed(wheel, tmp_path_factory.mktemp("venv"), alone=True)


def test_wheel_holds_the_collection_and_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    folders = ("plugins/", "roles/", "playbooks/", "meta/", "docs/", "examples/")
    wanted = {f"{INSIDE}{path}" for folder in folders for path in files(folder)}
    wanted |= {f"{INSIDE}{name}" for name in AT_THE_TOP}
    wanted |= {path.removeprefix("python/") for path in files("python/")}
    assert not wanted - held, "missing:" + bullet_list(sorted(wanted - held))
    others = {path for path in held - wanted if ".dist-info/" not in path}
    assert not others, "not wanted:" + bullet_list(sorted(others))


def test_pages_of_the_wheel_link_to_what_is_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        pages = {name: archive.read(name).decode("utf-8") for name in archive.namelist() if name.endswith(PAGES)}
        (described,) = [archive.read(name).decode("utf-8") for name in archive.namelist() if name.endswith("/METADATA")]
        dead = dead_links(pages, archive.namelist(), INSIDE)
    dead += dead_links({f"{INSIDE}README.md": described.partition("\n\n")[2]}, (), INSIDE)
    assert len(pages) > 50 and not dead, bullet_list(dead)


def test_package_needs_what_a_checkout_needs() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    lines = [line for line in read("requirements.txt").splitlines() if line and not line.startswith("#")]
    assert project["dependencies"] == lines


def test_command_works_without_the_checkout_and_without_a_cluster(rankzero: Path, tmp_path: Path) -> None:
    """A folder becomes a project whose job is planned by the collection inside the wheel."""
    surroundings = {"ANSIBLE_COLLECTIONS_PATH": "", "PYTHONPATH": "", "HOME": str(tmp_path / "home")}
    project = tmp_path / "tiny"
    project.mkdir()
    (project / "train.py").write_text("print('trained')\n", encoding="utf-8")

    version = run(rankzero, "--version", cwd=project, env=surroundings).stdout
    name, number = version.split()  # a candidate is 1.0.0-rc.1 of a collection, and 1.0.0rc1 of a package
    assert name == "rankzero" and Version(number) == Version(load_yaml("galaxy.yml")["version"])
    run(rankzero, "init", cwd=project, env=surroundings)
    # A PATH without Slurm: the machine of these tests may have it.
    path = f"{rankzero.parent}{os.pathsep}{BIN}{os.pathsep}/usr/bin{os.pathsep}/bin"
    shown = run(
        "sh", "-c", f"{rankzero} plan jobs/tiny.yml -n 4 --json 2>log", cwd=project, env={**surroundings, "PATH": path}
    )
    planned = json.loads(shown.stdout)
    assert planned["schema"] == "rankzero/plan/1" and planned["exit_code"] == 0
    (launch,) = planned["launches"]
    assert launch["name"] == "tiny" and launch["world_size"] == 4
    assert "#SBATCH --nodes=4" in launch["script"]
    log = (project / "log").read_text(encoding="utf-8")
    assert "not compared with a cluster" in log
