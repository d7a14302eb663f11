# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a submission: its process is killed, others submit at the same time, or sbatch reports something wrong."""

from __future__ import annotations

from benchmarks.faults.ground import Ground, Verdict
from benchmarks.faults.rows import (
    REFUSED,
    SUBMITS_THEN_DIES,
    TIMED_OUT,
    duplicate,
    expect,
    fault,
    hosts,
)

# --- the controller is killed


def _killed_at(ground: Ground, kind: str, number: int, of: int) -> Verdict:
    """Kill at operations or lines spread over a submission; at every one if there are enough runs."""
    if kind not in STEPS:
        # The first launch of a lab does more look-ups than later ones.
        for _launch in range(2):
            case = ground.case("steps")
            STEPS.update(case.launch().counts)
            case.settle()
    steps = STEPS[kind]
    at = 1 + (number * steps) // max(of, 1) if of < steps else 1 + number % steps
    case = ground.case(f"killed-{kind}")
    reply = case.launch(kill=kind, at=at)
    expect(reply.killed or at > steps - 3, f"killed at {kind} {at} of {steps}: {reply}")
    return case.settle()


STEPS: dict[str, int] = {}


@fault("killed before an operation of the submission")
def killed_at_an_operation(ground: Ground, number: int, of: int) -> Verdict:
    return _killed_at(ground, "operation", number, of)


@fault("killed at a line of the submission")
def killed_at_a_line(ground: Ground, number: int, of: int) -> Verdict:
    return _killed_at(ground, "line", number, of)


@fault("killed when sbatch begins")
def killed_before_sbatch(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("before-sbatch")
    expect(case.launch(path=ground.fake("sbatch", 'kill -9 "$PPID"')).killed, "killed")
    return case.settle()


@fault("killed before sbatch's answer is recorded")
def killed_after_sbatch(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("after-sbatch")
    expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
    return case.settle()


@fault("killed, and sbatch submits two seconds later")
def killed_during_sbatch(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("during-sbatch")
    mark = f"{ground.inside}/ran/{case.name}/late"
    late = ground.fake("sbatch", f'kill -9 "$PPID"; sleep 2; "$real" "$@" > /dev/null 2>&1; : > {mark}')
    expect(case.launch(path=late).killed, "killed")
    # Within these two seconds it submits again; after them, it finds the late submission.
    case.recover()
    ground.wait_until((case.ledger / "late").exists, "the late submission is there")
    return case.settle()


@fault("killed before sbatch on one host, launched again from another", slow=True)
def killed_on_another_host(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("another-host")
    killed = case.launch(hosts(ground)[-1], path=ground.fake("sbatch", 'kill -9 "$PPID"'))
    expect(killed.killed, "killed")
    return case.settle()


@fault("killed, and a half line is left in the journal")
def torn_journal(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("torn")
    expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
    with open(case.run_dir() / "journal.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"event": "submitted", "job_i')
    return case.settle()


# --- several at once


@fault("three launches at once, from three hosts")
def at_once(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("at-once")
    case.launch_together(hosts(ground))
    return case.settle()


@fault("three launches at once after a kill before sbatch")
def at_once_after_a_kill(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("at-once-again")
    expect(case.launch(path=ground.fake("sbatch", 'kill -9 "$PPID"')).killed, "killed")
    case.launch_together(["head"] * 3)
    return case.settle()


@fault("three launches at once after a refusal")
def at_once_after_a_refusal(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("at-once-anew")
    expect("refused" in str(case.launch(path=ground.fake("sbatch", REFUSED)).result.get("msg")), "refused")
    case.launch_together(hosts(ground))
    return case.settle()


# --- sbatch reports something wrong


@fault("sbatch submits, then reports a time-out")
def times_out_after(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("lies")
    expect(case.launch(path=ground.fake("sbatch", f'"$real" "$@" > /dev/null; {TIMED_OUT}')).settled, "found")
    return case.settle()


@fault("sbatch reports a time-out and has not submitted")
def times_out_before(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("silent")
    reply = case.launch(path=ground.fake("sbatch", TIMED_OUT))
    expect(reply.result.get("kind") == "SlurmUnavailable", reply)
    return case.settle()


@fault("sbatch submits, and a wrapper swallows the id")
def swallows_the_id(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("swallows")
    expect(case.launch(path=ground.fake("sbatch", '"$real" "$@" > /dev/null; echo "Welcome"')).settled, "found")
    return case.settle()


@fault("sbatch refuses")
def refuses(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("refuses")
    expect(case.launch(path=ground.fake("sbatch", REFUSED)).result.get("kind") == "SlurmError", "refused")
    return case.settle()


@fault("submitted twice by hand, as by a blind retry")
def blind_retry(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("twice", hold=True)
    case.launch()
    duplicate(ground, case)
    return case.settle()
