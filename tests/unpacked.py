# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of Debian packages whose installation would start services: unpacked beside this system, and run in place.

Of this system's own release, so that they find their libraries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.repository import ROOT

CACHE = ROOT / ".cache" / "unpacked"
SECONDS = 240


class Unavailable(Exception):
    """Why a package is not to be had here."""


def run(words: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """What a command prints. Raises `Unavailable` with the last thing that a failing one said."""
    done = subprocess.run(
        list(words),
        env={**os.environ, **(env or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise Unavailable(f"{words[0]}: {lines[-1]}")
    return done.stdout


def programs(*packages: str) -> Path:
    """The folder with the programs of these packages, downloaded once for this checkout. Raises `Unavailable`."""
    folder = CACHE / "-".join(packages)
    if not folder.exists():
        if not shutil.which("apt-get"):
            raise Unavailable("this is not a Debian-like system")
        fresh = CACHE / f".{os.getpid()}"
        fresh.mkdir(parents=True)
        try:
            run(["apt-get", "update"])
            run(["apt-get", "download", *packages], cwd=fresh)
            for package in sorted(fresh.glob("*.deb")):
                run(["dpkg-deb", "--extract", str(package), str(fresh / "root")])
            os.rename(fresh / "root", folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder / "usr" / "bin"
