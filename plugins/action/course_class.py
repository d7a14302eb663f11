# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `course_class`: send the exercise, and add the command that each student types."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import COURSE_CLASS, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, record_of, succeeded
from ansible_collections.rankzero.slurm.plugins.module_utils.course.exercise import FOLDER, ExerciseRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.one_cluster import refuse_unchosen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import playbook_command
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Chosen, Snapshot, pack, take_snapshot

# The playbook of a student's project (docs/course.md).
PLAYBOOK = "train.yml"


@dataclass(frozen=True)
class _Options:
    """The options that the action itself reads."""

    state: str
    root: str
    exercise: str | None = None


@dataclass(frozen=True)
class _Made:
    """The module's answer: what it made or would make, and which files of the exercise the host lacks."""

    changes: Sequence[str] = ()
    lacking: Sequence[int] = ()


class ActionModule(Action):
    of_one_cluster = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(COURSE_CLASS)
        try:
            refuse_unchosen(self, self._task_vars)
            result = self._made(record_of(_Options, options))
        except (RankzeroError, OSError) as error:
            return {"failed": True, "msg": str(error)}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        for student in result.get("students", []):
            student.update(command=playbook_command(PLAYBOOK, self._task_vars, student.get("vars", {})))
        return result

    def _made(self, options: _Options) -> ModuleResult:
        """Make the class, and send the files of the exercise that it lacks. Raises RankzeroError and OSError."""
        wanted = options.exercise if options.state == "present" else ""
        snapshot = take_snapshot(wanted, Chosen.everything()) if wanted else Snapshot("", "", ())
        rows = tuple((entry.kind, entry.sha256, entry.path) for entry in snapshot.files)
        result = self._module(ExerciseRequest(rows))
        made = record_of(_Made, result)
        result.pop("lacking", None)
        if not made.lacking:
            return result
        paths: Sequence[str] = [os.path.join(options.root, FOLDER, snapshot.files[each].path) for each in made.lacking]
        if not self._task.check_mode:
            handed_out = self._module(ExerciseRequest(archive=self._sent(snapshot, made.lacking)))
            paths = record_of(_Made, handed_out).changes
        changes = [*made.changes, *paths]
        text = "".join(f"{line}\n" for line in changes)
        diff = {"before": "", "after": text, "after_header": "what is made so"}
        return {**result, "changed": True, "changes": changes, "diff": diff}

    def _module(self, request: ExerciseRequest) -> ModuleResult:
        arguments = {**self._task.args, "x_request": request.arguments()}
        spec = {**COURSE_CLASS, **REQUEST}
        return succeeded(call_module(self, "rankzero.slurm.course_class", arguments, self._task_vars, spec))

    def _sent(self, snapshot: Snapshot, numbers: Sequence[int]) -> str:
        """Pack these files of the exercise and send them. Returns the path of the archive on the host."""
        chosen = replace(snapshot, files=tuple(snapshot.files[number] for number in numbers))
        folder = self._connection._shell.tmpdir or self._make_tmp_path()
        remote: str = self._connection._shell.join_path(folder, "exercise.tar.gz")
        with tempfile.TemporaryDirectory(prefix="rankzero-") as own:
            local = os.path.join(own, "exercise.tar.gz")
            with open(local, "wb") as stream:
                pack(chosen, stream)
            self._transfer_file(local, remote)
        self._fixup_perms2([folder, remote])
        return remote
