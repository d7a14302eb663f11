# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `course_checkoff`: show the table and the evidence, and write CSV and JSON here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.course.checkoff import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import Presented
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place


@dataclass(frozen=True)
class _Options:
    """The options that the module does not read."""

    evidence: bool
    pick: str
    dest: str | None = None


class ActionModule(Presented):
    ARGUMENTS = ARGUMENTS
    ACTION_ARGUMENTS = ACTION_ARGUMENTS

    def presented(self, options: Parameters, result: ModuleResult) -> ModuleResult:
        chosen, sheet, files = record_of(_Options, options), record_of(_Sheet, result), {}
        lines = list(sheet.lines)
        for student in records_of(_Student, sheet.students if chosen.evidence else []):
            lines += [f"{student.id}, all evidence:", *(f"  {line}" for line in student.lines)]
        if chosen.dest and not self._task.check_mode:
            files = _write(sheet, os.path.abspath(chosen.dest), chosen.pick)
            lines.append(f"tables: {', '.join(map(os.path.relpath, files.values()))}")
        for line in lines:
            self.show_line(line)
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
    lines: Sequence[str] = ()


def _write(sheet: _Sheet, dest: str, pick: str) -> dict[str, str]:
    """Write DEST/<course>.csv and .json and return their paths. A new folder is private to the teacher."""
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
