# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the steps that make a cluster match a folder of specs, from the specs and the existing launches. Pure.

A spec with changed content has another key, so the launch of the old content still exists as well. This is drift, and a
policy decides what happens to that launch. A sweep is one line of the plan. Its elements are separate launches, so a
sweep that has grown is no drift; in a sweep that has shrunk, only the removed elements are drift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, record_of, records_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import (
    Before,
    DeclaredLaunch,
    Found,
    Policies,
    counted,
    judged,
    tally,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE, UNSUBMITTED

#: The actions of a plan. `wait`: not launched yet, because the spec's earlier launch is still active, or because a
#: predecessor is missing. `keep`: left alone. `gone`: a spec that was removed, and nothing of it is active.
ACTIONS = ("cancel", "launch", "adopt", "wait", "keep", "gone", "unchanged", "failed")
#: If a sweep's elements have several actions, the first of these is the sweep's action.
_SWEEP_ACTIONS = ("launch", "wait", "adopt", "failed", "unchanged")


@dataclass(frozen=True)
class ActiveElement:
    """An element of a sweep that is active now."""

    key: str
    job_id: str | None
    run_dir: str | None


@dataclass(frozen=True)
class Step:
    """One line of the plan.

    `file` is empty if the spec is gone; `run_dir` is None if nothing was launched yet. `ours` as in Found, `recorded`
    as in Wanted. `kind` is job or sweep. For a sweep: `counts`: elements by standing; `elements`: the active ones;
    `submits`: the keys of those that a launch submits. `anew`: pending jobs block the launch and may be cancelled for
    it.
    """

    action: str
    name: str
    key: str
    reason: str
    file: str = ""
    generation: int | None = None
    job_id: str | None = None
    run_dir: str | None = None
    ours: bool = False
    kind: str = "job"
    counts: Mapping[str, int] | None = None
    elements: Sequence[ActiveElement] = ()
    submits: Sequence[str] = ()
    anew: bool = False
    recorded: bool = True

    @classmethod
    def of(cls, document: Parameters) -> Step:
        """Read a step that was written as JSON."""
        return record_of(cls, document, elements=partial(records_of, ActiveElement))


def make_plan(wanted: Iterable[DeclaredLaunch], launches: Sequence[Found], policies: Policies) -> list[Step]:
    """Return the steps, sorted by name. For one name, steps that end a launch come before steps that begin one.

    The names in `wanted` must be unique, their predecessors must be among them, and there must be no cycles.
    """
    planner = _Planner({spec.name: spec for spec in wanted}, launches, policies)
    steps = [step for name in planner.specs for step in planner.of(name)]
    without = [launch for launch in launches if launch.name not in planner.specs and launch.ours]
    gone = [launch for launch in without if launch.standing in ACTIVE]
    steps += _about_ended(without, {launch.name for launch in gone})
    if policies.removed == "cancel":
        steps += _about_old(gone, "cancel", "its spec is gone (removed: cancel)")
    else:
        steps += _about_old(gone, "keep", "its spec is gone; it may end by itself (removed: keep)")
    return sorted(steps, key=lambda step: (step.name, step.action not in ("cancel", "keep"), step.key))


def changes(steps: Iterable[Step]) -> bool:
    """Return whether a plan launches or cancels anything."""
    return any(step.action in ("launch", "cancel") for step in steps)


class _Planner:
    """Plans each spec after its predecessors."""

    def __init__(self, specs: Mapping[str, DeclaredLaunch], launches: Sequence[Found], policies: Policies) -> None:
        self.specs = specs
        self.policies = policies
        self._found: dict[str, dict[str, Found]] = {name: {} for name in specs}
        for launch in launches:
            self._found.setdefault(launch.name, {})[launch.key] = launch
        self._planned: dict[str, list[Step]] = {}
        # Sweeps with failed elements that are not launched again, regardless of other actions for the sweep.
        self._stuck: set[str] = set()

    def of(self, name: str) -> list[Step]:
        """Return the steps of one spec. The last one concerns its current content."""
        if name not in self._planned:
            self._planned[name] = self._plan(self.specs[name])
        return self._planned[name]

    def _mine(self, spec: DeclaredLaunch) -> list[Found]:
        """Return the existing launches of the spec's current content."""
        there = self._found[spec.name]
        return [there[key] for key in spec.elements or (spec.key,) if key in there]

    def _before(self, spec: DeclaredLaunch) -> Before:
        hinders, relaunched, since = [], [], [0.0]
        for name in spec.after:
            step = self.of(name)[-1]
            if step.action == "wait":
                hinders.append(f"follows {name}, which is not launched yet")
            elif step.action == "failed" or name in self._stuck:
                hinders.append(f"follows {name}, which has failed and is not launched again")
            elif step.action == "launch":
                relaunched.append(name)
            since += [launch.since for launch in self._mine(self.specs[name])]
        return Before("; ".join(hinders), tuple(relaunched), max(since))

    def _plan(self, spec: DeclaredLaunch) -> list[Step]:
        before, own_launches = self._before(spec), self._mine(spec)
        own = self._sweep(spec, before) if spec.elements else self._job(spec, own_launches, before)
        own_keys = {launch.key for launch in own_launches}
        there = self._found[spec.name].values()
        others = [launch for launch in there if launch.key not in own_keys and launch.standing in ACTIVE]
        old, strange = [launch for launch in others if launch.ours], [launch for launch in others if not launch.ours]
        if strange and own.action == "launch":
            reason = f"{own.reason}; {_jobs(strange)} of the same name is not of this set and is left alone"
            own = replace(own, reason=reason)
        if not old:
            return [own]
        changed = self.policies.changed
        if changed == "replace":
            return [*_about_old(old, "cancel", "the spec has changed since (changed: replace)"), own]
        if own.action == "launch" and changed == "wait":
            reason = f"the spec has changed while {_jobs(old)} is active; launched once that has ended (changed: wait)"
            return [replace(own, action="wait", reason=reason, submits=(), anew=False)]
        kept = _about_old(old, "keep", f"the spec has changed since; it may end by itself (changed: {changed})")
        return [*kept, own]

    def _job(self, spec: DeclaredLaunch, mine: Sequence[Found], before: Before) -> Step:
        own = mine[0] if mine else None
        verdict = judged(own, before, self.policies)
        if own is None:
            return Step(verdict.action, spec.name, spec.key, verdict.reason, spec.file)
        return replace(_about(own, verdict.action, verdict.reason, spec.file), anew=verdict.anew)

    def _sweep(self, spec: DeclaredLaunch, before: Before) -> Step:
        """Return one step for all elements. Its action is the first of _SWEEP_ACTIONS that any element has."""
        there = self._found[spec.name]
        verdicts = {key: judged(there.get(key), before, self.policies) for key in spec.elements}
        action = next(
            choice for choice in _SWEEP_ACTIONS if any(verdict.action == choice for verdict in verdicts.values())
        )
        if any(verdict.action == "failed" for verdict in verdicts.values()):
            self._stuck.add(spec.name)
        counts = counted([there[key].standing if key in there else UNSUBMITTED for key in spec.elements])
        reason = tally(counts)
        # For elements that do not exist, the counts are sufficient.
        keys = [
            key for key, verdict in verdicts.items() if verdict.action == action and (key in there or action == "wait")
        ]
        if keys and action in ("launch", "wait", "failed"):
            number = "" if action == "wait" else f"element {spec.elements.index(keys[0])}: "
            reason = f"{reason}; {number}{verdicts[keys[0]].reason}"
        active = [there[key] for key in spec.elements if key in there and there[key].standing in ACTIVE]
        return Step(
            action,
            spec.name,
            spec.key,
            reason,
            spec.file,
            job_id=_arrays(active),
            ours=all(launch.ours for launch in active),
            kind="sweep",
            counts=counts,
            elements=_listed(active),
            submits=tuple(key for key, verdict in verdicts.items() if verdict.action == "launch"),
            anew=any(verdict.anew for verdict in verdicts.values()),
            recorded=spec.recorded,
        )


def _about(launch: Found, action: str, reason: str, file: str = "") -> Step:
    return Step(
        action, launch.name, launch.key, reason, file, launch.generation, launch.job_id, launch.run_dir, launch.ours
    )


def _about_ended(launches: Sequence[Found], active: Collection[str]) -> list[Step]:
    """Return one step for each spec that is gone and has nothing active, until a plan that says so was carried out."""
    ended = sorted((launch for launch in launches if launch.name not in active), key=lambda launch: launch.key)
    each = {launch.name: launch for launch in ended if not launch.gone}
    return [_about(launch, "gone", "its spec is gone, and nothing of it is active") for launch in each.values()]


def _about_old(launches: Sequence[Found], action: str, reason: str) -> list[Step]:
    """Return one step for each job, and one for all elements of a sweep."""
    steps = [_about(launch, action, reason) for launch in launches if not launch.sweep]
    for name, sweep in sorted({(launch.name, launch.sweep) for launch in launches if launch.sweep}):
        elements = [launch for launch in launches if (launch.name, launch.sweep) == (name, sweep)]
        count = "1 active element" if len(elements) == 1 else f"{len(elements)} active elements"
        steps.append(
            Step(
                action,
                name,
                sweep,
                f"{count}: {reason}",
                job_id=_arrays(elements),
                ours=True,
                kind="sweep",
                counts=counted([launch.standing for launch in elements]),
                elements=_listed(sorted(elements, key=lambda launch: launch.key)),
            )
        )
    return steps


def _listed(launches: Iterable[Found]) -> tuple[ActiveElement, ...]:
    return tuple(ActiveElement(launch.key, launch.job_id, launch.run_dir) for launch in launches)


def _arrays(launches: Iterable[Found]) -> str | None:
    """Return the jobs or arrays of some elements, separated by commas."""
    return ",".join(sorted({str(launch.job_id).partition("_")[0] for launch in launches if launch.job_id})) or None


def _jobs(launches: Sequence[Found]) -> str:
    ids = sorted(launch.job_id or "(unknown)" for launch in launches)
    return ("job " if len(ids) == 1 else "one of the jobs ") + short_list(ids)
