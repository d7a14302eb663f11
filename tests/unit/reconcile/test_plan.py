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
    ActiveElement,
    Step,
    changes,
    make_plan,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import (
    ARGUMENTS,
    DeclaredLaunch,
    Found,
    Policies,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE, Standing

SPEC = DeclaredLaunch("gpt", "key-2", "gpt.yml")


def found(key: str = "key-2", standing: Standing = "running", ours: bool = True, **more: object) -> Found:
    job_id = None if standing == "unsubmitted" else f"7{key[-1]}"
    base = Found(
        "gpt",
        key,
        1,
        standing,
        f"/runs/gpt/{key}/1",
        job_id,
        {"running": "running on node01"}.get(standing, "why"),
        ours,
    )
    return replace(base, **more)  # type: ignore[arg-type]


def plan(*there: Found, wanted: tuple[DeclaredLaunch, ...] = (SPEC,), **policies: object) -> list[tuple[str, str]]:
    steps = make_plan(wanted, there, Policies(**policies))  # type: ignore[arg-type]
    return [(step.action, step.key) for step in steps]


def reason(*there: Found, **policies: object) -> str:
    return make_plan([SPEC], there, Policies(**policies))[-1].reason  # type: ignore[arg-type]


def test_each_standing_of_a_spec_has_its_step() -> None:
    assert plan() == [("launch", "key-2")]
    assert plan(found()) == [("adopt", "key-2")]
    assert plan(found(ours=False)) == [("adopt", "key-2")], "launched by hand, and what the spec asks for"
    assert plan(found(standing="succeeded")) == [("unchanged", "key-2")]
    assert plan(found(standing="unsubmitted")) == [("launch", "key-2")], "the launch settles what became of it"
    assert plan(found(standing="failed")) == [("failed", "key-2")]
    assert "Change the spec or its code" in reason(found(standing="failed"))
    assert reason(found()) == "running on node01"


def test_a_failed_launch_is_repeated_by_policy_and_not_for_ever() -> None:
    again = {"relaunch": "on_failure", "max_failures": 2}
    assert plan(found(standing="failed"), **again) == [("launch", "key-2")]
    assert "generation 1 of at most 2 has failed: why" in reason(found(standing="failed"), **again)
    assert plan(found(standing="failed", generation=2), **again) == [("failed", "key-2")]
    assert "has failed 2 times: why" in reason(found(standing="failed", generation=2), **again)


def test_a_spec_that_changed_under_a_running_job() -> None:
    old = found("key-1")
    assert plan(old, changed="wait") == [("wait", "key-2")]
    assert "job 71 is active" in reason(old, changed="wait")
    assert plan(old, changed="replace") == [("cancel", "key-1"), ("launch", "key-2")]
    assert plan(old, changed="keep") == [("keep", "key-1"), ("launch", "key-2")]
    # The change was taken back: what is wanted has succeeded long ago.
    assert plan(old, found(standing="succeeded"), changed="wait") == [("keep", "key-1"), ("unchanged", "key-2")]
    assert plan(old, found(standing="succeeded"), changed="replace") == [("cancel", "key-1"), ("unchanged", "key-2")]


def test_what_ended_under_another_content_is_no_drift() -> None:
    assert plan(found("key-1", "succeeded"), found("key-0", "failed")) == [("launch", "key-2")]


def test_a_launch_by_hand_under_the_same_name_is_left_alone() -> None:
    by_hand = found("key-1", ours=False)
    for changed in ARGUMENTS["changed"]["choices"]:
        assert plan(by_hand, changed=changed) == [("launch", "key-2")]
    assert "job 71 of the same name is not of this set and is left alone" in reason(by_hand)


def test_a_spec_that_is_gone() -> None:
    assert plan(found(), wanted=(), removed="cancel") == [("cancel", "key-2")]
    assert plan(found(), wanted=(), removed="keep") == [("keep", "key-2")]
    assert plan(found(ours=False), wanted=(), removed="cancel") == []


def test_a_spec_that_is_gone_leaves_one_line_until_that_was_carried_out() -> None:
    ended = found("key-1", "failed"), found(standing="succeeded")
    for removed in ("keep", "cancel"):
        assert plan(*ended, wanted=(), removed=removed) == [("gone", "key-2")]
        assert plan(*(replace(launch, gone=True) for launch in ended), wanted=(), removed=removed) == []
    assert plan(found(standing="succeeded", ours=False), wanted=()) == [], "launched by hand"
    assert plan(found("key-1", "failed"), found(), wanted=()) == [("keep", "key-2")], "the line of what is active"
    assert not changes(make_plan([], ended, Policies()))


GRID = DeclaredLaunch("lr", "sweep-2", "lr.yml", ("e0", "e1", "e2", "e3"))


def element(key: str, standing: Standing, **more: object) -> Found:
    job_id = None if standing == "unsubmitted" else f"5_{key[-1]}"
    base = Found("lr", key, 1, standing, f"/runs/lr/{key}/1", job_id, "so it ended", True, "sweep-2")
    return replace(base, **more)  # type: ignore[arg-type]


def grid(*there: Found, spec: DeclaredLaunch = GRID, **policies: object) -> list[Step]:
    return make_plan([spec], there, Policies(**policies))  # type: ignore[arg-type]


def test_a_sweep_is_one_line_with_its_counts() -> None:
    (fresh,) = grid()
    assert (fresh.action, fresh.kind, fresh.submits) == ("launch", "sweep", GRID.elements)
    assert fresh.reason == "0 of 4 elements succeeded, 4 unsubmitted"
    some = [element("e0", "succeeded"), element("e1", "running"), element("e2", "failed")]
    (step,) = grid(*some)
    assert (step.action, step.submits) == ("launch", ("e3",)), "what has failed stays so by default"
    assert step.counts == {"succeeded": 1, "running": 1, "waiting": 0, "failed": 1, "unsubmitted": 1}
    assert step.reason == "1 of 4 elements succeeded, 1 running, 1 failed, 1 unsubmitted"
    assert step.elements == (ActiveElement("e1", "5_1", "/runs/lr/e1/1"),) and step.job_id == "5"
    (step,) = grid(*some, relaunch="on_failure")
    assert step.submits == ("e2", "e3")
    assert step.reason.endswith("; element 2: generation 1 of at most 3 has failed: so it ended")
    (step,) = grid(*some, element("e3", "unsubmitted"))
    assert step.submits == ("e3",) and step.counts["unsubmitted"] == 1


def test_a_sweep_that_needs_nothing() -> None:
    proven = [element(key, "succeeded") for key in GRID.elements]
    assert [step.action for step in grid(*proven)] == ["unchanged"]
    (step,) = grid(*proven[:3], element("e3", "running", ours=False))
    assert (step.action, step.ours) == ("adopt", False), "launched by hand, and what the spec asks for"
    (step,) = grid(*proven[:3], element("e3", "failed", generation=3), relaunch="on_failure")
    assert step.action == "failed" and "element 3: has failed 3 times: so it ended" in step.reason


def test_a_grid_that_has_grown_is_no_drift_and_one_that_has_shrunk_is() -> None:
    there = [element(key, "running", sweep="sweep-1") for key in ("e0", "e1", "e9", "e8")]
    wider = replace(GRID, elements=("e0", "e1", "e8", "e9", "e5"))
    (step,) = grid(*there, spec=wider)
    assert (step.action, step.submits) == ("launch", ("e5",))
    narrow = replace(GRID, elements=("e0", "e1"))
    assert [(step.action, step.key) for step in grid(*there, spec=narrow, changed="wait")] == [
        ("keep", "sweep-1"),
        ("adopt", "sweep-2"),
    ]
    gone, own = grid(*there, spec=narrow, changed="replace")
    assert (gone.action, gone.key, gone.kind, gone.file) == ("cancel", "sweep-1", "sweep", "")
    assert gone.reason == "2 active elements: the spec has changed since (changed: replace)"
    assert [one.job_id for one in gone.elements] == ["5_8", "5_9"] and own.action == "adopt"
    # New elements beside old ones that are active are a change like any other.
    moved = replace(GRID, elements=("e0", "e4"))
    assert [step.action for step in grid(*there, spec=moved, changed="wait")] == ["wait"]


def test_a_sweep_whose_spec_is_gone() -> None:
    there = [element("e0", "running"), element("e1", "running"), element("e2", "succeeded")]
    (step,) = make_plan([], there, Policies(removed="cancel"))
    assert (step.action, step.name, step.key, len(step.elements)) == ("cancel", "lr", "sweep-2", 2)
    (step,) = make_plan([], there[:1], Policies(removed="keep"))
    assert step.reason == "1 active element: its spec is gone; it may end by itself (removed: keep)"


FIRST = DeclaredLaunch("tokens", "key-1", "tokens.yml")
NEXT = DeclaredLaunch("gpt", "key-2", "gpt.yml", after=("tokens",))


def tokens(standing: Standing, **more: object) -> Found:
    base = Found("tokens", "key-1", 1, standing, "/runs/tokens/key-1/1", "61", "why", True, since=10.0)
    return replace(base, **more)  # type: ignore[arg-type]


def follows(*there: Found, wanted: tuple[DeclaredLaunch, ...] = (NEXT, FIRST), **policies: object) -> dict[str, Step]:
    return {step.name: step for step in make_plan(wanted, there, Policies(**policies))}  # type: ignore[arg-type]


def test_what_follows_is_launched_with_what_it_follows_and_not_after_what_has_failed() -> None:
    for before in ("running", "succeeded", "unsubmitted"):
        assert follows(tokens(before))["gpt"].action == "launch"
    assert {step.action for step in follows().values()} == {"launch"}
    hindered = follows(tokens("failed"))["gpt"]
    assert hindered.action == "wait"
    assert hindered.reason == "follows tokens, which has failed and is not launched again"
    assert {step.action for step in follows(tokens("failed"), relaunch="on_failure").values()} == {"launch"}
    # Its own end counts, not what became of the others since.
    assert follows(tokens("failed"), found(standing="succeeded"))["gpt"].action == "unchanged"
    assert follows(tokens("failed"), found(standing="failed"))["gpt"].action == "failed"
    drift = follows(tokens("running", key="key-0"))
    assert [drift["tokens"].action, drift["gpt"].action] == ["wait", "wait"]
    assert drift["gpt"].reason == "follows tokens, which is not launched yet"


def test_a_job_that_waited_in_vain_is_launched_again_without_asking_a_policy() -> None:
    never = found(standing="failed", begun=False, since=20.0)
    assert follows(tokens("failed"), never)["gpt"].action == "wait"
    assert follows(tokens("succeeded"), never)["gpt"].action == "failed", "somebody has cancelled it"
    step = follows(tokens("running", generation=2, since=30.0), never)["gpt"]
    assert (step.action, step.anew) == ("launch", True) and "ended before it began" in step.reason
    # While its job still waits for what is over, that is in the way.
    both = follows(tokens("failed"), found(begun=False), relaunch="on_failure")
    assert (both["gpt"].action, both["gpt"].anew) == ("launch", True)
    assert both["gpt"].reason == "job 72 waits for an earlier launch of tokens"
    assert follows(tokens("failed"), found(begun=True), relaunch="on_failure")["gpt"].action == "adopt"
    assert follows(tokens("running", since=30.0), found(begun=False))["gpt"].action == "adopt"


def test_what_follows_a_sweep_waits_for_every_element() -> None:
    last = replace(NEXT, after=("lr",))
    some = [element(key, "succeeded") for key in ("e0", "e1", "e2")]
    assert follows(*some, element("e3", "running"), wanted=(last, GRID))["gpt"].action == "launch"
    # One that has failed and stays so, beside others that are active or launched.
    for there in ([*some[:2], element("e2", "running"), element("e3", "failed")], [element("e0", "failed")]):
        assert follows(*there, wanted=(last, GRID))["gpt"].action == "wait"
    after_first = replace(GRID, after=("tokens",))
    plan = follows(tokens("failed"), element("e0", "succeeded"), wanted=(last, after_first, FIRST))
    assert [plan[name].action for name in ("tokens", "lr", "gpt")] == ["failed", "wait", "wait"]
    assert plan["lr"].reason == (
        "1 of 4 elements succeeded, 3 unsubmitted; follows tokens, which has failed and is not launched again"
    )


STANDINGS: tuple[Standing, ...] = ("waiting", "running", "succeeded", "failed", "unsubmitted")
FOLLOWS = {"c": ("a",), "d": ("b", "c")}
SWEEP_OF = "b"


def scene(seed: int) -> tuple[list[DeclaredLaunch], list[Found]]:
    """Some specs, and some launches under their names, of their keys and of others. One of the specs is a sweep."""
    chance = random.Random(seed)
    names = ["a", "b", "c", "d"]
    kept = [name for name in names if chance.random() < 0.7]
    wanted = []
    for name in kept:
        after = tuple(one for one in FOLLOWS.get(name, ()) if one in kept)
        elements = ("b-0", "b-1") if name == SWEEP_OF else ()
        key = "sweep" if elements else f"{name}-{chance.randrange(3)}"
        wanted.append(DeclaredLaunch(name, key, f"{name}.yml", elements, after))
    there = [
        Found(
            name,
            f"{name}-{number}",
            chance.randrange(1, 5),
            chance.choice(STANDINGS),
            f"/runs/{name}/{number}",
            f"{name}{number}",
            "",
            chance.random() < 0.7,
            "sweep" if name == SWEEP_OF and chance.random() < 0.7 else "",
            chance.random() < 0.7,
            chance.randrange(9),
        )
        for name in names
        for number in range(3)
        if chance.random() < 0.5
    ]
    return wanted, there


def touched(step: Step) -> list[str]:
    """The keys of the launches that a step is about."""
    if step.kind == "job":
        return [step.key]
    if step.action in ("launch", "wait"):
        return list(step.submits)
    return [one.key for one in step.elements]


def carried_out(steps: list[Step], there: list[Found]) -> list[Found]:
    """The cluster after the plan: cancelled launches have failed, new ones are active."""
    state = {(one.name, one.key): one for one in there}
    for step in steps:
        for at in [(step.name, key) for key in touched(step)]:
            if step.action == "cancel":
                state[at] = replace(state[at], standing="failed")
            elif step.action == "launch":
                generation = state[at].generation + 1 if at in state else 1
                sweep = step.key if step.kind == "sweep" else ""
                state[at] = Found(*at, generation, "running", f"/new/{at}", "new", "", True, sweep, False, 99.0)
            elif step.action == "adopt":
                state[at] = replace(state[at], ours=True)
    removed = {step.name for step in steps if step.action == "gone"}
    state = {at: replace(one, gone=True) if one.name in removed else one for at, one in state.items()}
    return list(state.values())


@pytest.mark.parametrize(
    "removed,changed,relaunch",
    list(itertools.product(*(ARGUMENTS[name]["choices"] for name in ("removed", "changed", "relaunch")))),
)
def test_what_holds_in_every_plan(removed: str, changed: str, relaunch: str) -> None:
    for seed in range(120):
        holds(*scene(seed), Policies(removed, changed, relaunch))


def holds(wanted: list[DeclaredLaunch], there: list[Found], policies: Policies) -> None:
    steps = make_plan(wanted, there, policies)
    specs = {one.name: one for one in wanted}
    keys = {one.name: one.elements or (one.key,) for one in wanted}
    at = {(one.name, one.key): one for one in there}
    own = {}
    for name, spec in specs.items():
        (own[name],) = [one for one in steps if one.file == spec.file]
        assert own[name].action in ("launch", "adopt", "unchanged", "failed", "wait"), "one answer for a spec"
    for step in steps:
        assert step.reason
        if step.action == "cancel":
            for one in [at[step.name, key] for key in touched(step)]:
                assert one.ours and one.standing in ACTIVE and one.key not in keys.get(step.name, ())
            assert (policies.removed == "cancel") if step.name not in keys else (policies.changed == "replace")
        if step.action == "launch":
            for one in [at[step.name, key] for key in touched(step) if (step.name, key) in at]:
                assert one.standing in ("failed", "unsubmitted") or (
                    step.anew and one.standing in ACTIVE and not one.begun
                )
            before = [own[name].action for name in specs[step.name].after]
            assert not set(before) & {"failed", "wait"}, "nothing is launched after what has failed"
    # Once it is done there is nothing left to do, but for what could not be told before: what else has failed.
    after = make_plan(wanted, carried_out(steps, there), policies)
    assert not changes(after), after
    told = {step.name for step in steps if step.action == "gone"}
    assert not told & {step.name for step in after}, "said once"
    # The order in which things were found does not matter.
    assert make_plan(list(reversed(wanted)), list(reversed(there)), policies) == steps
