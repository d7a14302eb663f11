# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import environment_path, recipe

PYPROJECT = '[project]\nname = "a"\nversion = "1"\ndependencies = ["torch"]\n'


def test_golden_keys() -> None:
    # An upgrade of the collection must not rebuild environments: these change only together with FORMAT.
    assert recipe(PYPROJECT).key == "4b8a051185db81be0a796dce16a4cbc8"
    assert recipe(PYPROJECT, "version = 1\n", ["cpu"], "3.11", "cpu").key == "6a5c21ab38e97e9f498e8da502c3e02b"
    assert recipe(PYPROJECT, mode="sealed").key == "0fdb27de7f5f75fe97ac0682e7f43c0c"


def test_every_input_is_in_the_key() -> None:
    keys = {
        recipe(PYPROJECT).key,
        recipe(PYPROJECT + "# more\n").key,
        recipe(PYPROJECT, "").key,
        recipe(PYPROJECT, "version = 1\n").key,
        recipe(PYPROJECT, extras=["cpu"]).key,
        recipe(PYPROJECT, extras=["cpu", "dev"]).key,
        recipe(PYPROJECT, python="3.11").key,
        recipe(PYPROJECT, torch="cpu").key,
        recipe(PYPROJECT, mode="sealed").key,
        recipe(PYPROJECT, mode="sealed", settings={"compression": "lz4"}).key,
        recipe(PYPROJECT, mode="sealed", settings={"interpreter": "node"}).key,
    }
    assert len(keys) == 11


def test_what_does_not_matter_is_not_in_the_key() -> None:
    assert recipe(PYPROJECT).key == recipe("\ufeff" + PYPROJECT.replace("\n", "\r\n") + "\n\n").key
    assert recipe(PYPROJECT, extras=["b-c", "a"]).key == recipe(PYPROJECT, extras=["A", "B_c", "a"]).key


@pytest.mark.parametrize("python", ["2.7", "python3.11", "3", "3.11 ", ">=3.11", "/usr/bin/python3", ""])
def test_python_is_a_version(python: str) -> None:
    with pytest.raises(RankzeroError, match=r"environment\.python"):
        recipe(PYPROJECT, python=python)


@pytest.mark.parametrize("torch", ["", "CPU", "cuda", "cu1", "gpu", "rocm"])
def test_torch_is_a_known_build(torch: str) -> None:
    with pytest.raises(RankzeroError, match=r"environment\.torch.*cu128"):
        recipe(PYPROJECT, torch=torch)


@pytest.mark.parametrize("torch", ["auto", "cpu", "cu128", "rocm6.4", "rocm6.2.4", "xpu"])
def test_builds_that_uv_knows(torch: str) -> None:
    assert recipe(PYPROJECT, torch=torch).torch == torch


@pytest.mark.parametrize("extra", ["", "a b", "-x", "--index-url=x", "a;b"])
def test_extras_are_names(extra: str) -> None:
    with pytest.raises(RankzeroError, match=r"environment\.extras"):
        recipe(PYPROJECT, extras=[extra])


def test_path() -> None:
    assert environment_path("/shared/store/", "ab") == "/shared/store/environments/ab"


def test_a_mode_brings_its_settings_and_no_other() -> None:
    assert recipe(PYPROJECT, settings={"compression": "lz4"}).settings == {}
    defaults = {"compression": "zstd", "interpreter": "auto"}
    made = recipe(PYPROJECT, mode="sealed", settings={"torch": "cpu", **defaults})
    assert (made.settings, made.key) == (defaults, recipe(PYPROJECT, mode="sealed").key)


@pytest.mark.parametrize(
    ("mode", "settings", "said"),
    [
        ("shared", {}, r"environment\.mode: 'shared'.*venv, sealed"),
        ("sealed", {"compression": "gzip"}, r"environment\.compression: 'gzip' is not one of zstd, lz4"),
        ("sealed", {"interpreter": "pypy"}, r"environment\.interpreter: 'pypy'.*managed"),
    ],
)
def test_modes_and_settings_are_known(mode: str, settings: dict[str, str], said: str) -> None:
    with pytest.raises(RankzeroError, match=said):
        recipe(PYPROJECT, mode=mode, settings=settings)
