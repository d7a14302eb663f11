# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults: each breaks one thing of a launch that is on its way, and leaves the rest to `Case.settle`.

A fault that stops a daemon of the lab is `alone`: nothing else may be under way. `slow` ones wait more than a minute.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.faults.ground import Broken, Case, Ground, Verdict

#: What Slurm prints when slurmctld took too long to answer.
TIMED_OUT = 'echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1'
REFUSED = 'echo "sbatch: error: Batch job submission failed: Requested node configuration is not available" >&2; exit 1'
SUBMITS_THEN_DIES = '"$real" "$@"; kill -9 "$PPID"'
HELD = {"sbatch": {"hold": True}}
GONE_SECONDS = 30


@dataclass(frozen=True)
class Fault:
    """One row of the matrix. `inject` gets the ground, and how many-th run of how many of this fault it is."""

    name: str
    inject: Callable[[Ground, int, int], Verdict]
    alone: bool = False
    slow: bool = False
    #: Whether a lab can have it.
    fits: Callable[[Ground], bool] = lambda _ground: True


FAULTS: list[Fault] = []


def fault(
    name: str, *, alone: bool = False, slow: bool = False, fits: Callable[[Ground], bool] = lambda _ground: True
) -> Callable[[Callable[[Ground, int, int], Verdict]], Callable[[Ground, int, int], Verdict]]:
    """Adds a function to the matrix."""

    def add(inject: Callable[[Ground, int, int], Verdict]) -> Callable[[Ground, int, int], Verdict]:
        FAULTS.append(Fault(name, inject, alone, slow, fits))
        return inject

    return add


def hosts(ground: Ground) -> list[str]:
    """Where a launch can be made from: the head, and nodes, which are hosts of their own where the lab has such."""
    return ["head", *ground.lab.node_names[:2]] if ground.lab.realistic else ["head"] * 3


def expect(condition: bool, what: object) -> None:
    if not condition:
        raise Broken(f"the fault did not come about: {what}")


# --- the controller is killed


def _killed_at(ground: Ground, kind: str, number: int, of: int) -> Verdict:
    """At the operations, or lines, of a submission, spread over all of them; every one where there are enough runs."""
    if kind not in STEPS:
        # The first launch of a lab finds out more than those that follow.
        for _launch in range(2):
            case = ground.case("steps")
            STEPS.update(case.launch().counts)
            case.settle()
    steps = STEPS[kind]
    at = 1 + (number * steps) // max(of, 1) if of < steps else 1 + number % steps
    case = ground.case(f"killed-{kind}")
    expect(case.launch(kill=kind, at=at).killed or at > steps - 3, f"killed at {kind} {at} of {steps}")
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
    # Within these two seconds it submits once more, after them it finds the late one.
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


# --- sbatch lies


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
    _duplicate(ground, case)
    return case.settle()


def _duplicate(ground: Ground, case: Case) -> str:
    script = f"{ground.inside}/{case.run_dir().relative_to(ground.outside)}/job.sbatch"
    return ground.slurm("sbatch", "--parsable", script, "--submission", "again").strip()


# --- Slurm is silent, or forgets


@contextmanager
def without(ground: Ground, daemon: str, *, crash: bool = False) -> Iterator[None]:
    """A daemon of the lab is gone."""
    (ground.switches.crash if crash else ground.switches.stop)(daemon)
    try:
        yield
    finally:
        ground.switches.start(daemon)


@fault("slurmctld is gone when the launch begins", alone=True)
def controller_gone(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("gone")
    with without(ground, "slurmctld"):
        expect(case.launch().result.get("kind") == "SlurmUnavailable", "silent")
    return case.settle()


@fault("slurmctld is gone after a kill before the record", alone=True)
def controller_gone_after_a_kill(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("gone-after")
    expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
    with without(ground, "slurmctld"):
        reply = case.launch()
        # The job may have ended before, and then its own word is enough.
        expect(reply.result.get("kind") == "SlurmUnavailable" or reply.state == "unchanged", reply)
    return case.settle()


@fault("slurmctld is gone for 30 s while sbatch waits for it", alone=True, slow=True)
def controller_gone_for_long(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("gone-long")
    mark = f"{ground.inside}/ran/{case.name}/sbatch"
    waits = ground.fake("sbatch", f': > {mark}; sleep 2; exec "$real" "$@"')
    thread = threading.Thread(target=lambda: case.launch(path=waits))
    thread.start()
    ground.wait_until((case.ledger / "sbatch").exists, "sbatch has begun")
    with without(ground, "slurmctld", crash=True):
        time.sleep(GONE_SECONDS)
    thread.join()
    return case.settle()


@fault("slurmctld crashes right after it has taken the job", alone=True)
def controller_crashes(ground: Ground, number: int, of: int) -> Verdict:
    """It may have forgotten the job then, and give its number to the next one."""
    case = ground.case("crashes", resources=HELD)
    case.launch()
    with without(ground, "slurmctld", crash=True):
        pass
    other = ground.slurm("sbatch", "--parsable", *_foreign(ground), "--hold", "--wrap=true").strip()
    try:
        with releasing(ground, case):
            return case.settle()
    finally:
        ground.on("head", "scancel", other)


@contextmanager
def releasing(ground: Ground, case: Case) -> Iterator[None]:
    """Lets go every job of a launch whose jobs are held, from now on."""
    stop = threading.Event()

    def release() -> None:
        while not stop.wait(0.5):
            held = [job for job, state in case.jobs().items() if state == "PENDING"]
            if held:
                ground.on("head", "scontrol", "release", *held)

    thread = threading.Thread(target=release)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _foreign(ground: Ground) -> list[str]:
    account = ground.resources.get("account")
    return ["--job-name=another", "--output=/dev/null", "--chdir=/tmp", "--time=5", "--mem=50M"] + (
        [f"--account={account}"] if account else []
    )


@fault("slurmdbd is gone", alone=True, fits=lambda ground: ground.lab.accounting == "slurmdbd")
def database_gone(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("no-database")
    with without(ground, "slurmdbd"):
        expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
        return case.settle()


@fault("squeue times out once after a kill")
def queue_times_out(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("no-queue", resources=HELD)
    expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
    silent = "echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2; exit 1"
    reply = case.launch(path=ground.fake("squeue", silent))
    expect(reply.result.get("kind") == "SlurmUnavailable", reply)
    (job,) = case.jobs()
    expect(case.recover().result["job_id"] == job, "adopted")
    ground.slurm("scontrol", "release", job)
    return case.settle()


@fault("the job's comment is rewritten after a kill")
def comment_rewritten(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("comment", resources=HELD)
    expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
    (job,) = case.jobs()
    ground.slurm("scontrol", "update", f"JobId={job}", "Comment=the site was here")
    expect(case.recover().result["job_id"] == job, "adopted")
    ground.slurm("scontrol", "release", job)
    return case.settle()


@fault("the job has ended before anyone looked")
def ended_unseen(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("unseen")
    expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
    ground.wait_until(lambda: case.outcome().get("success"), "it has ended")
    expect(case.recover().state == "unchanged", "known by its own word")
    return case.settle()


@fault(
    "the job has ended, and Slurm has forgotten it",
    slow=True,
    fits=lambda ground: ground.lab.accounting == "none" and bool(ground.lab.slurm_conf),
)
def forgotten(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("forgotten")
    expect(case.launch(path=ground.fake("sbatch", SUBMITS_THEN_DIES)).killed, "killed")
    ground.wait_until(lambda: case.outcome().get("success") and not case.jobs(), "Slurm has forgotten it")
    return case.settle()


@fault("the job's number belongs to another job by now")
def number_reused(ground: Ground, number: int, of: int) -> Verdict:
    """As after months: what the journal names is alive, and somebody else's."""
    case = ground.case("reused", resources=HELD)
    job = str(case.launch().result["job_id"])
    ground.slurm("scancel", job)
    ground.wait_until(lambda: case.jobs()[job] == "CANCELLED", "it is cancelled")
    other = ground.slurm("sbatch", "--parsable", *_foreign(ground), "--hold", "--wrap=true").strip()
    journal = case.run_dir() / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    changed = [{**line, "job_id": other} if line.get("job_id") == job else line for line in lines]
    journal.write_text("".join(json.dumps(line) + "\n" for line in changed), encoding="utf-8")
    with releasing(ground, case):
        verdict = case.settle()
    ground.slurm("scancel", other)
    return verdict


# --- the job


@fault("requeued while a duplicate waits")
def requeued_with_a_duplicate(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("requeued", hold=True, checkpoint={"signal_before_end": 60, "requeue": True})
    case.launch()
    job = case.started()
    _duplicate(ground, case)
    ground.slurm("scontrol", "requeue", job)
    expect(case.recover().state == "adopted", "still the launch")
    expect(case.started(1) == job, "the next attempt is the original's")
    return case.settle()


@fault("the run directory is removed while the job waits")
def purged(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("purged", resources=HELD)
    job = str(case.launch().result["job_id"])
    ground.on("head", "rm", "-rf", f"{ground.inside}/{case.run_dir().relative_to(ground.outside)}")
    case.launch()
    with releasing(ground, case):
        ground.wait_until(lambda: case.jobs()[job] not in ("PENDING", "RUNNING"), "the first one has ended")
        return case.settle()


@fault("the answer to link() is lost", fits=lambda ground: ground.lab.realistic)
def link_reply_lost(ground: Ground, number: int, of: int) -> Verdict:
    """Every `ln` of a claim that works says that it did not, as a network file system may. See `linking_badly`."""
    case = ground.case("lost-link", hold=True)
    case.launch()
    _duplicate(ground, case)
    return case.settle()


@contextmanager
def linking_badly(ground: Ground) -> Iterator[None]:
    """On every node, `ln` reports a failure for the claims of launches that are called lost-link."""
    text = '#!/bin/sh\ncase "$*" in */runs/lost-link-*/claim) /bin/ln "$@"; exit 1 ;; esac\nexec /bin/ln "$@"\n'
    nodes = ground.lab.node_names if ground.lab.realistic else []
    for node in nodes:
        ground.root_on(node, f"printf %s {_quoted(text)} > /usr/local/bin/ln && chmod 755 /usr/local/bin/ln")
    try:
        yield
    finally:
        for node in nodes:
            ground.root_on(node, "rm -f /usr/local/bin/ln")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
