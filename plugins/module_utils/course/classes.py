# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create or remove a class: its folders, its record, and its accounts if the cluster keeps accounting."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.course import folders, limits
from ansible_collections.rankzero.slurm.plugins.module_utils.course.accounts import Accounts, accounts
from ansible_collections.rankzero.slurm.plugins.module_utils.course.students import students
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def change(slurm: Slurm, options: Parameters, *, check_mode: bool) -> ModuleResult:
    """The result of module course_class for its options. Raises `RankzeroError`."""
    root = os.path.normpath(options["root"])
    if not os.path.isabs(root):
        raise RankzeroError(f"root: {options['root']!r} is not an absolute path on the cluster; begin with / or ~")
    before = folders.read(root)
    if options["state"] == "absent":
        return _remove(slurm, root, before, options, check_mode)
    login = pwd.getpwuid(os.geteuid()).pw_name
    class_ = students(options["name"], options["students"], mode=options["mode"], login=login)
    if options["store"] and options["mode"] == "accounts":
        raise RankzeroError("store: not allowed in mode accounts, where each student has their own store")
    course = folders.Course(options["name"], options["mode"], tuple(class_), store=options["store"])
    course = folders.succession(course, before)
    wanted = limits.ClassAccounts(
        course.name,
        class_,
        options["parent"],
        each=limits.wanted(options["limits"], "limits"),
        whole=limits.wanted(options["class_limits"], "class_limits"),
    )
    done = accounts(slurm, wanted, state="present", policy=options["accounting"], check_mode=check_mode)
    course = replace(course, accounts=done.there)
    made = folders.prepare(root, course, group=options["group"], check_mode=check_mode)
    in_vars = os.path.join(root, folders.VARS)
    written = {} if check_mode and not os.path.isdir(in_vars) else folders.remember(root, course, check_mode=check_mode)
    if check_mode and not os.path.isdir(in_vars):
        made.made.append(f"{os.path.join(root, folders.RECORD)} and {in_vars}/*.json")
    changes = [*made.made, *written, *_shown(done)]
    return {
        **_result(done, changes, made.undone),
        "students": folders.student_results(root, course),
        "former": [student.id for student in course.former],
    }


def _remove(
    slurm: Slurm, root: str, before: folders.Course | None, options: Mapping[str, Any], check_mode: bool
) -> dict[str, Any]:
    name = options["name"]
    if before is not None and before.name != name:
        raise RankzeroError(
            f"root: contains the class {before.name!r}, not {name!r}; nothing is removed. Give the root of {name!r}."
        )
    everyone = before.everyone if before is not None else ()
    wanted = limits.ClassAccounts(name, everyone, options["parent"])
    done = accounts(slurm, wanted, state="absent", policy=options["accounting"], check_mode=check_mode)
    changes = [*(f"removes {path}" for path in folders.forget(root, check_mode=check_mode)), *_shown(done)]
    return {**_result(done, changes, []), "students": [], "former": [student.id for student in everyone]}


def _shown(done: Accounts) -> list[str]:
    return [shlex.join(["sacctmgr", *command]) for command in done.commands]


def _result(done: Accounts, changes: Sequence[str], undone: Sequence[str]) -> dict[str, Any]:
    text = "".join(f"{line}\n" for line in changes)
    return {
        "changed": bool(changes),
        "changes": list(changes),
        "undone": [*undone, *done.undone],
        "enforced": done.enforced,
        "diff": {"before": "", "after": text, "after_header": "what is made so"} if changes else {},
    }
