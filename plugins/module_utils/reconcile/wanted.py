# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare wanted and existing launches, and decide about a single launch: a job, or an element of a sweep. Pure.

A launch is identified by name and key. The predecessors of a spec are part of its key, so an existing launch followed
the current predecessors. A predecessor may have been launched again since, however. A job that never began has then
waited in vain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import MISSING
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import (
    ACTIVE,
    FAILED,
    RUNNING,
    SUCCEEDED,
    UNSUBMITTED,
    WAITING,
    Standing,
)

_OF_ELEMENTS = (SUCCEEDED, RUNNING, WAITING, FAILED, UNSUBMITTED)

# The options of module `reconcile` and of its action.
ARGUMENTS: dict[str, Any] = {
    # options of reconcile: written by make reference
    "jobs": {"type": "path", "required": True},
    "cluster": {"type": "dict", "default": {}},
    "set": {"type": "str"},
    "removed": {"type": "str", "choices": ["keep", "cancel"], "default": "keep"},
    "changed": {"type": "str", "choices": ["wait", "replace", "keep"], "default": "wait"},
    "relaunch": {"type": "str", "choices": ["never", "on_failure"], "default": "never"},
    "max_failures": {"type": "int", "default": 3},
    # end of options
    **MISSING,
}


@dataclass(frozen=True)
class DeclaredLaunch:
    """One spec of the folder: its name, the first 16 digits of its key, and its file.

    `elements`: for a sweep, the keys of its launches in order. `after`: the names of its predecessors. `recorded`:
    whether the cluster has the list of the sweep's elements.
    """

    name: str
    key: str
    file: str
    elements: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    recorded: bool = True


@dataclass(frozen=True)
class Found:
    """The newest generation with one name and key.

    `standing`: never unknown: what may run counts as running. `ours`: a reconciliation of this
    folder created or adopted it, as an element of the sweep `sweep` if that is set. `begun`: its job has begun.
    `since`: its newest submission, in epoch seconds. `gone`: an earlier plan has said that its spec is gone.
    """

    name: str
    key: str
    generation: int
    standing: Standing
    run_dir: str
    job_id: str | None = None
    message: str = ""
    ours: bool = False
    sweep: str = ""
    begun: bool = True
    since: float = 0.0
    gone: bool = False


@dataclass(frozen=True)
class Policies:
    """The policies of a reconciliation.

    `removed`: for a spec that is gone while its job is active. `changed`: for a spec that has another key now.
    `relaunch`: for a failed launch, with at most `max_failures` generations of one key.
    """

    removed: str = "keep"
    changed: str = "wait"
    relaunch: str = "never"
    max_failures: int = 3


@dataclass(frozen=True)
class Before:
    """The predecessors of a launch.

    `hinders`: why the launch must wait, in words. `anew`: the predecessors that this plan launches. `since`: when the
    newest of them was submitted, in epoch seconds.
    """

    hinders: str = ""
    anew: tuple[str, ...] = ()
    since: float = 0.0


@dataclass(frozen=True)
class Judged:
    """The action for one launch, and its reason. `anew`: its job has waited for a launch that is over."""

    action: str
    reason: str
    anew: bool = False


def judged(own: Found | None, before: Before, policies: Policies) -> Judged:
    """Decide about one launch: launch, adopt, unchanged, failed or wait. Launches of earlier content are not
    considered.
    """
    if own is not None and own.standing == SUCCEEDED:
        return Judged("unchanged", f"has succeeded: {own.message}" if own.message else "has succeeded")
    if own is not None and own.standing in ACTIVE:
        if own.begun or not before.anew or before.hinders:
            return Judged("adopt", own.message or "it is active")
        return Judged(
            "launch", f"job {own.job_id} waits for an earlier launch of {' and '.join(before.anew)}", anew=True
        )
    verdict = _not_there(own, before, policies)
    if before.hinders and (verdict.action == "launch" or (own is not None and not own.begun)):
        return Judged("wait", before.hinders)
    return verdict


def _not_there(own: Found | None, before: Before, policies: Policies) -> Judged:
    if own is None:
        return Judged("launch", "no launch of this content is there")
    if own.standing == UNSUBMITTED:
        return Judged("launch", "its submission was interrupted; the launch finds the job or repeats it")
    if not own.begun and (before.anew or before.since > own.since):
        # Slurm ended the job before its program ran, so the relaunch policy does not apply.
        return Judged("launch", "it ended before it began, and its predecessor was launched again since", anew=True)
    if policies.relaunch == "on_failure" and own.generation < policies.max_failures:
        most = policies.max_failures
        return Judged("launch", f"generation {own.generation} of at most {most} has failed: {own.message}")
    limit = "" if policies.relaunch == "never" else f" {own.generation} times"
    return Judged(
        "failed", f"has failed{limit}: {own.message}. Change the spec or its code, or launch it again by hand"
    )


def counted(standings: Iterable[Standing]) -> dict[str, int]:
    """Return how many elements of a sweep have which standing, also where it is none."""
    return {**dict.fromkeys(_OF_ELEMENTS, 0), **Counter(standings)}


def tally(counts: Mapping[str, int]) -> str:
    """Return the standings of a sweep's elements in words."""
    rest = [f"{count} {standing}" for standing, count in counts.items() if count and standing != SUCCEEDED]
    return ", ".join([f"{counts[SUCCEEDED]} of {sum(counts.values())} elements succeeded", *rest])
