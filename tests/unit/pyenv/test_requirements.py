# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment from a requirements.txt, built with a real uv."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import requirements
from tests.unit.pyenv import building, supplies
from tests.unit.pyenv.conftest import Index, make_wheel


def text(folder: Path, **files: str) -> str:
    """The pyproject.toml that the files stand for; `requirements` is the one that includes the others."""
    for name, content in files.items():
        (folder / f"{name}.txt").write_text(content)
    return requirements(str(folder), "requirements.txt").pyproject()


def built(store: str, pyproject: str) -> dict[str, Any]:
    return building.built(store, pyproject=pyproject)


def sha(index: Index, name: str, version: str) -> str:
    (wheel,) = (index.folder / name).glob(f"{name}-{version}-*.whl")
    return f"--hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def test_packages_and_their_constraints(store: str, wheelhouse: str, tmp_path: Path) -> None:
    make_wheel(Path(wheelhouse), "beta", "3.0", {"beta.py": "VALUE = 2\n"})
    assert built(store, text(tmp_path, requirements="alpha\n"))["packages"] == {"alpha": "1.0", "beta": "3.0"}
    bound = text(tmp_path, requirements="alpha\n-c bounds.txt\n", bounds="beta<3\n")
    assert built(store, bound)["packages"] == {"alpha": "1.0", "beta": "2.0"}


@pytest.mark.parametrize("kind", ["wheelhouse", "cache"])
def test_the_nodes_packages(kind: str, supplied: str, index: Index, wheelhouse: str, tmp_path: Path) -> None:
    index.add(make_wheel(Path(wheelhouse), "beta", "3.0", {"beta.py": "VALUE = 2\n"}))
    bound = text(tmp_path, requirements="alpha\n-c bounds.txt\n", bounds="beta<3\n")
    result = supplies.ensure(supplied, mode=kind, text=bound)
    assert result["packages"]["packages"] == {"alpha": "1.0", "beta": "2.0"}


def test_hashes_choose_the_files(supplied: str, index: Index, tmp_path: Path) -> None:
    hashed = f"alpha==1.0 {sha(index, 'alpha', '1.0')}\nbeta==2.0 {sha(index, 'beta', '2.0')}\n"
    assert built(supplied, text(tmp_path, requirements=hashed))["packages"] == {"alpha": "1.0", "beta": "2.0"}


@pytest.mark.parametrize("second", ["", f"beta==2.0 --hash=sha256:{'0' * 64}\n"])
def test_a_file_without_a_named_hash_is_not_installed(second: str, supplied: str, index: Index, tmp_path: Path) -> None:
    hashed = f"alpha==1.0 {sha(index, 'alpha', '1.0')}\n{second}"
    with pytest.raises(RankzeroError, match=r"environment\.requirements: no file of beta 2\.0 has a hash"):
        built(supplied, text(tmp_path, requirements=hashed))
    assert not building.leftovers(supplied)
