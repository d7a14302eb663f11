# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A finished venv -> the sealed environment: one file that a node mounts, the same bytes wherever it was built.

What an installer notes about itself and about the place where it worked is left out; everything is byte-compiled as if
it lay at one fixed place (Python puts the real one in when it imports), and the byte code is one file (bytecode.py).
"""

from __future__ import annotations

import contextlib
import csv
import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import bytecode, interpreter
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import SealedRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import Python
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.verify import NOTES
from ansible_collections.rankzero.slurm.plugins.module_utils.store.squash import mksquashfs, normalise, squash
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import file_sha256, walk

FILE = "environment.sqsh"
# In tracebacks of code that somebody compiled himself; never looked for.
_PLACE = "/sealed"
# How much one compiler process does. Fixed, because what a process has seen before shows in what it writes.
_CHUNK = 512
# Of a venv's bin, what belongs to its place or to a person at a prompt.
_OF_THE_VENV = re.compile(r"(python|pythonw|pypy)[0-9.]*|activate.*|deactivate.*|Activate\.ps1|pydoc\.bat")


def check_tools(python: Python | None) -> None:
    """What can be known before anything is built, on this Python if it is there yet. Raises RankzeroError."""
    mksquashfs()
    if python is not None and python.version < (3, 9):
        raise RankzeroError(
            f"environment.python: a sealed environment needs Python 3.9 or newer, and {python.path} is "
            f"{python.markers['python_full_version']}."
        )


def assemble(venv: str, tree: str, python: Python, recipe: Recipe) -> str:
    """Make the folder `tree` out of a verified venv, which is used up. Returns where its Python is from: managed,
    copied or node. Raises OSError and RankzeroError.
    """
    wanted = recipe.settings["interpreter"]
    origin = "managed" if _is_managed(python.path) else "copied"
    problem = None
    if wanted != "node":
        interpreter.copy(python, tree)
        problem = interpreter.trouble(tree)
        if problem and wanted != "auto":
            raise RankzeroError(
                f"environment.interpreter: a copy of {python.path} does not work on its own: {problem}. Set it to "
                "node, and have the same Python on every node, or to managed."
            )
    if wanted == "node" or problem:
        origin = "node"
        with contextlib.suppress(OSError):
            remove_tree(tree)
        os.mkdir(tree)
        for name in ("bin", "lib"):
            os.mkdir(os.path.join(tree, name))
        os.mkdir(os.path.join(tree, "lib", f"python{python.minor}"))
        os.symlink("lib", os.path.join(tree, "lib64"))
        for name in ("python", "python3", f"python{python.minor}"):
            os.symlink(python.path, os.path.join(tree, "bin", name))
        with open(os.path.join(tree, "pyvenv.cfg"), "w", encoding="utf-8") as stream:
            stream.write(f"home = {os.path.dirname(python.path)}\ninclude-system-site-packages = false\n")
    _move(venv, tree, python.minor)
    _forget_the_place(os.path.join(tree, "lib", f"python{python.minor}", "site-packages"))
    site = interpreter.straighten(tree)
    if site is not None:
        _add_reader(site)
    _compile(tree)
    if site is not None:
        _pack(tree, site)
    normalise(tree)
    return origin


def write(tree: str, folder: str, compression: str) -> SealedRecord:
    """Write the file of the environment in `tree` into `folder`; what env.json says about it."""
    target = os.path.join(folder, FILE)
    squash(tree, target, compression)
    sizes = [os.lstat(os.path.join(tree, path)).st_size for path in walk(tree)]
    return {
        "file": FILE,
        "sha256": file_sha256(target),
        "bytes": os.path.getsize(target),
        "unpacked": sum(sizes),
        "files": len(sizes),
        "compression": compression,
        "mksquashfs": mksquashfs()[1],
    }


def _is_managed(path: str) -> bool:
    """Pythons that uv brings lie in folders of this form, wherever those are."""
    return re.search(r"/cpython-3[^/]*/bin/python3[.0-9]*$", path) is not None


def _move(venv: str, tree: str, minor: str) -> None:
    """What was installed: packages, programs, and whatever else a wheel brings (share, include, etc)."""
    for name in sorted(os.listdir(venv)):
        source = os.path.join(venv, name)
        if name == "lib":
            packages = os.path.join("lib", f"python{minor}", "site-packages")
            os.rename(os.path.join(venv, packages), os.path.join(tree, packages))
        elif name == "bin":
            for program in os.listdir(source):
                if not _OF_THE_VENV.fullmatch(program):
                    os.rename(os.path.join(source, program), os.path.join(tree, "bin", program))
        elif name == "lib64":
            continue
        elif os.path.isdir(source) and not os.path.islink(source):
            shutil.copytree(source, os.path.join(tree, name), symlinks=True, dirs_exist_ok=True)


def _forget_the_place(site: str) -> None:
    """Take out the installer's notes: when, by what, and from which path it installed."""
    for name in os.listdir(site):
        folder = os.path.join(site, name)
        if name in ("_virtualenv.py", "_virtualenv.pth"):
            # uv's own, for distutils of a venv that is worked in.
            os.unlink(folder)
        record = os.path.join(folder, "RECORD")
        if not name.endswith(".dist-info") or not os.path.isfile(record):
            continue
        with open(record, encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
        for note in NOTES:
            if os.path.lexists(os.path.join(folder, note)):
                os.unlink(os.path.join(folder, note))
        kept = sorted(row for row in rows if os.path.dirname(row[0]) != name or os.path.basename(row[0]) not in NOTES)
        os.unlink(record)  # it may be a link to a cache, which keeps its own
        with open(record, "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(kept)


def _add_reader(site: str) -> None:
    """Put what reads the pack of byte code into the folder where Python looks for packages."""
    for name, text in ((f"{bytecode.NAME}.py", inspect.getsource(bytecode)), (f"{bytecode.NAME}.pth", bytecode.PTH)):
        with open(os.path.join(site, name), "w", encoding="utf-8") as stream:
            stream.write(text)


def _pack(tree: str, site: str) -> None:
    """Make the pack of all that is compiled in the library around `site`, and take away the .pyc files that only it is
    needed for then: those of packages. Python imports some of its own library before it reads any .pth file.
    """
    library, packages = os.path.split(site)
    magic, tag = interpreter.compiles(tree)
    compiled = []
    for path in walk(library):
        folder, name = os.path.split(path)
        pyc = os.path.join(folder, "__pycache__", f"{name[:-3]}.{tag}.pyc")
        if name.endswith(".py") and os.path.isfile(os.path.join(library, pyc)):
            compiled.append((path, pyc))
    bytecode.pack(library, compiled, magic, os.path.join(site, f"{bytecode.NAME}.pack"))
    for path, pyc in compiled:
        # A name that the pack does not hold keeps its own.
        if path.startswith(f"{packages}/") and path != f"{packages}/{bytecode.NAME}.py" and bytecode.holds(path):
            os.unlink(os.path.join(library, pyc))
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(os.path.join(library, pyc)))


def _compile(tree: str) -> None:
    """Byte-compile everything. Files that do not compile (templates, tests for older Pythons) are no error."""
    files = sorted(path for path in walk(tree) if path.endswith(".py") and not os.path.islink(os.path.join(tree, path)))
    chunks = [files[start : start + _CHUNK] for start in range(0, len(files), _CHUNK)]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(pool.map(lambda chunk: _compile_some(tree, chunk), chunks))


def _compile_some(tree: str, files: Sequence[str]) -> None:
    subprocess.run(
        [os.path.join(tree, "bin", "python"), "-B", "-S", "-s", "-m", "compileall", "-q", "-f", "-i", "-"]
        + ["--invalidation-mode", "unchecked-hash", "-s", tree, "-p", _PLACE],
        input="".join(f"{os.path.join(tree, path)}\n" for path in files),
        cwd=os.path.join(tree, "bin"),  # Python looks there first for what it imports; there are no modules
        # Before 3.11, constant sets are written in the order of their hashes.
        env={"LC_ALL": "C.UTF-8", "PATH": os.defpath, "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
