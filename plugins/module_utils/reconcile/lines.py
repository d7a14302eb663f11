# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of a plan for people: a step, and what only the controller knows of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import Step
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE

# Fields of a step that are not part of the result.
_INTERNAL = ("ours", "submits", "anew", "recorded")


@dataclass
class PlanLine:
    """A line of the plan: the step of the cluster's plan, and what became of it.

    Of a launch: `leaves`: what it sends; `changes`: how it differs from the one before, as words, in check mode;
    `node_hours`: the most that it may use.
    """

    step: Step
    done: bool = False
    error: str = ""
    leaves: JsonObject | None = None
    changes: Sequence[str] = ()
    node_hours: float | None = None

    @classmethod
    def of(cls, result: Parameters) -> PlanLine:
        """Read a line from what `result` has returned."""
        return record_of(cls, {**result, "step": result}, step=Step.of)

    @property
    def is_sweep(self) -> bool:
        """Whether it is about a sweep."""
        return self.step.kind == "sweep"

    @property
    def launches(self) -> bool:
        """Whether it is a launch."""
        return self.step.action == "launch"

    def result(self) -> JsonObject:
        """The line as the module documents it."""
        own = {name: value for name, value in vars(self).items() if name != "step"}
        step = asdict(self.step)
        return {**{name: value for name, value in step.items() if name not in _INTERNAL}, **own}


def active_runs(lines: Sequence[PlanLine]) -> list[str]:
    """The run directories of the specs' active launches."""
    run_dirs: list[str | None] = []
    for line in lines:
        if line.is_sweep and line.step.file:
            run_dirs += [each.run_dir for each in line.step.elements]
        elif line.step.action == "adopt" or (line.launches and line.done):
            run_dirs.append(line.step.run_dir)
    return [run_dir for run_dir in run_dirs if run_dir]


def failure(lines: Sequence[PlanLine], missing: Sequence[JsonObject]) -> JsonObject:
    """How the task fails, if a launch was not possible."""
    problems = [f"{line.step.name} ({line.step.file}): {line.error}" for line in lines if line.error]
    # If something must be built first, the action runs again afterwards, and reports these problems then.
    if not problems or missing:
        return {}
    count = "1 launch was" if len(problems) == 1 else f"{len(problems)} launches were"
    return {"failed": True, "msg": "\n".join([f"{count} not possible:", *(f"  - {text}" for text in problems)])}


def launch_diff(lines: Sequence[PlanLine]) -> dict[str, str]:
    """The launches before and after, one line each, in the form of Ansible's diff."""
    before, after = [], []
    for line in lines:
        step, text = line.step, f"{line.step.name} {line.step.key}"
        if line.is_sweep:
            active = sum((step.counts or {}).get(standing, 0) for standing in ACTIVE)
            to_come = 0 if step.action == "cancel" else active + len(step.submits)
            before += [f"{text} {active} elements\n"] if active else []
            after += [f"{text} {to_come} elements\n"] if to_come else []
            continue
        if step.action in ("cancel", "adopt", "keep"):
            before.append(f"{text} job {step.job_id}\n")
        if step.action in ("adopt", "keep"):
            after.append(f"{text} job {step.job_id}\n")
        if line.launches:
            after.append(f"{text} new job\n")
    return {
        "before_header": "active launches",
        "after_header": "active launches",
        "before": "".join(sorted(before)),
        "after": "".join(sorted(after)),
    }
