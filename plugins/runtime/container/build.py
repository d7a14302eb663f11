# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a job's environment inside its image, out of a set of packages and on top of the image's own Python.

    build.py FOLDER PACKAGES --sha256 SHA256      makes FOLDER/environment, or leaves the one that is there

The image's packages can be imported in it, and the environment's own come first. No package source is asked. What went
wrong is a line `problem ...`. Standard library only.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import stat
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import children  # noqa: E402
from core.files import publish  # noqa: E402
from node import disk, install, pack  # noqa: E402

_WHERE = "import json, site, sys; print(json.dumps([sys.prefix != sys.base_prefix, site.getsitepackages()]))"
_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def build(folder: str, packages: str, sha256: str) -> None:
    """The new environment appears complete or not at all; of two jobs that make it at once, one wins."""
    target, began = os.path.join(folder, "environment"), time.monotonic()
    manifest = install.manifest_of(packages, sha256)
    python = own_python(manifest["python"]["minor"])
    work = tempfile.mkdtemp(prefix="making-", dir=folder)
    try:
        environment = install.make(packages, manifest, work, python, ["--system-site-packages"])
        see_image(environment, python)
        facts = {"packages": manifest["key"], "python": python, "version": sys.version.split()[0]}
        facts.update(job=os.environ.get("SLURM_JOB_ID"), seconds=round(time.monotonic() - began, 1))
        publish(os.path.join(environment, "environment.json"), facts)
        freeze(environment)
        try:
            os.rename(environment, target)
        except OSError:
            if not os.path.isdir(target):
                raise
        print(f"made with {python} in {facts['seconds']} s")
    finally:
        disk.remove(work)


def own_python(minor: str) -> str:
    """The image's own Python, which must be of the version that the packages were made for. Raises Failed."""
    versions = []
    for name in ("python3", f"python{minor}", "python"):
        path = shutil.which(name)
        if path is None:
            continue
        question = [path, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        answer = children.run(question, os.environ, children.START_SECONDS).stdout.strip()
        if answer == minor:
            return path
        if answer:
            versions.append(f"{path} ({answer})")
    raise install.Failed(
        f"the packages are for Python {minor}, and the image has {', '.join(versions) or 'none'}: set "
        "environment.python to the image's version, and environment.platform to its machine and glibc"
    )


def see_image(environment: str, python: str) -> None:
    """Where the image's Python is itself that of a venv, its packages are not the system's: name their folders."""
    answer = children.run([python, "-I", "-c", _WHERE], os.environ, children.START_SECONDS)
    if answer.returncode:
        raise install.Failed(f"the image's {python} does not run: {answer.complaint}")
    venv, folders = json.loads(answer.stdout)
    if not venv:
        return
    (site,) = glob.glob(os.path.join(glob.escape(environment), "lib", "python*", "site-packages"))
    with open(os.path.join(site, "rankzero_image.pth"), "w", encoding="utf-8") as stream:
        stream.writelines(f"import site; site.addsitedir({folder!r})\n" for folder in folders)


def freeze(environment: str) -> None:
    """Take the right to write from everything below: many jobs use it. The folder itself is still to be renamed."""
    for place, folders, files in os.walk(environment):
        for name in [*folders, *files]:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode & ~_WRITE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("packages")
    parser.add_argument("--sha256", default="")
    arguments = parser.parse_args()
    try:
        build(arguments.folder, arguments.packages, arguments.sha256)
    except (OSError, disk.Trouble, pack.Damaged, install.Failed) as error:
        print("problem", " ".join(str(error).split()))
        return 78
    return 0


if __name__ == "__main__":
    sys.exit(main())
