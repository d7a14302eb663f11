# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a finished venv into a sealed environment: one file that a node mounts, with the same bytes for any builder.

The installer's notes about itself and its paths are left out. Everything is byte-compiled for one fixed path (Python
inserts the real path on import).
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, content_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import interpreter
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import SealedRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import Python
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.verify import NOTES
from ansible_collections.rankzero.slurm.plugins.module_utils.store.squash import mksquashfs, normalise, squash
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import walk

FILE = "environment.sqsh"
# The fixed path. It appears in tracebacks of code that users compile themselves, and is never opened.
_PLACE = "/sealed"
# The number of files per compiler process. It is fixed because a process's earlier files influence its output.
_CHUNK = 512
# Files in a venv's bin that depend on its path or are for interactive use.
_OF_THE_VENV = re.compile(r"(python|pythonw|pypy)[0-9.]*|activate.*|deactivate.*|Activate\.ps1|pydoc\.bat")


def check_tools(python: Python | None) -> None:
    """Check what is known before a build, with this Python if it exists already. Raises RankzeroError."""
    mksquashfs()
    if python is not None and python.version < (3, 9):
        raise RankzeroError(
            f"environment.python: a sealed environment needs Python 3.9 or newer, and {python.path} is "
            f"{python.markers['python_full_version']}"
        )


def assemble(venv: str, tree: str, python: Python, recipe: Recipe) -> str:
    """Make the folder `tree` from a verified venv, which is consumed.

    Returns the origin of its Python: managed, copied or node. Raises OSError and RankzeroError.
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
    interpreter.straighten(tree)
    _compile(tree)
    normalise(tree)
    return origin


def write(tree: str, folder: str, compression: str) -> SealedRecord:
    """Write the file of the environment in `tree` into `folder`; returns its record for env.json. Raises OSError."""
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
    """Whether the path has the form of uv's own Pythons, below any folder."""
    return re.search(r"/cpython-3[^/]*/bin/python3[.0-9]*$", path) is not None


def _move(venv: str, tree: str, minor: str) -> None:
    """Move what was installed: packages, programs, and other files of wheels (share, include, etc)."""
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
    """Remove the installer's notes: the time, the installer, and the source path."""
    for name in os.listdir(site):
        folder = os.path.join(site, name)
        if name in ("_virtualenv.py", "_virtualenv.pth"):
            # uv's own files, for distutils in a venv in use.
            os.unlink(folder)
        record = os.path.join(folder, "RECORD")
        if not name.endswith(".dist-info") or not os.path.isfile(record):
            continue
        text = content_of(record, MOST_LIST_BYTES).decode("utf-8")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        for note in NOTES:
            if os.path.lexists(os.path.join(folder, note)):
                os.unlink(os.path.join(folder, note))
        kept = sorted(row for row in rows if os.path.dirname(row[0]) != name or os.path.basename(row[0]) not in NOTES)
        os.unlink(record)  # it may be a hard link into a cache, which must not change
        with open(record, "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(kept)


def _compile(tree: str) -> None:
    """Byte-compile everything. Files that do not compile (templates, tests for older Pythons) are no error."""
    files = sorted(path for path in walk(tree) if path.endswith(".py") and not os.path.islink(os.path.join(tree, path)))
    chunks = [files[start : start + _CHUNK] for start in range(0, len(files), _CHUNK)]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(pool.map(lambda chunk: _compile_some(tree, chunk), chunks))


def _compile_some(tree: str, files: Sequence[str]) -> None:
    children.run(
        [os.path.join(tree, "bin", "python"), "-B", "-S", "-s", "-m", "compileall", "-q", "-f", "-i", "-"]
        + ["--invalidation-mode", "unchecked-hash", "-s", tree, "-p", _PLACE],
        # Before Python 3.11, constant sets are written in the order of their hashes.
        {"LC_ALL": "C.UTF-8", "PATH": os.defpath, "PYTHONHASHSEED": "0"},
        stdin=b"".join(os.fsencode(os.path.join(tree, path)) + b"\n" for path in files),
        cwd="/",  # Python searches it first for imports; only root can write there
    )
