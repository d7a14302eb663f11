# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the elements of a sweep stand: all of them by one question to Slurm, those that have succeeded by none.

An element is an ordinary launch in <runs>/<name>/<key>/<generation>/, whose newest intent names the array that it was
put in and its task there. The array's own journal says which job that is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import (
    RunDirectory,
    array_of,
    as_element,
    generations,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import own, without_namesakes
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity, keys_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    EVERYTHING,
    QUEUE,
    UNDECIDED,
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    JobRecord,
    base_id,
    find_by_id,
    find_by_name,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import (
    INTENT_SECONDS,
    LOOK_SECONDS,
    submitter_may_live,
)


@dataclass(frozen=True)
class Element:
    """One element as the cluster knows it: its number in the sweep, its key, its values, its line of the script."""

    number: int
    key: str
    point: Mapping[str, str]
    line: str = ""
    checkpoint_dir: str | None = None

    @property
    def short(self) -> str:
        return self.key[:16]


def named(elements: Sequence[Element], names: Sequence[str]) -> set[int]:
    """The numbers of those that are named, by number or by the beginning of a key (at least 6 digits); without names
    of all. Raises `RankzeroError` for a name that is nobody's.
    """
    known = {name: element for element in elements for name in (str(element.number), element.short)}
    found: set[int] = set()
    for name in names:
        mine = [known[name]] if name in known else []
        if not mine and len(name) >= 6:
            mine = [element for element in elements if element.key.startswith(name)]
        if not mine:
            raise RankzeroError(
                f"elements: {name} is no element of this sweep; give its number (0 to {len(elements) - 1}), or its key "
                "or the beginning of that"
            )
        found.update(element.number for element in mine)
    return found if names else {element.number for element in elements}


@dataclass
class _Open:
    """A generation, and what Slurm is asked about it."""

    number: int
    facts: RunFacts
    name: str
    owner: RunDirectory
    task: int | None
    events: list[dict[str, Any]]
    job_id: str | None = None
    record: JobRecord | None = None

    @property
    def since(self) -> float:
        return next((float(event["time"]) for event in self.events), 0.0)


@dataclass
class Elements:
    """Looks at elements below `runs` (<state_root>/runs/<name>). `sleep` and `clock` are injectable for tests."""

    slurm: Slurm
    runs: str
    check_mode: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time
    _journals: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def statuses(self, wanted: Sequence[Element]) -> dict[int, LaunchStatus | None]:
        """By number: what became of the newest generation of each element; None where there is none."""
        found: dict[int, LaunchStatus | None] = {element.number: None for element in wanted}
        present = set(keys_of(os.path.dirname(os.path.dirname(self.runs)), os.path.basename(self.runs)))
        undecided = []
        for element in wanted:
            known = generations(os.path.join(self.runs, element.short)) if element.short in present else []
            if not known:
                continue
            one = self._opened(element, known[-1])
            found[element.number] = status_of(one.facts)
            if status_of(one.facts).state == UNDECIDED:
                undecided.append(one)
        self._find_lost([one for one in undecided if one.job_id is None])
        self._ask([one for one in undecided if one.job_id is not None])
        heard = QUEUE if self.slurm.accounting == "silent" else EVERYTHING
        for one in undecided:
            found[one.number] = status_of(
                replace(one.facts.read_again(), job_id=one.job_id), JobAnswer(one.record, heard)
            )
        if not self.check_mode:
            for status in found.values():
                if status and status.over:
                    status.run.forget_secrets()
        return found

    def _opened(self, element: Element, run: RunDirectory) -> _Open:
        mine = run.own_events()
        place, claim = array_of(mine), run.claim()
        if place is None:
            name, owner, task, events = identity(run.path).job_name, run, None, mine
        else:
            owner = RunDirectory(run.beside(place.array))
            if owner.path not in self._journals:
                self._journals[owner.path] = owner.own_events()
            name, task = place.job_name(os.path.basename(self.runs)), place.task
            events = mine + as_element(self._journals[owner.path], place.task)
        ids = [str(each["job_id"]) for each in events if each["event"] in ("submitted", "adopted")]
        job_id = claim.job_id if claim else (ids[-1] if ids else None)
        refused = next((str(each.get("message", "")) for each in events[-1:] if each["event"] == "rejected"), None)
        facts = RunFacts(run, job_id, refused, run.outcome(), run.started())
        return _Open(element.number, facts, name, owner, task, events, job_id)

    def _find_lost(self, lost: Sequence[_Open]) -> None:
        """Submissions whose id was never recorded: by name, one question for all. A submitter that may still be at work
        is given time to say.
        """
        looked = self.clock()
        while lost:
            names = {one.name: one for one in lost}
            ids: dict[str, str] = {}
            for record in find_by_name(self.slurm, names, since=min(one.since for one in lost)):
                if without_namesakes([record], names[record.name].owner.path):
                    ids[record.name] = base_id(record.job_id)
            for name, job_id in ids.items():
                if not self.check_mode:
                    names[name].owner.record("adopted", job_id=job_id)
            for one in lost:
                if one.name in ids:
                    one.job_id = ids[one.name] if one.task is None else f"{ids[one.name]}_{one.task}"
            left = [one for one in lost if one.job_id is None and self._may_appear(one, looked)]
            if not left or self.check_mode:
                return
            self.sleep(LOOK_SECONDS)
            for one in left:
                said = one.owner.own_events()
                said = said if one.task is None else as_element(said, one.task)
                one.job_id = next((str(e["job_id"]) for e in reversed(said) if e.get("job_id")), None)
            lost = [one for one in left if one.job_id is None]

    def _may_appear(self, one: _Open, looked: float) -> bool:
        # A journal that a network file system does not show yet is not a dead submitter.
        last = max((float(event["time"]) for event in one.events), default=looked)
        return submitter_may_live(one.events) and self.clock() - last <= INTENT_SECONDS

    def _ask(self, wanted: Sequence[_Open]) -> None:
        """One question for all arrays and jobs; another one for tasks that Slurm has forgotten before their array."""
        if not wanted:
            return
        since = min(one.since for one in wanted)
        ids = {one.job_id: one for one in wanted if one.job_id}
        known = find_by_id(self.slurm, dict.fromkeys(map(base_id, ids)), since=since)
        for job_id in ids:
            whole = known.get(base_id(job_id))
            if whole is not None and whole.final:
                # An array that was cancelled before a task of it had a record of its own.
                known.setdefault(job_id, replace(whole, job_id=job_id))
        forgotten = [job_id for job_id in ids if job_id not in known and base_id(job_id) != job_id]
        if forgotten and any(base_id(job_id) in {base_id(one) for one in known} for job_id in forgotten):
            known.update(find_by_id(self.slurm, forgotten, since=since))
        for job_id, one in ids.items():
            record = known.get(job_id)
            one.record = record if record and record.name == one.name else own(record, one.facts.run.path)
