# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copy an interpreter and its standard library into a folder, so that they run at any path.

The copy finds itself by its own path (the landmark lib/pythonX.Y/os.py), because its pyvenv.cfg has no `home`. The file
only disables the user's own site-packages, as in a venv.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own_below
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import Python, choose, requires_python
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import uv

# Parts of the standard library that no job needs (its tests, the static library) or that belong to the host.
_LEFT_OUT = (
    "EXTERNALLY-MANAGED",
    "dist-packages",
    "idlelib",
    "site-packages",
    "sitecustomize.py",
    "test",
    "turtledemo",
)

_PLACES = """\
import json, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "stdlib": paths["stdlib"], "platstdlib": paths["platstdlib"], "include": paths["include"],
    "config": sysconfig.get_config_h_filename(),
}))
"""
# Prints the prefix and library of a copy, and the parts of Python that it has loaded.
_LOOK = """\
import json, os, sys
with open("/proc/self/maps") as stream:
    files = {line.split(None, 5)[5].strip() for line in stream if line.count("/")}
loaded = sorted(name for name in files if "libpython" in os.path.basename(name))
print(json.dumps({"prefix": sys.prefix, "library": os.path.dirname(os.__file__), "loaded": loaded}))
"""
# Prints the folder of packages below the prefix. .pth files of packages are not processed.
_SEARCH = """\
import json, os, site, sys
site.addpackage = lambda *words: None
site.main()
found = [name for name in sys.path if name.endswith("-packages") and name.startswith(sys.prefix + os.sep)]
print(json.dumps({"packages": os.path.relpath(found[0], sys.prefix) if found else ""}))
"""


def managed(store_root: str, environ: Mapping[str, str]) -> list[str]:
    """uv's own interpreters on this host: the user's, and those downloaded into the store."""
    home = environ.get("HOME") or os.path.expanduser("~")
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    own = environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(data, "uv", "python")
    paths = []
    for folder in dict.fromkeys((own, _fetched(store_root))):
        paths += glob.glob(os.path.join(glob.escape(folder), "cpython-3*", "bin", "python3"))
    # A store that others could once write may contain another user's program.
    return sorted((path for path in paths if is_own_below(store_root, path)), reverse=True)


def pick(recipe: Recipe, store_root: str, environ: Mapping[str, str]) -> Python | None:
    """The interpreter to seal in, or to build on; None if one must be downloaded first. Raises RankzeroError."""
    wanted = recipe.settings["interpreter"]
    if wanted in ("auto", "managed"):
        candidates = managed(store_root, environ)
        try:
            return choose(recipe.pyproject, recipe.python, candidates, anywhere=True)
        except RankzeroError:
            if wanted == "managed":
                return None
    return choose(recipe.pyproject, recipe.python, anywhere=wanted == "copied")


def fetch(recipe: Recipe, store_root: str, tool: uv.Uv) -> Python:
    """Let uv download a Python into the store. Raises UvError or RankzeroError."""
    folder = _fetched(store_root)
    os.makedirs(folder, exist_ok=True)
    asked = recipe.python or requires_python(recipe.pyproject) or "3"
    tool.run(
        ["python", "install", "--quiet", "--install-dir", folder, asked],
        folder,
        "fetching Python",
        UV_PYTHON_INSTALL_BIN="0",
    )
    return choose(
        recipe.pyproject, recipe.python, managed(store_root, {"UV_PYTHON_INSTALL_DIR": folder}), anywhere=True
    )


def copy(python: Python, tree: str) -> None:
    """Copy an interpreter, its standard library and headers into the folder `tree`. Raises OSError, RankzeroError."""
    places = _ask(python.path, _PLACES)
    library = os.path.join(tree, "lib", f"python{python.minor}")
    os.makedirs(os.path.join(tree, "bin"), exist_ok=True)
    binary = os.path.join(tree, "bin", f"python{python.minor}")
    shutil.copyfile(python.path, binary)
    os.chmod(binary, 0o755)
    for name in ("python", "python3"):
        os.symlink(os.path.basename(binary), os.path.join(tree, "bin", name))
    for name in dict.fromkeys((places["stdlib"], places["platstdlib"])):
        _copy_library(name, library)
    if os.path.isfile(os.path.join(places["include"], "Python.h")):
        headers = os.path.join(tree, "include", f"python{python.minor}")
        shutil.copytree(places["include"], headers, symlinks=False)
        # Debian's pyconfig.h includes a file from a folder of the architecture, which the copy does not have.
        shutil.copyfile(places["config"], os.path.join(headers, "pyconfig.h"))
    # Fedora and similar systems search lib64, Debian searches dist-packages.
    for link, target in (("lib64", "lib"), (f"lib/python{python.minor}/dist-packages", "site-packages")):
        os.symlink(target, os.path.join(tree, link))
    with open(os.path.join(tree, "pyvenv.cfg"), "w", encoding="ascii") as stream:
        stream.write("include-system-site-packages = false\n")


def trouble(tree: str) -> str | None:
    """Why the copy in `tree` depends on files outside it, or None."""
    try:
        answer = _ask(os.path.join(tree, "bin", "python"), _LOOK)
    except RankzeroError as error:
        return error.message
    real = os.path.realpath(tree)
    if os.path.realpath(answer["prefix"]) != real:
        return f"it takes {answer['prefix']} for its own place"
    outside = [
        path for path in (answer["library"], *answer["loaded"]) if not os.path.realpath(path).startswith(real + "/")
    ]
    return f"it loads {', '.join(outside)}" if outside else None


def straighten(tree: str) -> None:
    """Remove links from the path to the packages of the Python in `tree`, by swapping each link and its target.

    A node that mounts the tree with FUSE does not cache links, so every rank would request each of them again for every
    module and every look-up: 6,400 requests per rank for torch. Raises OSError, RankzeroError.
    """
    way = _ask(os.path.join(tree, "bin", "python"), _SEARCH)["packages"]
    place = tree
    for name in filter(None, way.split("/")):
        place = os.path.join(place, name)
        if os.path.islink(place) and os.path.basename(os.readlink(place)) == os.readlink(place):
            other = os.path.join(os.path.dirname(place), os.readlink(place))
            os.unlink(place)
            os.rename(other, place)
            os.symlink(name, other)


def _copy_library(source: str, target: str) -> None:
    def left_out(folder: str, names: list[str]) -> list[str]:
        top = os.path.samefile(folder, source)
        return [
            name
            for name in names
            if name == "__pycache__" or (top and (name in _LEFT_OUT or name.startswith("config-")))
        ]

    shutil.copytree(source, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
    for folder, folders, files in os.walk(target):
        for name in files + folders:
            path = os.path.join(folder, name)
            if os.path.islink(path) and not os.path.realpath(path).startswith(os.path.realpath(target) + "/"):
                origin = os.path.realpath(os.path.join(source, os.path.relpath(path, target)))
                os.unlink(path)
                if os.path.isfile(origin):
                    shutil.copyfile(origin, path)


def _ask(python: str, question: str) -> dict[str, str]:
    try:
        done = children.run(
            [python, "-I", "-S", "-B", "-c", question], {"LC_ALL": "C.UTF-8", "PATH": os.defpath}, cwd="/"
        )
    except OSError as error:
        raise RankzeroError(f"environment.interpreter: {python} does not run: {error.strerror}") from error
    if done.returncode != 0:
        message = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RankzeroError(f"environment.interpreter: {python} does not run: {message[0]}")
    return dict(json.loads(done.stdout))


def _fetched(store_root: str) -> str:
    return os.path.join(store_root, "tools", "python")
