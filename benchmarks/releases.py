# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other versions of the collection, to measure them beside this one."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def collections_of(ref: str, folder: Path) -> str:
    """Unpack the collection as of a commit, tag or branch into `folder`, and return it as a path of collections."""
    place = folder / "ansible_collections" / "rankzero" / "slurm"
    place.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", ref], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
    return str(folder)
