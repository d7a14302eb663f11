# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero skill`: the skills in this package, and their copies where an assistant looks for them."""

from __future__ import annotations

import os
from argparse import Namespace
from importlib.resources import files
from typing import Any

from rankzero import errors
from rankzero.errors import Refused
from rankzero.library import importable

#: Name of a skill, which is its folder -> what it is for.
SKILLS = {
    "rankzero-launch": "Launch training on a Slurm cluster. Use it to plan, run, follow and cancel launches.",
    "rankzero-port": "Bring an sbatch script to rankzero. Use it for a script with SBATCH lines.",
    "rankzero-debug": "Explain a failed or stuck launch. Use it where a job has failed, waits or stands still.",
    "rankzero-job": "Write or change a job file. Use it for questions about keys of the job spec.",
}
FILE = "SKILL.md"


def text_of(name: str) -> str:
    """The text of a skill."""
    return files(__name__).joinpath(name, FILE).read_text(encoding="utf-8")


def carry_out(given: Namespace) -> tuple[int, list[dict[str, Any]]]:
    """List the skills, or copy them into a folder. Raises Refused where a file there would be lost."""
    rows = [{"name": name, "what": what, "path": None, "written": False} for name, what in SKILLS.items()]
    if given.action == "list":
        print("\n".join(f"{row['name']:<16} {row['what']}" for row in rows))
        return errors.OK, rows
    places = {str(row["name"]): os.path.join(given.dest, str(row["name"]), FILE) for row in rows}
    other = [place for name, place in places.items() if os.path.lexists(place) and not _same(place, text_of(name))]
    if other and not given.force:
        raise Refused(f"skill: {other[0]} has another content; --force replaces it, --dest names another folder")
    importable()
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place

    for row in rows:
        place = places[str(row["name"])]
        row.update(path=place, written=not _same(place, text_of(str(row["name"]))))
        if row["written"]:
            Place.of(given.dest, str(row["name"])).write(FILE, text_of(str(row["name"])))
        print(f"{place}: {'written' if row['written'] else 'is there'}")
    return errors.OK, rows


def _same(place: str, text: str) -> bool:
    try:
        with open(place, encoding="utf-8") as stream:
            return stream.read() == text
    except (OSError, UnicodeDecodeError):
        return False
