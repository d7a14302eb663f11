# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `course_checkoff`: show the table and the evidence, and write CSV and JSON here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, record_of, records_of
from ansible_collections.rankzero.slurm.plugins.module_utils.course.checkoff import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display


@dataclass(frozen=True)
class _Options:
    """The options that the module does not read."""

    evidence: bool
    pick: str
    dest: str | None = None


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, given = self.validate_argument_spec(ACTION_ARGUMENTS)
        options = record_of(_Options, given)
        asked = {name: value for name, value in self._task.args.items() if name in ARGUMENTS}
        result = call_module(self, "rankzero.slurm.course_checkoff", asked, task_vars, ACTION_ARGUMENTS)
        if result.get("failed"):
            return result
        host = (task_vars or {}).get("inventory_hostname", "localhost")
        lines, files = list(result.get("lines", [])), {}
        for student in records_of(_Student, result.get("students", []) if options.evidence else []):
            lines += [f"{student.id}, all evidence:", *(f"  {line}" for line in student.lines)]
        if options.dest and not self._task.check_mode:
            try:
                files = _write(result, os.path.abspath(options.dest), options.pick)
            except RankzeroError as error:
                return {**result, "failed": True, "msg": error.message}
            lines.append(f"tables: {', '.join(map(os.path.relpath, files.values()))}")
        for line in lines:
            display.display(f"{host}: {line}")
        return {**result, "files": files}


@dataclass(frozen=True)
class _Student:
    id: str
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class _Sheet:
    """The module's answer. `students`: the rows of the table; their `lines` are evidence."""

    course: str
    accounting: Mapping[str, object]
    counts: Mapping[str, object]
    students: Sequence[Mapping[str, object]]
    csv: str


def _write(result: Parameters, dest: str, pick: str) -> dict[str, str]:
    """Write DEST/<course>.csv and .json and return their paths. A new folder is private to the teacher."""
    sheet = record_of(_Sheet, result)
    students = [{name: value for name, value in student.items() if name != "lines"} for student in sheet.students]
    document = {
        "course": sheet.course,
        "accounting": sheet.accounting,
        "counts": sheet.counts,
        "pick": pick,
        "students": students,
    }
    texts = {"csv": sheet.csv, "json": json.dumps(document, indent=1) + "\n"}
    return {kind: Place.of(dest).write(f"{sheet.course}.{kind}", text, mode=0o700) for kind, text in texts.items()}
