# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A requirements.txt as the source of an environment: what it says, and where it is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import further
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import Roots
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import (
    Requirements,
    project_source,
    requirements,
)

WANTED = {"extras": (), "python": None, "torch": "auto", "mode": "venv", "requirements": "requirements.txt"}
DIGEST = "a" * 64


def read(folder: Path, text: str) -> Requirements:
    (folder / "requirements.txt").write_text(text, encoding="utf-8")
    return requirements(str(folder), "requirements.txt")


def refused(folder: Path, text: str) -> str:
    with pytest.raises(RankzeroError) as caught:
        read(folder, text)
    return caught.value.message


def test_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("-r ../last.txt\nnumpy>=1.26\n")
    (tmp_path / "last.txt").write_text("requests[socks]\n")
    (tmp_path / "bounds.txt").write_text("Urllib3 < 3\n")
    text = (
        "\ufeff# the training\ntorch == 2.7.*  # pinned\n\n--prefer-binary\n-rmore/base.txt\n--constraint=bounds.txt\n"
        f'tomli>=2 ; python_version < "3.11"\nPy.YAML==6.0 \\\n  --hash=sha256:{DIGEST} \\\n  --hash sha256:{DIGEST}\n'
        "tool @ https://example.org/tool-1-py3-none-any.whl#sha256=0\n"
    )
    made = read(tmp_path, text)
    assert made.packages == [
        "torch == 2.7.*", "requests[socks]", "numpy>=1.26", 'tomli>=2 ; python_version < "3.11"', "Py.YAML==6.0",
        "tool @ https://example.org/tool-1-py3-none-any.whl#sha256=0",
    ]  # fmt: skip
    assert further(made.pyproject()) == (["Urllib3 < 3"], [f"py-yaml sha256:{DIGEST}"] * 2, [])
    assert made.files == ["requirements.txt", "more/base.txt", "last.txt", "bounds.txt"]


def test_folders_start_beside_the_texts(tmp_path: Path) -> None:
    (tmp_path / "p" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    made = read(tmp_path / "p", "-e .\n./sub[x,y]  # why\n--editable=sub#egg=sub\n../other\n")
    assert (made.folders, made.packages) == (["..", "../sub[x,y]", "../sub", "../../other"], [])
    assert further(made.pyproject()) == ([], [], made.folders)
    with pytest.raises(RankzeroError, match="outside of the folders"):
        requirements(str(tmp_path / "p"), "requirements.txt", Roots.of([str(tmp_path / "p")], "/"))


def test_the_key_is_of_what_it_says(tmp_path: Path) -> None:
    def key(text: str) -> str:
        (tmp_path / "requirements.txt").write_text(text)
        return project_source(str(tmp_path), WANTED)[0].key

    assert key("numpy>=1\n") == key("# a comment\n\nnumpy>=1  # why\n") != key("numpy>=2\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert key("numpy>=1\n") == key("numpy>=1\n"), "a pyproject.toml beside it counts for nothing"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy\n\nnumpy=1.26\n", r"requirements\.txt:3: `numpy=1\.26` is not a requirement"),
        ("a \\\n  >> 1\n", r"requirements\.txt:1: `a  ?>> 1` is not a requirement"),
        ("-r none.txt\n", r"requirements\.txt:1: there is no none\.txt in "),
        ("-e /opt/x\n", r"requirements\.txt:1: `-e /opt/x` is not a folder by a path that starts at the project"),
        ("x\n./lib/own.whl\n", r"requirements\.txt:2: there is no \./lib/own\.whl in "),
        ("git+https://h/x.git@v1#egg=x\n", r":1: an address needs a name .*: x @ git\+https://h/x\.git@v1$"),
        ("--extra-index-url https://wheels.example.org/whl/cu128\n", r":1: .* set environment\.torch to cu128"),
        ("git+https://me:s3cret@h/x.git\n", r"(?!.*s3cret).*: NAME @ git\+https://\*\*\*@h/x\.git$"),
        ("-i https://e/simple\n", r":1: -i: a package source is a setting .*pip\.conf"),
        ("numpy --config-settings=a=b\n", r":1: --config-settings is not supported here"),
        ("--pre\nnumpy\n", r":1: --pre is not supported here"),
        (f"x==1 --hash=md5:{DIGEST}\n", r":1: md5:a+ is not a hash that can be checked"),
        ("x==${VERSION}\n", r":1: variables are not replaced"),
        ("# nothing\n", r"requirements\.txt names no package"),
        ("-r requirements.txt\n", r":1: more than 50 files include each other"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    message = refused(tmp_path, text)
    assert message.startswith("environment.requirements: ")
    assert re.search(said, message), message


def test_an_included_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("numpy\n!\n")
    assert "environment.requirements: base.txt:2: `!`" in refused(tmp_path, "-r base.txt\n")


def test_no_file_from_elsewhere(tmp_path: Path) -> None:
    """A job of another person's repository reads only files of the allowed folders."""
    (tmp_path / "secret").write_text("token\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "requirements.txt").write_text("-r ../secret\n")
    with pytest.raises(RankzeroError, match="outside of the folders"):
        requirements(str(tmp_path / "project"), "requirements.txt", Roots.of([str(tmp_path / "project")], "/"))


def test_extras_belong_to_a_pyproject(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\n")
    with pytest.raises(RankzeroError, match=r"environment\.extras: has no effect with environment\.requirements"):
        project_source(str(tmp_path), {**WANTED, "extras": ["cpu"]})
