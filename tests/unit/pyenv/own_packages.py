# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Projects with packages of their own, for tests: each package has its own build backend, which needs no network and
leaves a mark where it has run.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import project_recipe

#: A build backend in the folder of the package itself: it packs `src`, and leaves a mark where it has run.
BACKEND = """
import base64, hashlib, os, sys, zipfile
NAME, VERSION, MARK = {name!r}, "1.0", {mark!r}

def get_requires_for_build_wheel(settings=None):
    return []

def build_wheel(folder, settings=None, metadata=None):
    open(MARK, "a").write(NAME + " " + ("as " + os.environ["CANARY"] if "CANARY" in os.environ else "alone") + "\\n")
    info = NAME + "-1.0.dist-info"
    files = {{name: open("src/" + name, "rb").read() for name in sorted(os.listdir("src")) if name.endswith(".py")}}
    files[info + "/METADATA"] = ("Metadata-Version: 2.1\\nName: " + NAME + "\\nVersion: 1.0\\n").encode()
    files[info + "/WHEEL"] = b"Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    def row(n, c):
        digest = base64.urlsafe_b64encode(hashlib.sha256(c).digest()).rstrip(b"=").decode()
        return n + ",sha256=" + digest + "," + str(len(c))
    rows = [row(n, c) for n, c in files.items()]
    files[info + "/RECORD"] = ("\\n".join([*rows, info + "/RECORD,,"]) + "\\n").encode()
    name = NAME + "-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as out:
        for inside, content in files.items():
            out.writestr(zipfile.ZipInfo(inside, (2020, 1, 1, 0, 0, 0)), content)
    return name
"""
PACKAGE = """[project]
name = "{name}"
version = "1.0"
requires-python = ">=3.9"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
WANTED = {"extras": [], "python": None, "torch": "auto", "mode": "venv"}


def package(folder: Path, name: str, mark: Path, value: int = 1) -> Path:
    """The sources of a package whose module of the same name has a VALUE."""
    (folder / "src").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PACKAGE.format(name=name), encoding="utf-8")
    (folder / "backend.py").write_text(BACKEND.format(name=name, mark=str(mark)), encoding="utf-8")
    (folder / "src" / f"{name}.py").write_text(f"VALUE = {value}\n", encoding="utf-8")
    return folder


def run(*words: object, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, check=True, capture_output=True, text=True
    ).stdout


def project(folder: Path, sources: str, *dependencies: str, lock: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = f'[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = {list(dependencies)}\n'
    (folder / "pyproject.toml").write_text(text + sources, encoding="utf-8")
    if lock:
        run("uv", "lock", "-q", "--python", "/usr/bin/python3", cwd=folder)
    return folder


def beside(folder: Path, mark: Path) -> Path:
    """A project with an editable folder beside it, and one in it."""
    package(folder / "lib", "delta", mark, 4)
    package(folder / "p" / "vendor" / "epsilon", "epsilon", mark, 5)
    sources = '[tool.uv.sources]\ndelta = {path = "../lib", editable = true}\nepsilon = {path = "vendor/epsilon"}\n'
    return project(folder / "p", sources, "delta", "epsilon")


def workspace(folder: Path, mark: Path) -> Path:
    package(folder / "p" / "packages" / "delta", "delta", mark, 4)
    package(folder / "p" / "packages" / "epsilon", "epsilon", mark, 5)
    sources = '[tool.uv.workspace]\nmembers = ["packages/*"]\n'
    sources += "[tool.uv.sources]\ndelta = {workspace = true}\nepsilon = {workspace = true}\n"
    return project(folder / "p", sources, "delta", "epsilon")


def by_requirements(folder: Path, mark: Path) -> Path:
    package(folder / "p", "delta", mark, 4)
    package(folder / "other", "epsilon", mark, 5)
    (folder / "p" / "requirements.txt").write_text("-e .  # the project itself\n../other\n", encoding="utf-8")
    return folder / "p"


SHAPES = {"beside": beside, "workspace": workspace, "requirements": by_requirements}


def recipe_of(folder: Path, **changes: Any) -> Recipe:
    file = "requirements.txt" if (folder / "requirements.txt").exists() else None
    return project_recipe(str(folder), {**WANTED, "requirements": file, **changes})


def told(environment: str, *names: str) -> list[int]:
    """What the modules say in an environment, once nothing is left of their sources."""
    program = "".join(f"import {name}; print({name}.VALUE)\n" for name in names)
    return [int(word) for word in run(f"{environment}/bin/python", "-c", program, cwd=Path("/")).split()]


def archive(folder: Path, source: Path, name: str) -> Path:
    """The sources of a package as an index serves them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as out:
        out.add(source, f"{name}-1.0")
        said = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
        entry = tarfile.TarInfo(f"{name}-1.0/PKG-INFO")
        entry.size = len(said)
        out.addfile(entry, io.BytesIO(said))
    return folder / f"{name}-1.0.tar.gz"


def repository(folder: Path, name: str, mark: Path) -> Path:
    """A git repository of a package."""
    package(folder, name, mark, 7)
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    run(*git, "init", "-q", cwd=folder)
    run(*git, "add", ".", cwd=folder)
    run(*git, "commit", "-q", "-m", "x", cwd=folder)
    return folder
