# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every producer (code_snapshot, uv_environment, image, dataset) takes what a trusted store has.

Each test gives the options `stores` and `store_group_writable` as the modules have them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import (
    DATASET,
    IMAGE,
    UV_ENVIRONMENT,
    Options,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import run as ensure_dataset
from ansible_collections.rankzero.slurm.plugins.module_utils.image.ensure import ensure_image
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import inputs, key_of
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import recipe as image_recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import CondaRecipe, ensure_conda
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import ensure_packages, wanted_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.request import PackagesRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import make_read_only
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot import ensure_snapshot
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest, read_tree

PYPROJECT = '[project]\nname = "p"\nversion = "1"\ndependencies = ["alpha"]\n'
CONDA = {"form": "yml", "text": "dependencies: [python]\n"}
Result = dict[str, Any]


class Site:
    """A user's own store, and one of a platform team that is owned by the same user here."""

    def __init__(self, root: Path) -> None:
        root.chmod(0o755)
        self.own, self.platform = root / "own", root / "platform"
        self.data = root / "data"

    def options(self, table: Options, **given: Any) -> Result:
        own = {name: one.get("default") for name, one in table.items()}
        trusted = [{"path": str(self.platform), "owners": [str(os.geteuid())]}]
        return {**own, "store_root": str(self.own), "stores": trusted, "store_group_writable": False, **given}

    def publish(self, place: str, files: dict[str, str]) -> Path:
        folder = self.platform / place
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        make_read_only(str(folder))
        for one in (folder, *list(folder.parents)[: len(Path(place).parts)]):
            one.chmod(0o755)
        return folder


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def sealed(bytes_: int) -> str:
    return json.dumps(
        {"digest": "5" * 64, "python": {"path": "/p"}, "sealed": {"file": "f", "bytes": bytes_, "sha256": "5" * 64}}
    )


def code(site: Site) -> tuple[Path, Result]:
    site.publish("code/new", {"train.py": "print()\n"})
    key = digest(read_tree(str(site.platform / "code" / "new")))
    path = (site.platform / "code" / "new").rename(site.platform / "code" / key)
    return path, ensure_snapshot(site.options({}), key)


def environment(site: Site) -> tuple[Path, Result]:
    options = site.options(UV_ENVIRONMENT, mode="sealed")
    made = recipe(PYPROJECT, None, [], None, "auto", "sealed", options)
    path = site.publish(f"environments/{made.key}", {"env.json": sealed(4), "f": "file"})
    return path, ensure_environment(options, {"pyproject": PYPROJECT})


def conda(site: Site) -> tuple[Path, Result]:
    path = site.publish(f"environments/{CondaRecipe(**CONDA).key}", {"env.json": sealed(4), "f": "file"})
    return path, ensure_conda(site.options(UV_ENVIRONMENT, mode="conda"), {"conda": CONDA})


def packages(site: Site) -> tuple[Path, Result]:
    options, request = site.options(UV_ENVIRONMENT, mode="wheelhouse"), {"pyproject": PYPROJECT}
    wanted = wanted_of(options, PackagesRequest(PYPROJECT))
    files = {"requirements.txt": {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}}
    manifest = {"files": files, "key": wanted.key, "digest": "d", "inputs": wanted.inputs, "packages": {}}
    files_there = {"packages.json": json.dumps(manifest), "requirements.txt": ""}
    return site.publish(f"packages/{wanted.key}", files_there), ensure_packages(options, request)


def image(site: Site) -> tuple[Path, Result]:
    options = site.options(IMAGE, reference="registry.example/image@sha256:" + "0" * 64)
    key = key_of(inputs(image_recipe(options, None, []), None))
    sidecar = json.dumps({"digest": "d", "bytes": 4})
    return site.publish(f"images/{key}", {"image.sqsh": "file", "image.json": sidecar}), ensure_image(options, {})


def dataset(site: Site) -> tuple[Path, Result]:
    site.data.mkdir()
    (site.data / "a.txt").write_text("text\n", encoding="utf-8")
    options = site.options(DATASET, name="texts", source="cluster", src=str(site.data))
    before = os.umask(0o022)
    try:
        made = ensure_dataset({**options, "store_root": str(site.platform), "stores": []}, {})
    finally:
        os.umask(before)
    assert made["changed"]
    return site.platform / "datasets" / "by-name" / "texts", ensure_dataset(options, {})


PRODUCERS = [code, environment, conda, packages, image, dataset]


@pytest.mark.parametrize("producer", PRODUCERS)
def test_what_a_trusted_store_has_is_not_made(site: Site, producer: Callable[[Site], tuple[Path, Result]]) -> None:
    path, result = producer(site)
    assert not result["changed"]
    assert result["ref"]["path"] == str(path)
    assert result["ref"]["present"]
    assert not site.own.exists()
    assert "warnings" not in result


def test_what_others_could_write_there_is_passed_over_with_a_warning(site: Site) -> None:
    path, _result = code(site)
    path.chmod(0o775)
    result = ensure_snapshot(site.options({}), path.name)
    assert result["changed"]
    assert "can be written by the group" in result["warnings"][0]
    assert result["ref"] == {**result["ref"], "path": f"{site.own}/code/{path.name}", "present": False}


def test_what_another_user_has_put_into_ones_own_store_is_an_error(site: Site) -> None:
    path, _result = code(site)
    (site.own / "code").mkdir(parents=True)
    (site.own / "code" / path.name).symlink_to(path)
    with pytest.raises(RankzeroError, match=r"is a link, to .* is not used"):
        ensure_snapshot({"store_root": str(site.own)}, path.name)


def test_a_group_that_shares_a_store_says_so(site: Site) -> None:
    before, _result = code(site)
    site.own.mkdir()
    site.own.chmod(0o2775)
    shared = {"store_root": str(site.own), "store_group_writable": True}
    ensure_snapshot(shared, before.name, check_mode=False)
    assert (site.own / "code").stat().st_mode & 0o7777 == 0o2775
    ensure_snapshot({**shared, "store_group_writable": False}, before.name)
    assert (site.own / "code").stat().st_mode & 0o7777 == 0o2755
