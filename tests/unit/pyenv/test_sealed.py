# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sealed environments: the same bytes wherever they are built, nothing of the place in them, and what stops a build.

Real uv and mksquashfs, two small wheels in a directory; nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import interpreter
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import inspect_python
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import Uv
from ansible_collections.rankzero.slurm.plugins.module_utils.store import squash
from tests.unit.pyenv.building import no_process
from tests.unit.pyenv.conftest import clean_settings, find_uv, make_wheel, only, two_wheels

PYPROJECT = '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["alpha", "tool"]\n'
#: Modules in a folder of their own.
PARTS = {
    "parts/__init__.py": "",
    "parts/deep.py": "def fails():\n    1 / 0\n",
}
#: What a program of the environment sees of itself, from wherever it is.
LOOK = (
    "import alpha, os, site, sys; print(alpha.VALUE, sys.prefix, site.ENABLE_USER_SITE, os.path.dirname(os.__file__))"
)


def settings(folder: Path, uv: str) -> dict[str, str]:
    """The environment of a host whose pip settings name a directory of wheels and no index; the wheels are made."""
    if shutil.which("mksquashfs") is None:
        pytest.skip("mksquashfs is not on this machine (package squashfs-tools)")
    entry = "[console_scripts]\nsay = tool:say\n"
    module = "import alpha\ndef say():\n    print('said', alpha.VALUE)\nNAMES = {'b', 'a', 'c'}\n"
    content = {"tool.py": module, "tool-1.0.dist-info/entry_points.txt": entry, **PARTS}
    wheels = two_wheels(folder / "wheels")
    make_wheel(wheels, "tool", "1.0", content)
    more = {"PIP_CONFIG_FILE": os.devnull, "UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1"}
    return {**clean_settings(uv, folder), **more}


@pytest.fixture
def host(tmp_path: Path, uv: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Such a host. Returns a folder for stores."""
    only(monkeypatch, settings(tmp_path, uv))
    return tmp_path


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """One environment with a copy of the host's Python, which takes seconds to compile: for tests that only read it."""
    folder = tmp_path_factory.mktemp("sealed")
    with pytest.MonkeyPatch.context() as patch:
        only(patch, settings(folder, find_uv()))
        made = ensure(folder / "store", interpreter="copied")
        with no_process(patch):
            again = ensure(folder / "store", interpreter="copied")
    return Built(made, again)


@dataclass(frozen=True)
class Built:
    """What was answered when an environment was made, and when it was there."""

    made: dict[str, Any]
    again: dict[str, Any]


def ensure(store: Path, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
    options = {
        "store_root": str(store), "extras": [], "python": None, "torch": "auto", "download": "auto", "uv": None,
        "state": "present", "mode": "sealed", **changes,
    }  # fmt: skip
    return ensure_environment(options, {"pyproject": PYPROJECT}, check_mode=check_mode)


def unsealed(result: dict[str, Any], target: Path) -> Path:
    """What a node would see of the file."""
    subprocess.run(
        ["unsquashfs", "-q", "-n", "-d", str(target), f"{result['ref']['path']}/environment.sqsh"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return target


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the Python of an environment."""
    command = [str(tree / "bin" / "python"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={})


def packages_of(tree: Path) -> Path:
    """Where Python looks for packages: the folder, not the link of the other name."""
    (site,) = [path for path in tree.glob("lib/python3.*/*-packages") if not path.is_symlink()]
    return site


def test_two_builds_on_two_paths_are_one_file_that_runs_anywhere(host: Path) -> None:
    first = ensure(host / "one")
    os.environ["SOURCE_DATE_EPOCH"] = "12345"
    before = os.umask(0o077)
    try:
        second = ensure(host / "another" / "deep" / "place", python=None)
    finally:
        os.umask(before)
    one, other = (Path(made["ref"]["path"]) for made in (first, second))
    assert sorted(os.listdir(one)) == ["env.json", "environment.sqsh"]
    assert (one / "environment.sqsh").read_bytes() == (other / "environment.sqsh").read_bytes()
    assert first["ref"]["digest"] == second["ref"]["digest"] == first["environment"]["sealed"]["sha256"]
    said = first["environment"]
    assert said["packages"] == {"alpha": "1.0", "beta": "2.0", "tool": "1.0"}
    assert said["sealed"]["bytes"] == (one / "environment.sqsh").stat().st_size
    assert said["sealed"]["interpreter"] in ("copied", "managed")
    assert len(said["inputs"]["pyproject"]) == 64

    tree = unsealed(first, host / "node")
    shutil.rmtree(host / "one")
    done = subprocess.run([tree / "bin/python", "-c", LOOK], capture_output=True, text=True, check=True, env={})
    library = str(next((tree / "lib").glob("python3.*")))
    assert done.stdout.split() == ["2", str(tree), "False", library]
    assert subprocess.run([tree / "bin/say"], capture_output=True, text=True, check=True).stdout == "said 2\n"
    # Compiled by content, so that nobody compiles it again; and nothing says where or by what it was installed.
    compiled = [*packages_of(tree).glob("alpha/__pycache__/*.pyc"), *Path(library).glob("__pycache__/os.*.pyc")]
    assert len(compiled) >= 2
    for file in compiled:
        assert file.read_bytes()[4:8] == b"\x01\0\0\0", file
    here = [path for path in tree.rglob("*") if path.is_file() and str(host).encode() in path.read_bytes()]
    assert here == []
    assert not list(tree.rglob("INSTALLER")) and not list(tree.rglob("uv_cache.json"))
    assert "alpha/__init__.py,sha256=" in next(tree.rglob("alpha-1.0.dist-info/RECORD")).read_text()


def test_a_traceback_names_the_file_where_the_environment_is(copied: Built, tmp_path: Path) -> None:
    """Whatever the place of the build."""
    tree = unsealed(copied.made, tmp_path / "node")
    done = python(tree, "-c", "import parts.deep; parts.deep.fails()")
    place = packages_of(tree) / "parts" / "deep.py"
    assert f'File "{place}", line ' in done.stderr and "ZeroDivisionError" in done.stderr, done.stderr


#: Links on the way to a module as this Python looks for it.
LINKS = """
import alpha, os, pathlib, sys
way = pathlib.Path(alpha.__file__)
print([str(path) for path in (way, *way.parents) if path.is_symlink()], way.relative_to(sys.prefix))
"""


def no_link_on_the_way(tree: Path, *names: str) -> None:
    done = subprocess.run([tree / "bin/python", "-c", LINKS], capture_output=True, text=True, check=True, env={})
    assert done.stdout.split()[0] == "[]"
    for name in names:
        (packages,) = tree.glob(f"lib/python3.*/{name}")
        assert (packages / "alpha" / "__init__.py").is_file()


def test_no_link_lies_on_the_way_to_a_package(copied: Built, tmp_path: Path) -> None:
    """FUSE keeps no links: every rank would ask for each again, at every module."""
    # Whichever of both names is the folder, the other one leads there.
    no_link_on_the_way(unsealed(copied.made, tmp_path / "node"), "site-packages", "dist-packages")


@pytest.mark.parametrize(
    ("way", "links"),
    [
        ("lib/python3.11/dist-packages", {"lib64": "lib", "lib/python3.11/site-packages": "dist-packages"}),
        ("lib64/python3.11/site-packages", {"lib": "lib64", "lib64/python3.11/dist-packages": "site-packages"}),
        ("", {"lib64": "lib", "lib/python3.11/dist-packages": "site-packages"}),
    ],
    ids=["debian", "fedora", "nowhere"],
)
def test_the_name_that_python_uses_is_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, links: dict[str, str]
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "alpha.py").touch()
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "lib/python3.11/dist-packages").symlink_to("site-packages")
    monkeypatch.setattr(interpreter, "_ask", lambda python, question: {"packages": way})
    for _time in (1, 2):
        interpreter.straighten(str(tmp_path))
        found = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if path.is_symlink()}
        assert {name: os.readlink(found[name]) for name in links} == links and len(found) == 2
    for name in ("lib", "lib64"):
        assert (tmp_path / name / "python3.11/dist-packages/alpha.py").is_file()
        assert (tmp_path / name / "python3.11/site-packages/alpha.py").is_file()


def test_what_is_there_needs_no_process(copied: Built) -> None:
    assert copied.made["changed"] and not copied.again["changed"]
    assert copied.again["ref"] == copied.made["ref"]


def test_what_is_not_whole_is_built_anew(host: Path) -> None:
    """Whatever its Python: with the node's own one there is hardly anything to build."""
    store = host / "store"
    planned = ensure(store, check_mode=True, interpreter="node")
    assert (planned["changed"], store.exists()) == (True, False)
    first = ensure(store, interpreter="node")
    assert {**first["ref"], "present": False, "digest": None} == planned["ref"]
    file = Path(first["ref"]["path"]) / "environment.sqsh"
    file.chmod(0o600)
    with file.open("ab") as stream:
        stream.truncate(1000)
    assert ensure(store, check_mode=True, interpreter="node")["ref"]["present"] is False
    mended = ensure(store, interpreter="node")
    assert mended["changed"] and mended["ref"] == first["ref"]
    assert file.stat().st_size == first["environment"]["sealed"]["bytes"]
    assert ensure(store, state="absent", interpreter="node")["changed"]
    assert os.listdir(store / "environments") == []


def test_the_nodes_own_python_and_lz4(host: Path) -> None:
    made = ensure(host / "store", interpreter="node", compression="lz4")
    assert made["environment"]["sealed"]["interpreter"] == "node"
    assert made["environment"]["sealed"]["compression"] == "lz4"
    tree = unsealed(made, host / "node")
    assert os.readlink(tree / "bin/python") == made["environment"]["python"]["path"]
    done = subprocess.run([tree / "bin/python", "-c", LOOK], capture_output=True, text=True, check=True, env={})
    assert done.stdout.split()[:3] == ["2", str(tree), "False"]
    no_link_on_the_way(tree, "site-packages")


def test_a_managed_python_is_fetched_once(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = recipe(PYPROJECT, python="3.11", mode="sealed", settings={"interpreter": "managed"})
    store = str(host / "store")
    assert interpreter.pick(wanted, store, {"HOME": str(host)}) is None
    calls = []
    python = inspect_python("/usr/bin/python3")
    assert python is not None
    monkeypatch.setattr(interpreter, "choose", lambda *given, **_more: calls.append(given[2]) or python)

    class Fetches(Uv):
        def run(self, arguments: Any, cwd: str, doing: str, **environment: str) -> str:
            assert list(arguments[:3]) == ["python", "install", "--quiet"] and arguments[-1] == "3.11"
            folder = Path(arguments[arguments.index("--install-dir") + 1], "cpython-3.11.9-linux", "bin")
            folder.mkdir(parents=True)
            (folder / "python3").touch()
            return ""

    assert interpreter.fetch(wanted, store, Fetches("uv", "9.0.0", {})) is python
    assert calls == [[f"{store}/tools/python/cpython-3.11.9-linux/bin/python3"]]


def stand_in(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "mksquashfs").write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / "mksquashfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_without_squashfs_tools_nothing_is_promised(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_arguments, **_options: None)
    with pytest.raises(RankzeroError, match=r"mksquashfs, .* Install the package squashfs-tools"):
        ensure(host / "store", check_mode=True)


@pytest.mark.parametrize(
    ("version", "output", "said"),
    [
        ("4.3", "", "at least version 4.4"),
        ("4.5.1", "Write failed because No space left on device", "store_root: no space left below"),
        ("4.5.1", "Compressor zstd is not supported!", "environment.compression: this host"),
        ("4.5.1", "what else", "mksquashfs failed:\n  what else"),
    ],
)
def test_what_mksquashfs_cannot_do_is_said(
    host: Path, monkeypatch: pytest.MonkeyPatch, version: str, output: str, said: str
) -> None:
    program = (
        f'[ "$1" != -version ] || {{ echo "mksquashfs version {version} (2022)"; exit 1; }}\necho "{output}"; exit 1'
    )
    stand_in(host / "bin", program, monkeypatch)
    tree = host / "tree"
    tree.mkdir()
    with pytest.raises(RankzeroError, match=said):
        squash.squash(str(tree), str(host / "file"), "zstd")


def test_a_failed_build_leaves_nothing(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = '[ "$1" != -version ] || { echo "mksquashfs version 4.6"; exit 0; }\necho half > "$2"; exit 3'
    stand_in(host / "bin", program, monkeypatch)
    with pytest.raises(RankzeroError, match="mksquashfs failed"):
        ensure(host / "store", interpreter="node")
    assert os.listdir(host / "store" / "environments") == []
    assert [name for name in os.listdir(host / "store" / "locks") if "lock" in name.split(".")] == []


def test_a_copy_that_does_not_stand_on_its_own_is_seen(tmp_path: Path) -> None:
    assert "does not run" in str(interpreter.trouble(str(tmp_path)))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/usr/bin/python3")
    assert interpreter.trouble(str(tmp_path)) == "it takes /usr for its own place"
