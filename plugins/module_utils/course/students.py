# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The students of a class: ids that are valid in Slurm, in a file system and in a table, and names derived from them.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

# Accounting keeps names in lower case; folders, job files and shells need no quoting for these characters.
ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
COURSE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
ALLOWED = "small letters, digits, '.', '_' and '-', at most 32, the first one a letter or a digit"
_SHOWN = 40


@dataclass(frozen=True)
class Student:
    """A student. `user`: the login that the student's jobs run as. `account`: the account in Slurm that they charge."""

    id: str
    user: str
    account: str


def students(course: str, ids: Sequence[str], *, mode: str, login: str) -> list[Student]:
    """The students in the given order. Raises one `RankzeroError` that names everything that is wrong.

    `mode` accounts: a student's id is the student's own login. projects: all of them share `login`.
    """
    problems = []
    if not COURSE.fullmatch(course):
        problems.append(f"name: {quoted(course)} cannot name a course; begin with a letter, then {ALLOWED}")
    seen: set[str] = set()
    for student_id in ids:
        if not ID.fullmatch(student_id):
            problems.append(
                f"students: {quoted(student_id)} cannot be an id{_proposal(student_id)}; allowed are {ALLOWED}"
            )
        elif student_id in seen:
            problems.append(f"students: {quoted(student_id)} is named twice")
        seen.add(student_id)
    if not ids:
        problems.append("students: name at least one")
    if problems:
        raise RankzeroError("\n".join(problems), problems=problems)
    return [
        Student(student_id, student_id if mode == "accounts" else login, f"{course}-{student_id}") for student_id in ids
    ]


def quoted(text: str) -> str:
    """Untrusted text for a message: quoted, without control characters, and short."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def _proposal(text: str) -> str:
    """Suggest a similar valid id. Two students may get the same suggestion, so it is not applied automatically."""
    near = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:32]
    return f" ({near!r} would do)" if ID.fullmatch(near) else ""
