# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small images for real container runtimes, made of this machine's own programs: nothing is fetched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.image.ensure import ensure_image

#: What the ranks' wrapper needs, what the tests look with, and a Python.
PROGRAMS = ("bash", "sh", "base64", "cat", "env", "id", "ls", "sleep", "stat", "touch", "uname")
#: Of the Python's library; tests import nothing of the rest.
LEFT_OUT = (
    "__pycache__",
    "test",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
    "config-*",
    "dist-packages",
    "pydoc_data",
)


def _copy(source: str, root: Path) -> None:
    target = root / source.lstrip("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(source), target)


def _libraries(files: Iterable[str]) -> list[str]:
    output = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    return sorted(set(re.findall(r"(?:=> |^\s)(/\S+) \(0x", output, re.MULTILINE)))


def add_libraries(root: Path, files: Iterable[str]) -> None:
    """Copy the system's libraries that these files load into a root."""
    for path in _libraries(files):
        if path.startswith(("/lib", "/usr/lib")):
            _copy(path, root)


def root_folder(root: Path, python: str = "/usr/bin/python3", programs: Sequence[str] = ()) -> Path:
    """A root file system with PROGRAMS, the system's Python, and what other `programs` load."""
    for name in ("proc", "sys", "dev", "tmp", "run", "root", "home", "etc", "usr/bin", "var"):
        (root / name).mkdir(parents=True)
    # As every distribution has it now, and a link that mounts have to follow.
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    (root / "var" / "run").symlink_to("/run")
    own = [program for name in PROGRAMS if (program := shutil.which(name, path="/usr/bin:/bin"))]
    library = subprocess.run(
        [python, "-I", "-c", "import os; print(os.path.dirname(os.__file__))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    shutil.copytree(library, root / library.lstrip("/"), ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=False)
    extensions = [str(path) for path in Path(library, "lib-dynload").glob("*.so")]
    for path in [*own, python, *_libraries([*own, *programs, python, *extensions])]:
        # Through the links above: what lies in /lib lies in /usr/lib.
        _copy(path, root)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (root / "in-the-image").write_text("yes\n")
    return root


def built(folder: Path, environment: Mapping[str, str], *kinds: str) -> dict[str, str]:
    """An image of such a root as the module `image` makes it, below `folder`: its path by format.

    Skips where this machine has nothing that writes squashfs files.
    """
    if not shutil.which("tar2sqfs") and not shutil.which("mksquashfs"):
        pytest.skip("nothing here writes squashfs files (package squashfs-tools-ng or squashfs-tools)")
    root = folder / "root"
    if not root.exists():
        root_folder(root)
    options = {"store_root": str(folder / "store"), "rootfs": str(root), "env": environment, "formats": list(kinds)}
    made = ensure_image({**options, "state": "present", "work_dir": str(folder)}, {})
    return dict(made["files"])
