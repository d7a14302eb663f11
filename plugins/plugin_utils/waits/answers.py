# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module job_wait answers, and what a wait returns of each launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleAnswer, ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch

# Fields of the module's answer that are for this action alone.
_MARKS = {"_proof": "artifact", "_notify": "notifies", "_hidden": "hidden"}
_INTERNAL = (*_MARKS, "_logs")


@dataclass(frozen=True)
class WaitAnswer(ModuleAnswer):
    """An answer of module job_wait. `choice`: which launch it chose; `launches`: of a wait for many; `poll`: a Poll;
    `report`: what the module would answer without `x_poll`, where a poll has found the proof.
    """

    choice: str = ""
    launches: Sequence[ModuleResult] = ()
    slurm_commands: int = 0
    poll: Any = None
    report: ModuleResult | None = None


@dataclass
class WaitedLaunch:
    """A launch of the module's answer, and what is returned of it.

    `artifact`: what its job needs to prove, if that is waited for. `notifies`: whether messages are sent about it.
    `hidden`: it ended so lately that a network file system may still hide its outcome.
    """

    report: LaunchReport
    result: ModuleResult
    artifact: str = ""
    notifies: bool = False
    hidden: bool = False

    @classmethod
    def of(cls, answer: ModuleResult) -> WaitedLaunch:
        """Read a launch of an answer."""
        shown = {name: value for name, value in answer.items() if name not in _INTERNAL}
        marks = {mark: answer[name] for name, mark in _MARKS.items() if name in answer}
        return cls(LaunchReport.of(answer), shown, **marks)

    def end(self, watch: Watch, timeout: int) -> None:
        """Add what only the wait knows."""
        message = self.report.message
        if watch.hopeless is not None:
            message = f"it can never start: {watch.hopeless.sentence}"
        elif watch.matched is None and watch.pattern is not None and self.report.completed:
            message = f"it ended, and no line of its log matches {watch.pattern.pattern}: {message}"
        elif not watch.done:
            message = f"not finished after {timeout} s (wait_timeout); the job continues: {message}"
        self.report = replace(self.report, message=message)
        told = {"matched": watch.matched, "proven": watch.proven or self.report.success, "message": message}
        progress = {} if watch.metrics is None else {"progress": vars(watch.metrics)}
        self.result = {**self.result, **progress, **told}
