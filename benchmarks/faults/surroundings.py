# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults around a submission: Slurm does not answer or loses state, or something happens to the job or its folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.faults.ground import Broken, Case, Ground, Verdict
from benchmarks.faults.rows import (
    GONE_SECONDS,
    HELD,
    SUBMITS_THEN_DIES,
    duplicate,
    expect,
    fault,
)

#: See `_slurm_failed`.
REQUEUE_TRIES = 4

# --- Slurm does not answer, or loses state


@contextmanager
def without(ground: Ground, daemon: str, *, crash: bool = False) -> Iterator[None]:
    """Run without a daemon of the lab."""
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
        # The job may have ended before; its own outcome is then sufficient.
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
    """Crash slurmctld, which may lose the job and give its number to the next one."""
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


@fault(
    "slurmctld forgets a job that accounting lists for ever",
    alone=True,
    fits=lambda ground: ground.lab.accounting == "slurmdbd",
)
def controller_forgets(ground: Ground, number: int, of: int) -> Verdict:
    """Slurmctld dies before it has saved a job that it accepted: it starts with its state from before the launch."""
    case = ground.case("forgets", resources=HELD)
    state, before = ground.lab.path("state"), str(ground.code.parent / f"state-{case.name}")
    with without(ground, "slurmctld"):
        subprocess.run(["cp", "-a", state, before], check=True)
    job = str(case.launch().result["job_id"])
    listed = ["sacct", "--noheader", "--parsable2", "--allocations", "--format=State", f"--jobs={job}"]
    case.wait_until(lambda: "PENDING" in ground.slurm(*listed), "accounting lists it")
    with without(ground, "slurmctld", crash=True):
        shutil.rmtree(state)
        subprocess.run(["cp", "-a", before, state], check=True)
    expect(job not in case.jobs() and "PENDING" in ground.slurm(*listed), "forgotten, and listed")
    with releasing(ground, case):
        return case.settle()


@contextmanager
def releasing(ground: Ground, case: Case) -> Iterator[None]:
    """Release every held job of a launch, from now on."""
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
    case.wait_until(lambda: case.outcome().get("success"), "it has ended")
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
    case.wait_until(lambda: case.outcome().get("success") and not case.jobs(), "Slurm has forgotten it")
    return case.settle()


@fault("the job's number belongs to another job by now")
def number_reused(ground: Ground, number: int, of: int) -> Verdict:
    """As after months: the job id in the journal belongs to a running job of somebody else."""
    case = ground.case("reused", resources=HELD)
    job = str(case.launch().result["job_id"])
    ground.slurm("scancel", job)
    case.wait_until(lambda: case.jobs()[job] == "CANCELLED", "it is cancelled")
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
    for _try in range(REQUEUE_TRIES):
        case, job = _requeued(ground)
        if not _slurm_failed(case, job):
            expect(case.started(1) == job, "the next attempt is the original's")
            return case.settle()
        expect(case.settle().proven, "the next launch is proven")
    raise Broken(f"Slurm failed to start the second attempt {REQUEUE_TRIES} times")


def _requeued(ground: Ground) -> tuple[Case, str]:
    """A launch whose job was requeued while a duplicate of it exists, and has started again or failed; and the job."""
    case = ground.case("requeued", hold=True, checkpoint={"signal_before_end": 60, "requeue": True})
    case.launch()
    job = case.started()
    duplicate(ground, case)
    ground.slurm("scontrol", "requeue", job)
    expect(case.recover().state == "adopted", "still the launch")
    case.wait_until(lambda: f"{job}.1" in case.ran() or _slurm_failed(case, job), "the next attempt")
    return case, job


def _slurm_failed(case: Case, job: str) -> bool:
    """Whether Slurm itself failed to start a requeued job, before its script ran.

    Slurm 22.05 does so if another job has started on the node within two seconds: slurmd mistakes the job for a known
    one and skips the prolog, so the job's private /tmp (job_container/tmpfs) is missing. See _clear_expired_job_states
    in its slurm_cred.c.
    """
    if case.jobs().get(job) != "FAILED":
        return False
    log = case.run_dir() / "logs" / f"job.{job}.log"
    return "container_g_join failed" in log.read_text(encoding="utf-8", errors="replace")


@fault("the run directory is removed while the job waits")
def purged(ground: Ground, number: int, of: int) -> Verdict:
    case = ground.case("purged", resources=HELD)
    job = str(case.launch().result["job_id"])
    ground.on("head", "rm", "-rf", f"{ground.inside}/{case.run_dir().relative_to(ground.outside)}")
    case.launch()
    with releasing(ground, case):
        case.wait_until(lambda: case.jobs()[job] not in ("PENDING", "RUNNING"), "the first one has ended")
        return case.settle()


@fault("the answer to link() is lost", fits=lambda ground: ground.lab.realistic)
def link_reply_lost(ground: Ground, number: int, of: int) -> Verdict:
    """Every link() of a claim succeeds but reports a failure, as on a network file system. See `linking_badly`."""
    case = ground.case("lost-link", hold=True)
    case.launch()
    duplicate(ground, case)
    verdict = case.settle()
    expect((case.run_dir() / "logs" / "link-lost").exists(), "a link() whose answer was lost")
    return verdict


# Runs the conductor as `python3 -I -S conduct.py ...` would, but os.link() fails after it has linked a claim.
_LINKS_BADLY = """
import os, runpy, sys
link = os.link
def link_badly(source, target, **how):
    link(source, target, **how)
    if os.path.basename(target) == "claim":
        open(os.path.join(os.path.dirname(target), "logs", "link-lost"), "w").close()
        raise OSError(116, "Stale file handle")
os.link = link_badly
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_PYTHON_SHIM = """#!/bin/sh
case "$RANKZERO_RUN_DIR $3" in
*/runs/lost-link-*/conduct.py) exec /usr/bin/python3 -I -S /usr/local/lib/links_badly.py "$@" ;;
esac
exec /usr/bin/python3 "$@"
"""


@contextmanager
def linking_badly(ground: Ground) -> Iterator[None]:
    """On every node, make the result of link() unreliable for the conductor of launches named lost-link."""
    nodes = ground.lab.node_names if ground.lab.realistic else []
    program, shim = "/usr/local/lib/links_badly.py", "/usr/local/bin/python3"
    for node in nodes:
        write = f"printf %s {_quoted(_LINKS_BADLY)} > {program} && printf %s {_quoted(_PYTHON_SHIM)} > {shim}"
        ground.root_on(node, f"{write} && chmod 755 {shim}")
    try:
        yield
    finally:
        for node in nodes:
            ground.root_on(node, f"rm -f {shim} {program}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
