# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a cluster match a folder of specs: a pure plan over what is wanted and what is there.

A launch is known by name and key. A spec whose content changed has another key, so the launch that the old content made
is still there beside it: that is drift, and a policy says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

#: What a plan consists of. `wait`: not yet, because the spec's earlier launch is still active. `keep`: left alone.
ACTIONS = ("cancel", "launch", "adopt", "wait", "keep", "unchanged", "failed")
REMOVED = ("keep", "cancel")
CHANGED = ("wait", "replace", "keep")
RELAUNCH = ("never", "on_failure")


@dataclass(frozen=True)
class Wanted:
    """One spec of the folder: its name, the first 16 digits of its launch key, and the file that it stands in."""

    name: str
    key: str
    file: str


@dataclass(frozen=True)
class Found:
    """The newest generation under one name and key. `state`: active, succeeded, failed or unknown (an intent without a
    known job). `ours`: a reconciliation of this folder made it or took it on.
    """

    name: str
    key: str
    generation: int
    state: str
    run_dir: str
    job_id: str | None = None
    message: str = ""
    ours: bool = False


@dataclass(frozen=True)
class Policies:
    """`removed`: a spec has gone while its job is active. `changed`: it has another key now. `relaunch`: it has failed;
    `max_failures` generations of one key at most.
    """

    removed: str = "keep"
    changed: str = "wait"
    relaunch: str = "never"
    max_failures: int = 3


@dataclass(frozen=True)
class Step:
    """One line of the plan. `file` is empty where the spec is gone; `run_dir` is None where nothing was launched yet.
    `ours` as in Found.
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


def make_plan(wanted: Iterable[Wanted], found: Sequence[Found], policies: Policies) -> list[Step]:
    """The steps, by name; of one name what ends comes before what begins. Names of `wanted` must differ."""
    steps: list[Step] = []
    specs = {spec.name: spec for spec in wanted}
    for spec in specs.values():
        steps += _of_spec(spec, [one for one in found if one.name == spec.name], policies)
    for one in found:
        if one.name not in specs and one.ours and one.state == "active":
            if policies.removed == "cancel":
                steps.append(_about(one, "cancel", "its spec is gone (removed: cancel)"))
            else:
                steps.append(_about(one, "keep", "its spec is gone; it may end by itself (removed: keep)"))
    return sorted(steps, key=lambda step: (step.name, step.action not in ("cancel", "keep"), step.key))


def changes(steps: Iterable[Step]) -> bool:
    """Whether anything would be done."""
    return any(step.action in ("launch", "cancel") for step in steps)


def _of_spec(spec: Wanted, found: Sequence[Found], policies: Policies) -> list[Step]:
    own = next((one for one in found if one.key == spec.key), None)
    old = [one for one in found if one.key != spec.key and one.ours and one.state == "active"]
    others = [one for one in found if one.key != spec.key and not one.ours and one.state == "active"]
    own_step = _own(spec, own, policies)
    if others and own_step.action == "launch":
        jobs = _jobs(others)
        reason = f"{own_step.reason}; {jobs} of the same name is not of this set and is left alone"
        own_step = replace(own_step, reason=reason)
    if not old:
        return [own_step]
    if policies.changed == "replace":
        return [*(_about(one, "cancel", "the spec has changed since (changed: replace)") for one in old), own_step]
    if own_step.action == "launch" and policies.changed == "wait":
        reason = f"the spec has changed while {_jobs(old)} is active; launched once that has ended (changed: wait)"
        return [Step("wait", spec.name, spec.key, reason, spec.file)]
    kept = [_about(one, "keep", f"the spec has changed since; it may end by itself (changed: {policies.changed})")
            for one in old]  # fmt: skip
    return [*kept, own_step]


def _own(spec: Wanted, own: Found | None, policies: Policies) -> Step:
    """The step of the spec as it stands now, its earlier contents aside."""
    if own is None:
        return Step("launch", spec.name, spec.key, "no launch of this content is there", spec.file)
    if own.state == "active":
        return _about(own, "adopt", own.message or "it is active", spec.file)
    if own.state == "succeeded":
        return _about(own, "unchanged", f"has succeeded: {own.message}" if own.message else "has succeeded", spec.file)
    if own.state == "unknown":
        return _about(
            own, "launch", "its submission was interrupted; the launch finds the job or repeats it", spec.file
        )
    again = policies.relaunch == "on_failure" and own.generation < policies.max_failures
    if again:
        reason = f"generation {own.generation} of at most {policies.max_failures} has failed: {own.message}"
        return _about(own, "launch", reason, spec.file)
    limit = "" if policies.relaunch == "never" else f" {own.generation} times"
    reason = f"has failed{limit}: {own.message}. Change the spec or its code, or launch it again by hand"
    return _about(own, "failed", reason, spec.file)


def _about(one: Found, action: str, reason: str, file: str = "") -> Step:
    return Step(action, one.name, one.key, reason, file, one.generation, one.job_id, one.run_dir, one.ours)


def _jobs(found: Sequence[Found]) -> str:
    return ("job " if len(found) == 1 else "one of the jobs ") + ", ".join(one.job_id or "(unknown)" for one in found)
