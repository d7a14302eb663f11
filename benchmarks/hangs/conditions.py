# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the ranks' torch lies: what a job says for it. Paths of the frames of a hang differ between these."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import images
from tests.cluster.conftest import LabCluster

PROJECT = """\
[project]
name = "hangs"
version = "1"
requires-python = ">=3.10"
dependencies = ["numpy", "torch=={version}"]
"""
#: Debian's Python looks for packages in dist-packages below its prefix; one of conda has site-packages.
PACKAGES, LINK = "lib/python{version}/site-packages", "lib/python{version}/dist-packages/packages.pth"
UNPACK = "#!/usr/bin/env python3\n"


@dataclass(frozen=True)
class Place:
    """What the conditions are made of: a lab, an environment with torch for CPUs, and a folder for what is made."""

    lab: LabCluster
    environment: Path
    folder: Path

    @property
    def packages(self) -> Path:
        """The folder of torch."""
        (found,) = self.environment.glob("lib/python3.*/site-packages")
        return found

    @property
    def version(self) -> str:
        """The version of torch."""
        (found,) = self.packages.glob("torch-*.dist-info")
        return found.name.removesuffix(".dist-info").partition("-")[2]

    @property
    def python(self) -> str:
        """The version of Python, such as 3.11."""
        return self.packages.parent.name.removeprefix("python")


def _path(place: Place) -> dict[str, Any]:
    return {"environment": {"mode": "path", "path": str(place.environment)}}


def _of_project(mode: str) -> Callable[[Place], dict[str, Any]]:
    def parts(place: Place) -> dict[str, Any]:
        project = place.folder / "project"
        project.mkdir(exist_ok=True)
        (project / "pyproject.toml").write_text(PROJECT.format(version=place.version), encoding="utf-8")
        return {"environment": {"project": str(project), "mode": mode, "torch": "cpu"}}

    return parts


def _conda(place: Place) -> dict[str, Any]:
    """An archive in the form of conda-pack, of the system's Python: no channel can be had here."""
    archive, prefix = place.folder / "conda.tar", place.folder / "conda"
    if not archive.exists():
        library = prefix / "lib" / f"python{place.python}"
        names = ("site-packages", "dist-packages", "test", "__pycache__", "config-*")
        shutil.copytree(f"/usr/lib/python{place.python}", library, ignore=shutil.ignore_patterns(*names))
        shutil.copytree(place.packages, prefix / PACKAGES.format(version=place.python), symlinks=True)
        link = prefix / LINK.format(version=place.python)
        link.parent.mkdir()
        link.write_text("../site-packages\n", encoding="utf-8")
        (prefix / "bin").mkdir()
        (prefix / "conda-meta").mkdir()
        (prefix / "conda-meta" / "history").touch()
        shutil.copy2(os.path.realpath("/usr/bin/python3"), prefix / "bin" / f"python{place.python}")
        for name in ("python", "python3"):
            (prefix / "bin" / name).symlink_to(f"python{place.python}")
        (prefix / "bin" / "conda-unpack").write_text(UNPACK, encoding="utf-8")
        (prefix / "bin" / "conda-unpack").chmod(0o755)
        with tarfile.open(archive, "w") as made:
            made.add(prefix, ".")
        shutil.rmtree(prefix)
    return {"environment": {"mode": "conda", "file": str(archive)}}


def _container(place: Place) -> dict[str, Any]:
    """The root of an image on shared storage, with torch in the folder of its own Python."""
    root = Path(place.lab.shared) / "hangs-image"
    if not root.exists():
        images.root_folder(root)
        images.add_libraries(root, map(str, place.packages.glob("torch/lib/*.so")))
        shutil.copytree(place.packages, root / f"usr/local/lib/python{place.python}/dist-packages", symlinks=True)
    return {"container": {"runtime": "oci", "image": f"{place.lab.shared_inside}/hangs-image"}}


#: Condition -> the parts of a job for it.
CONDITIONS: dict[str, Callable[[Place], dict[str, Any]]] = {
    "path": _path,
    "sealed": _of_project("sealed"),
    "venv": _of_project("venv"),
    "conda": _conda,
    "container": _container,
}
