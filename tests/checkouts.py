# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Projects of others, from their own checkouts: RANKZERO_TEST_CHECKOUTS names a folder with clones, each under the name
of its repository. Nothing of them is in this repository, and without them their tests are skipped.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

VARIABLE = "RANKZERO_TEST_CHECKOUTS"
KEMPNERFORGE = "KempnerForge"
BRIDGE = "Megatron-Bridge"
MEGATRON = "Megatron-LM"
CPU_LAB = "VT-Cluster--Parallel-and-Distributed-Programming-of-Machine-Learning-Models"
ENROOT_SITE = "hkust-hpc"
#: The releases of Megatron Bridge that examples/megatron_bridge fits, newest first.
BRIDGE_RELEASES = ("v0.6.0", "v0.5.1", "v0.4.2")


def checkout(name: str) -> Path:
    """The clone of a project; without one, the test is skipped."""
    place = os.environ.get(VARIABLE, "")
    folder = Path(place) / name
    if not place or not (folder / ".git").exists():
        pytest.skip(f"{VARIABLE} names no folder with a clone of {name}")
    return folder


def text(name: str, path: str, release: str = "HEAD") -> str:
    """A file of a project, as it is in a release."""
    return subprocess.run(
        ["git", "show", f"{release}:{path}"], cwd=checkout(name), capture_output=True, text=True, check=True
    ).stdout


def files(name: str, release: str = "HEAD", *below: str) -> list[str]:
    """The paths of a release."""
    listed = ["git", "ls-tree", "-r", "--name-only", "-z", release, "--", *below]
    done = subprocess.run(listed, cwd=checkout(name), capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split("\0") if path]


def submodule(name: str, path: str, release: str = "HEAD") -> str:
    """The commit of a submodule of a release, which is in the clone of its own project."""
    listed = ["git", "ls-tree", "--format=%(objectname)", release, "--", path]
    return subprocess.run(listed, cwd=checkout(name), capture_output=True, text=True, check=True).stdout.strip()


def unpacked(name: str, folder: Path, release: str = "HEAD", *below: str) -> Path:
    """The files of a release in a folder, which is made."""
    archive = ["git", "archive", "--format=tar", release, "--", *below]
    done = subprocess.run(archive, cwd=checkout(name), capture_output=True, check=True)
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        # Links may lead anywhere in a repository of others, and no script needs one.
        for member in tar:
            if member.isreg() or member.isdir():
                tar.extract(member, folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extract(
                    member, folder
                )
    return folder
