# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a reconciliation: each case by name, and what must hold in every one."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import (
    CHANGED,
    RELAUNCH,
    REMOVED,
    Found,
    Policies,
    Step,
    Wanted,
    changes,
    make_plan,
)

SPEC = Wanted("gpt", "key-2", "gpt.yml")


def found(key: str = "key-2", state: str = "active", ours: bool = True, **more: object) -> Found:
    job_id = None if state == "unknown" else f"7{key[-1]}"
    base = Found(
        "gpt", key, 1, state, f"/runs/gpt/{key}/1", job_id, {"active": "running on node01"}.get(state, "why"), ours
    )
    return replace(base, **more)  # type: ignore[arg-type]


def plan(*there: Found, wanted: tuple[Wanted, ...] = (SPEC,), **policies: object) -> list[tuple[str, str]]:
    steps = make_plan(wanted, there, Policies(**policies))  # type: ignore[arg-type]
    return [(step.action, step.key) for step in steps]


def reason(*there: Found, **policies: object) -> str:
    return make_plan([SPEC], there, Policies(**policies))[-1].reason  # type: ignore[arg-type]


def test_each_standing_of_a_spec_has_its_step() -> None:
    assert plan() == [("launch", "key-2")]
    assert plan(found()) == [("adopt", "key-2")]
    assert plan(found(ours=False)) == [("adopt", "key-2")], "launched by hand, and what the spec asks for"
    assert plan(found(state="succeeded")) == [("unchanged", "key-2")]
    assert plan(found(state="unknown")) == [("launch", "key-2")], "the launch settles what became of it"
    assert plan(found(state="failed")) == [("failed", "key-2")]
    assert "Change the spec or its code" in reason(found(state="failed"))
    assert reason(found()) == "running on node01"


def test_a_failed_launch_is_repeated_by_policy_and_not_for_ever() -> None:
    again = {"relaunch": "on_failure", "max_failures": 2}
    assert plan(found(state="failed"), **again) == [("launch", "key-2")]
    assert "generation 1 of at most 2 has failed: why" in reason(found(state="failed"), **again)
    assert plan(found(state="failed", generation=2), **again) == [("failed", "key-2")]
    assert "has failed 2 times: why" in reason(found(state="failed", generation=2), **again)


def test_a_spec_that_changed_under_a_running_job() -> None:
    old = found("key-1")
    assert plan(old, changed="wait") == [("wait", "key-2")]
    assert "job 71 is active" in reason(old, changed="wait")
    assert plan(old, changed="replace") == [("cancel", "key-1"), ("launch", "key-2")]
    assert plan(old, changed="keep") == [("keep", "key-1"), ("launch", "key-2")]
    # The change was taken back: what is wanted has succeeded long ago.
    assert plan(old, found(state="succeeded"), changed="wait") == [("keep", "key-1"), ("unchanged", "key-2")]
    assert plan(old, found(state="succeeded"), changed="replace") == [("cancel", "key-1"), ("unchanged", "key-2")]


def test_what_ended_under_another_content_is_no_drift() -> None:
    assert plan(found("key-1", "succeeded"), found("key-0", "failed")) == [("launch", "key-2")]


def test_a_launch_by_hand_under_the_same_name_is_left_alone() -> None:
    by_hand = found("key-1", ours=False)
    for changed in CHANGED:
        assert plan(by_hand, changed=changed) == [("launch", "key-2")]
    assert "job 71 of the same name is not of this set and is left alone" in reason(by_hand)


def test_a_spec_that_is_gone() -> None:
    assert plan(found(), wanted=(), removed="cancel") == [("cancel", "key-2")]
    assert plan(found(), wanted=(), removed="keep") == [("keep", "key-2")]
    assert plan(found(ours=False), wanted=(), removed="cancel") == []
    assert plan(found(state="succeeded"), found("key-1", "failed"), wanted=(), removed="cancel") == []


STATES = ("active", "succeeded", "failed", "unknown")


def scene(seed: int) -> tuple[list[Wanted], list[Found]]:
    """Some specs, and some launches under their names, of their keys and of others."""
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    wanted = [Wanted(name, f"{name}-{chance.randrange(3)}", f"{name}.yml") for name in names if chance.random() < 0.7]
    there = [
        Found(
            name,
            f"{name}-{number}",
            chance.randrange(1, 5),
            chance.choice(STATES),
            f"/runs/{name}/{number}",
            f"{name}{number}",
            "",
            chance.random() < 0.7,
        )
        for name in names
        for number in range(3)
        if chance.random() < 0.5
    ]
    return wanted, there


def carried_out(steps: list[Step], there: list[Found]) -> list[Found]:
    """The cluster after the plan: cancelled launches have failed, new ones are active."""
    state = {(one.name, one.key): one for one in there}
    for step in steps:
        at = (step.name, step.key)
        if step.action == "cancel":
            state[at] = replace(state[at], state="failed")
        elif step.action == "launch":
            generation = state[at].generation + 1 if at in state else 1
            state[at] = Found(step.name, step.key, generation, "active", f"/new/{at}", "new", "", True)
        elif step.action == "adopt":
            state[at] = replace(state[at], ours=True)
    return list(state.values())


@pytest.mark.parametrize("removed,changed,relaunch", list(itertools.product(REMOVED, CHANGED, RELAUNCH)))
def test_what_holds_in_every_plan(removed: str, changed: str, relaunch: str) -> None:
    for seed in range(60):
        holds(*scene(seed), Policies(removed, changed, relaunch))


def holds(wanted: list[Wanted], there: list[Found], policies: Policies) -> None:
    steps = make_plan(wanted, there, policies)
    keys = {one.name: one.key for one in wanted}
    at = {(one.name, one.key): one for one in there}
    for name, key in keys.items():
        own = [step.action for step in steps if (step.name, step.key) == (name, key)]
        assert len(own) == 1 and own[0] in ("launch", "adopt", "unchanged", "failed", "wait"), "one answer for a spec"
    for step in steps:
        assert step.reason
        if step.action == "cancel":
            one = at[step.name, step.key]
            assert one.ours and one.state == "active" and keys.get(step.name) != step.key
            assert (policies.removed == "cancel") if step.name not in keys else (policies.changed == "replace")
        if step.action == "launch":
            assert at.get((step.name, step.key), SPEC) is SPEC or at[step.name, step.key].state in ("failed", "unknown")
    # Once it is done there is nothing left to do.
    after = make_plan(wanted, carried_out(steps, there), policies)
    assert not changes(after), after
    # The order in which things were found does not matter.
    assert make_plan(list(reversed(wanted)), list(reversed(there)), policies) == steps
