# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of submissions: written by the modules `job` and `job_sweep`, read by the actions. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Union

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE, FAILED, UNPROVEN, Standing
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import base_id
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.exclusion import Exclusion
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Predecessor

# The fields of a cancelled launch's result.
_OF_A_CANCELLATION = ("name", "key", "generation", "run_dir", "changed", "submission", "missing")
# The checks before the submission: facts, notes and what is unknown, each as sentences.
ChecksMade = Mapping[str, Sequence[str]]


def _refs(missing: Sequence[Mapping[str, object]]) -> list[Ref]:
    return [Ref.of(ref) for ref in missing]


@dataclass(frozen=True)
class LaunchResult:
    """The result of a single launch, with the fields that module `job` documents."""

    name: str
    key: str
    generation: int | None
    run_dir: str | None
    submission: str
    changed: bool
    job_id: str | None = None
    standing: Standing | None = None
    message: str = ""
    missing: Sequence[Ref] = ()
    excluded: Sequence[Exclusion] = ()
    diff: Sequence[Mapping[str, str]] = ()
    allocation: str | None = None
    checks: ChecksMade | None = None
    # The nearest other launch of the name, for the action, if this one is new.
    predecessor: Predecessor | None = None

    @classmethod
    def of(cls, result: Parameters) -> LaunchResult:
        """Read the result of the module. Fields that the module or the action adds are left out."""
        excluded, predecessor = partial(records_of, Exclusion), partial(record_of, Predecessor)
        return record_of(cls, result, excluded=excluded, missing=_refs, predecessor=predecessor)

    def result(self) -> ModuleResult:
        """Return the result of the module."""
        values = asdict(self)
        if self.submission == "absent":
            job = {"job_id": self.job_id} if self.job_id else {}
            return {**{name: values[name] for name in _OF_A_CANCELLATION}, "missing": [], **job}
        if self.checks is None:
            del values["checks"]
        if self.generation != 1 or self.submission not in ("submitted", "planned", "missing"):
            del values["predecessor"]
        missing = [ref.record() for ref in self.missing]
        return {**values, "missing": missing, "excluded": list(values["excluded"]), "diff": list(values["diff"])}

    @property
    def hopeless(self) -> bool:
        """Whether the launch has failed for good."""
        return self.submission == "unchanged" and self.standing in UNPROVEN

    def active_ids(self) -> list[str]:
        """Return the job that a dependent launch waits for, if any."""
        return [self.job_id] if self.standing in ACTIVE and self.job_id else []


@dataclass(frozen=True)
class ElementResult:
    """The result of one element of a sweep, with the fields that module `job_sweep` documents."""

    number: int
    key: str
    parameters: Mapping[str, str]
    submission: str
    why: str
    standing: Standing | None
    job_id: str | None
    run_dir: str | None
    generation: int | None


@dataclass(frozen=True)
class ArrayResult:
    """A job array that was submitted: its folder, its tasks in sbatch's notation, and their number."""

    job_id: str
    run_dir: str
    tasks: str
    elements: int


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep, with the fields that module `job_sweep` documents."""

    name: str
    key: str
    sweep_dir: str
    submission: str
    changed: bool
    counts: Mapping[str, int]
    elements: Sequence[ElementResult]
    arrays: Sequence[ArrayResult] = ()
    missing: Sequence[Ref] = ()
    diff: Mapping[str, str] = field(default_factory=dict)
    checks: ChecksMade | None = None

    @classmethod
    def of(cls, result: Parameters) -> SweepResult:
        """Read the result of the module. Fields that the module or the action adds are left out."""
        elements, arrays = partial(records_of, ElementResult), partial(records_of, ArrayResult)
        return record_of(cls, result, elements=elements, arrays=arrays, missing=_refs)

    def result(self) -> ModuleResult:
        """Return the result of the module."""
        values = dict(vars(self))
        if self.checks is None:
            del values["checks"]
        # asdict() copies each value of a thousand elements.
        elements = [{**vars(element), "parameters": dict(element.parameters)} for element in self.elements]
        arrays = [dict(vars(array)) for array in self.arrays]
        return {**values, "elements": elements, "arrays": arrays, "missing": [ref.record() for ref in self.missing]}

    @property
    def hopeless(self) -> bool:
        """Whether an element has failed for good."""
        return any(element.submission == "unchanged" and element.standing == FAILED for element in self.elements)

    def active_ids(self) -> list[str]:
        """Return the jobs that a dependent launch waits for: own arrays as a whole, tasks of others one by one.

        Raises `RankzeroError` if a submission in progress has no job yet.
        """
        active = [element for element in self.elements if element.standing in ACTIVE]
        unknown = [str(element.number) for element in active if not element.job_id]
        if unknown:
            raise RankzeroError(
                f"{self.name}: elements {', '.join(unknown)} were taken by another submitter, who has not submitted "
                "them; nothing that follows was submitted. Run the same again: it settles what became of them."
            )
        own = {array.job_id for array in self.arrays}
        others = [str(element.job_id) for element in active if base_id(str(element.job_id)) not in own]
        return [*sorted(own), *others]


# X | Y needs Python 3.10 outside annotations.
SubmissionResult = Union[LaunchResult, SweepResult]


def read_result(result: Parameters) -> SubmissionResult:
    """Read the result of module `job` or `job_sweep`."""
    return SweepResult.of(result) if "elements" in result else LaunchResult.of(result)
