# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The library's unit tests under other Pythons >= 3.9 of this machine: clusters have what they have.

Under the Python of this session they run in this session; here, under the oldest. `make test-all` takes the newer ones,
too, and so does the workflow of the repository.
"""

from __future__ import annotations

import ast
import functools
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.repository import CACHE, ROOT, files, imported_modules, in_collection, run, syntax_tree

#: Enough for tests of a library that is the standard library and nothing else.
REQUIREMENTS = ("pytest>=8.2", "hypothesis>=6.100")
OLDEST = "3.9"
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


def version_tuple(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@functools.cache
def interpreters() -> dict[str, Path]:
    """Every minor version of Python on this machine, each once: the system's, then pyenv's and uv's."""
    home = Path.home()
    places = [
        (Path("/usr/bin"), "python3.*"),
        (Path("/usr/local/bin"), "python3.*"),
        (Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions", "3.*/bin/python3"),
        (home / ".local/share/uv/python", "cpython-3.*/bin/python3"),
    ]
    found: dict[str, Path] = {}
    for folder, pattern in places:
        for candidate in sorted(folder.glob(pattern)):
            ask = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
            try:
                said = subprocess.run([candidate, "-c", ask], capture_output=True, text=True, timeout=60, check=False)
            except OSError:
                continue
            version = said.stdout.strip()
            if said.returncode == 0 and version_tuple(version) >= version_tuple(OLDEST):
                found.setdefault(version, candidate)
    return found


def library_tests() -> list[str]:
    """Unit tests that import nothing of ours but module_utils and the runtime, and nothing from outside but pytest."""
    outside = ("ansible", "yaml", "jinja2", "tests")
    chosen = []
    for path in files("tests/unit/", ".py"):
        names = [name for _line, name in imported_modules(path)]
        ours = [part for name in names if (part := in_collection(name))]
        pure = all(
            part.startswith("plugins.module_utils") and part != "plugins.module_utils.core.ansible" for part in ours
        )
        if ours and pure and not any(name.split(".")[0] in outside for name in names):
            chosen.append(path)
    return chosen


def functions(path: str) -> dict[str, set[str]]:
    """The functions of a file, each with the names of its arguments: for tests and fixtures, the fixtures it uses."""
    return {
        node.name: {argument.arg for argument in node.args.args}
        for node in syntax_tree(path).body
        if isinstance(node, ast.FunctionDef)
    }


def needing_a_conftest(path: str) -> list[str]:
    """The tests of a file that use a fixture of a conftest, directly or through a fixture of their own file.

    Such fixtures bring tools (uv, a lab) that are not the library's, so these tests run in the main session only.
    """
    conftests = [
        found for found in files("tests/", "/conftest.py") if path.startswith(found.removesuffix("conftest.py"))
    ]
    tainted = {name for found in conftests for name in functions(found)}
    own = functions(path)
    grown = True
    while grown:
        reached = {name for name, used in own.items() if used & tainted} - tainted
        tainted |= reached
        grown = bool(reached)
    return sorted(f"{path}::{name}" for name in tainted & own.keys() if name.startswith("test_"))


def environment(interpreter: Path) -> Path:
    """The Python of an environment with REQUIREMENTS, kept between runs and complete whenever it exists."""
    recipe = sha256("\n".join([str(interpreter.resolve()), *REQUIREMENTS]).encode()).hexdigest()[:12]
    kept = CACHE / "pythons" / recipe
    if not kept.exists():
        unfinished = kept.with_name(f"{recipe}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        run(interpreter, "-m", "venv", unfinished)
        run(unfinished / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS)
        # What is called here is bin/python, which finds its environment from where it lies: it may be moved.
        unfinished.rename(kept)
    return kept / "bin/python"


def test_there_are_library_tests() -> None:
    assert library_tests()


def versions() -> list[Any]:
    """The oldest that is promised, and those of this machine, which are left to `make test-all`."""
    there = sorted(interpreters().keys() - {OURS, OLDEST}, key=version_tuple)
    return [OLDEST, *(pytest.param(version, marks=pytest.mark.more) for version in there)]


@pytest.mark.parametrize("version", versions())
def test_library_under_another_python(version: str) -> None:
    if version not in interpreters():
        pytest.skip(f"this machine has no Python {version} that can make an environment; test_imports read it as 3.9")
    python = environment(interpreters()[version])
    places = (CACHE / "collections", ROOT / "tests" / "quality")
    # What is compiled, of the library and of the tests, is kept for the next run.
    compiled = {"PYTHONPYCACHEPREFIX": str(CACHE / "compiled" / version)}
    plugins = CACHE / "collections" / "ansible_collections" / "rankzero" / "slurm" / "plugins"
    shipped = [plugins / folder for folder in ("module_utils", "modules", "runtime")]
    run(python, "-m", "compileall", "-q", *shipped, env=compiled)
    paths = {"PYTHONPATH": os.pathsep.join(map(str, places)), **compiled}
    chosen = library_tests()
    deselected = [f"--deselect={test}" for path in chosen for test in needing_a_conftest(path)]
    run(
        *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", os.devnull),
        *("--rootdir", str(ROOT), "--noconftest", "-p", "library_profile", *deselected, *chosen),
        env=paths,
    )
