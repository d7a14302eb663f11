# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments from sources, with a real uv: folders beside the project, members of a workspace, a requirements file
with `-e .`, git sources and source archives. Each builds by its own backend, which leaves a mark, without a network.
"""

from __future__ import annotations

import os
import tarfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Needs, Request, build
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import (
    ensure_packages,
    make_elsewhere,
    wanted_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.gather import aim_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.request import PackagesRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import EnvironmentRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import pack_trees
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.wheelhouse import collect
from tests.unit.pyenv import supplies
from tests.unit.pyenv.conftest import Index
from tests.unit.pyenv.own_packages import SHAPES, WANTED, archive, beside, package, project, recipe_of, repository, told


def request_of(made: Recipe) -> JsonObject:
    return asdict(EnvironmentRequest(made.pyproject, made.lock, trees=made.trees))


def packed(folder: Path, made: Recipe, target: Path) -> Recipe:
    target.mkdir(exist_ok=True)
    return pack_trees(str(folder), made, str(target))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "built.txt"


def environment(store: str, made: Recipe) -> Any:
    options = {**WANTED, "store_root": store, "download": "head", "uv": None, "state": "present"}
    return ensure_environment(options, request_of(made))


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_an_environment_has_copies_of_the_projects_own_packages(
    shape: str, supplied: str, tmp_path: Path, mark: Path
) -> None:
    folder = SHAPES[shape](tmp_path / "here", mark)
    made = recipe_of(folder)
    asked = environment(supplied, made)
    assert asked["needs"]["trees"] and not asked["changed"]

    sent = packed(folder, made, tmp_path / "archives")
    result = environment(supplied, sent)
    assert (result["changed"], result["ref"]["key"]) == (True, made.key)
    (tmp_path / "here").rename(tmp_path / "gone")
    assert told(result["ref"]["path"], "delta", "epsilon") == [4, 5]
    again = environment(supplied, made)
    assert (again["changed"], again["ref"]) == (False, result["ref"]), "what is there needs no archive"


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_changed_source_is_another_environment(shape: str, supplied: str, tmp_path: Path, mark: Path) -> None:
    folder = SHAPES[shape](tmp_path / "here", mark)
    before = recipe_of(folder)
    assert recipe_of(folder).key == before.key
    (module,) = [path for path in (tmp_path / "here").rglob("epsilon.py") if path.parent.name == "src"]
    module.write_text("VALUE = 6\n", encoding="utf-8")
    after = recipe_of(folder)
    assert after.key != before.key
    with pytest.raises(RankzeroError, match="changed meanwhile"):
        packed(folder, before, tmp_path / "old")
    result = environment(supplied, packed(folder, after, tmp_path / "new"))
    assert told(result["ref"]["path"], "delta", "epsilon") == [4, 6]


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_set_of_packages_has_their_wheels(shape: str, supplied: str, tmp_path: Path, mark: Path) -> None:
    folder = SHAPES[shape](tmp_path / "here", mark)
    made = recipe_of(folder)
    asked = ensure_packages(supplies.options(supplied), set_of(made).arguments())
    assert asked["needs"] == {"reason": asked["needs"]["reason"], "trees": True}
    result = ensure_packages(
        supplies.options(supplied), set_of(packed(folder, made, tmp_path / "archives")).arguments()
    )
    wheels = [f"wheels/{name}-1.0-py3-none-any.whl" for name in ("delta", "epsilon")]
    assert [name for name in sorted(result["packages"]["files"]) if name.startswith("wheels/")] == wheels
    assert result["ref"]["key"] == asked["ref"]["key"]
    assert sorted(mark.read_text(encoding="utf-8").split("\n")[:-1]) == ["delta alone", "epsilon alone"]


def set_of(made: Recipe) -> PackagesRequest:
    return PackagesRequest(made.pyproject, made.lock, trees=made.trees)


@pytest.fixture
def from_sources(supplied: str, index: Index, tmp_path: Path, mark: Path) -> Path:
    """A locked project: `delta` from git, `epsilon` only as a source archive of the index, alpha and beta as wheels."""
    index.add(archive(tmp_path / "made", package(tmp_path / "epsilon", "epsilon", mark, 5), "epsilon"))
    place = repository(tmp_path / "repository", "delta", mark)
    sources = f'[tool.uv.sources]\ndelta = {{git = "file://{place}"}}\n'
    return project(tmp_path / "p", sources, "delta", "epsilon", "alpha")


def test_a_host_builds_a_set_from_git_and_from_source_archives(
    from_sources: Path, supplied: str, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "the user")
    hooks = from_sources.parent / "hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\necho hook >> {mark}\n", encoding="utf-8")
    (hooks / "reference-transaction").chmod(0o755)
    home = Path(os.environ["HOME"])
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text(f"[core]\nhooksPath = {hooks}\n", encoding="utf-8")
    mark.unlink(missing_ok=True)

    made = recipe_of(from_sources)
    result = ensure_packages(supplies.options(supplied), set_of(made).arguments())
    assert result["packages"]["packages"] == {"alpha": "1.0", "beta": "2.0", "delta": "1.0", "epsilon": "1.0"}
    assert sorted(mark.read_text(encoding="utf-8").split("\n")[:-1]) == ["delta alone", "epsilon alone"]
    again = ensure_packages(supplies.options(supplied), set_of(made).arguments())
    assert (again["changed"], again["ref"]) == (False, result["ref"])


def test_an_archive_that_changed_since_the_lock_is_not_built(
    from_sources: Path, supplied: str, index: Index, mark: Path
) -> None:
    changed = package(from_sources.parent / "changed", "epsilon", mark, 666)
    index.add(archive(from_sources.parent / "again", changed, "epsilon"))
    mark.unlink(missing_ok=True)
    with pytest.raises(RankzeroError, match="building delta, epsilon from source"):
        ensure_packages(supplies.options(supplied), set_of(recipe_of(from_sources)).arguments())
    assert "epsilon" not in (mark.read_text(encoding="utf-8") if mark.exists() else "")
    assert not os.path.exists(f"{supplied}/packages") or not [
        name for name in os.listdir(f"{supplied}/packages") if not name.startswith(".")
    ]


def test_the_controller_builds_a_set_only_if_it_may(from_sources: Path, supplied: str, mark: Path) -> None:
    mark.unlink(missing_ok=True)
    wanted = wanted_of(supplies.options(supplied), set_of(recipe_of(from_sources)))
    with pytest.raises(RankzeroError) as caught:
        make_elsewhere(f"{supplied}-controller", wanted, replace(aim_of(wanted), here=False), None)
    assert "delta 1.0 (vcs)" in caught.value.message or "delta (vcs)" in caught.value.message
    assert "epsilon 1.0 (sdist)" in caught.value.message
    assert "launch_cluster.build_on_controller: true" in caught.value.message
    assert not mark.exists(), "nothing was built"
    offer = make_elsewhere(f"{supplied}-controller", wanted, replace(aim_of(wanted), here=False), None, builds=True)
    assert sorted(mark.read_text(encoding="utf-8").split("\n")[:-1]) == ["delta alone", "epsilon alone"]
    wheels = os.listdir(os.path.join(offer.folder, "wheels"))
    assert {"delta-1.0-py3-none-any.whl", "epsilon-1.0-py3-none-any.whl"} <= set(wheels)


@pytest.mark.parametrize("shape", ["sources", "beside", "requirements"])
def test_the_controller_builds_what_a_host_cannot(
    shape: str, from_sources: Path, supplied: str, tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = from_sources if shape == "sources" else SHAPES[shape](tmp_path / "here", mark)
    mark.unlink(missing_ok=True)
    made = recipe_of(folder)
    here = packed(folder, made, tmp_path / "archives")
    needs = build(Request(here, supplied, "controller"))
    assert isinstance(needs, Needs)
    needs = made_of(Needs, asdict(needs))
    with pytest.raises(RankzeroError, match=r"delta.*launch_cluster\.build_on_controller: true"):
        collect(here, needs)
    assert not mark.exists()
    brought = collect(here, needs, builds=True)
    result = build(Request(here, supplied, "controller", brought=brought))
    assert not isinstance(result, Needs)
    assert result["downloaded_by"] == "controller"
    assert {"delta": "1.0", "epsilon": "1.0"}.items() <= result["packages"].items()


def test_a_locked_project_reaches_a_host_through_the_controller(supplied: str, tmp_path: Path) -> None:
    """Without sources of its own: uv refuses the option that keeps it from sources together with a lock."""
    folder = project(tmp_path / "p", "", "alpha")
    wanted = wanted_of(supplies.options(supplied), set_of(recipe_of(folder)))
    offer = make_elsewhere(f"{supplied}-controller", wanted, replace(aim_of(wanted), here=False), None)
    assert len(os.listdir(os.path.join(offer.folder, "wheels"))) == 2


def test_a_wheel_beside_the_project(supplied: str, wheelhouse: str, tmp_path: Path) -> None:
    folder = tmp_path / "here" / "p"
    (folder / "wheels").mkdir(parents=True)
    for path in Path(wheelhouse).glob("beta*"):
        (folder / "wheels" / path.name).write_bytes(path.read_bytes())
    project(folder, '[tool.uv.sources]\nbeta = {path = "wheels/beta-2.0-py3-none-any.whl"}\n', "beta")
    sent = packed(folder, recipe_of(folder), tmp_path / "archives")
    assert told(environment(supplied, sent)["ref"]["path"], "beta") == [1]
    result = ensure_packages(supplies.options(supplied), set_of(sent).arguments())
    assert result["packages"]["packages"] == {"beta": "2.0"}


def test_what_cannot_be_sent_is_named(tmp_path: Path, mark: Path) -> None:
    package(tmp_path / "lib", "delta", mark)
    sources = '[tool.uv.sources]\ndelta = {path = "../lib"}\n'
    without = project(tmp_path / "p", sources, "delta", lock=False)
    with pytest.raises(RankzeroError, match=r"path or workspace in \[tool\.uv\.sources\].*Run `uv lock`"):
        recipe_of(without)
    (tmp_path / "p" / "uv.lock").write_text('source = { editable = "../nothing" }\n', encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"names \.\./nothing as a package: there is no "):
        recipe_of(without)
    (tmp_path / "lib" / "pyproject.toml").write_text('dependencies = ["x @ http://h/${TOKEN}"]\n', encoding="utf-8")
    (tmp_path / "p" / "uv.lock").write_text('source = { editable = "../lib" }\n', encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"lib/pyproject\.toml contains \$\{TOKEN\}"):
        recipe_of(without)


def test_a_damaged_archive_is_not_built(supplied: str, tmp_path: Path, mark: Path) -> None:
    folder = beside(tmp_path / "here", mark)
    sent = packed(folder, recipe_of(folder), tmp_path / "archives")
    other = package(tmp_path / "other", "delta", mark, 666)
    with tarfile.open(str(sent.trees[0].archive), "w:gz") as out:
        out.add(other / "pyproject.toml", "pyproject.toml")
    with pytest.raises(RankzeroError, match="was damaged on its way"):
        environment(supplied, sent)
