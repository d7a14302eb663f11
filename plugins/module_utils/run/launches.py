# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches as the modules report them: the content of the run directory, combined with Slurm's answer. Changes nothing.

Success is the outcome that the newest attempt wrote; Slurm's state only explains it. Any source may fail to answer or
be gone. The report then contains what is known and names the source that did not answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmMissing
from ansible_collections.rankzero.slurm.plugins.module_utils.run import attempts, steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import SlurmAnswer, ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome, Started
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Attempt, LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import roles_of, summary
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import (
    Identity,
    escaped,
    identity,
    is_launch,
    state_root_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import (
    FAILED,
    SUCCEEDED,
    UNKNOWN,
    UNTRUSTED,
    WITHDRAWN,
    shown,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    SILENT,
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import drained, reasons, states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, expand_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import launch_id


def report(slurm: Slurm, run: RunDirectory, answer: SlurmAnswer) -> LaunchReport:
    """Return the report on one launch, as job_info and job_wait return it."""
    return described(slurm, answer.status(run), answer)


def described(slurm: Slurm, status: LaunchStatus, answer: SlurmAnswer) -> LaunchReport:
    """Return the report on a status, as job_info and job_wait return it. `answer`: the answer behind the status."""
    run, record, outcome, started = status.run, status.record, status.outcome, status.facts.started
    who = identity(run.path)
    state = slurm_state(status)
    begun, finished = _times(status)
    nodes = _nodes(slurm, record, started)
    lost = drained.of(slurm, record, verdict=outcome is not None)
    names = [node.node for node in lost]
    never_started = _never_started(status)
    message = _no_log(status, nodes) if never_started else _message(status, answer, names)
    hints = drained.sentences(lost, commands=status.over)
    newest = Attempt(
        attempt=status.attempt,
        job_id=status.job_id,
        slurm_state=state,
        started_at=begun,
        finished_at=finished,
        node_list=record.node_list if record is not None else None,
        nodes=nodes,
        exit_code=_exit_code(record, outcome),
        reason=str(outcome.get("message") or "") if outcome else _reason(record, names),
    )
    return LaunchReport(
        name=who.name,
        key=who.key,
        generation=who.generation,
        standing=status.standing,
        job_id=status.job_id,
        slurm_state=state,
        active=status.may_run,
        completed=status.over,
        success=status.standing == SUCCEEDED,
        never_started=never_started,
        exit_code=_exit_code(record, outcome),
        reason=_reason(record, names),
        reason_code=record.reason if record is not None else "",
        message=f"{message}; {hints}" if hints else message,
        drained=lost,
        nodes=nodes,
        attempt=status.attempt,
        attempts=[*attempts.earlier(status.attempt, status.facts.left, record), newest],
        started_at=begun,
        finished_at=finished,
        wall_time=None if begun is None or finished is None else max(0.0, finished - begun),
        outcome=outcome,
        run_dir=run.path,
        logs_dir=run.file("logs"),
        journal=status.facts.events,
        source=record.source if record else None,
        allocations=attempts.allocations(record),
    )


def untrusted(run: RunDirectory, why: str) -> LaunchReport:
    """Return the report on a launch that cannot be trusted. Names that no launch can have are escaped."""
    name, key, generation = run.path.split(os.sep)[-3:]
    path = run.path if is_launch(run.path) else escaped(run.path)
    who = Identity(escaped(name), escaped(key), int(generation))
    return LaunchReport(who.name, who.key, who.generation, UNTRUSTED, why, path, os.path.join(path, "logs"))


def slurm_state(status: LaunchStatus) -> str | None:
    """Return Slurm's state of the job; None if Slurm knows no job and there is no outcome."""
    record = status.record
    # Slurm shows a job as running for a moment after its launch has ended.
    if record is not None and not (status.over and (record.pending or record.state in states.RUNNING)):
        return record.state
    if status.job_id is None or status.outcome is None:
        return None
    # Slurm would have derived its state from the batch script's exit code.
    return "COMPLETED" if status.outcome.get("success") else "FAILED"


def standing_in_words(status: LaunchStatus) -> str:
    """Return the standing for a line about several launches."""
    return shown(status.standing, slurm_state(status))


def _never_started(status: LaunchStatus) -> bool:
    """Return whether Slurm ended the job because its first node could not open the job's log."""
    record, facts = status.record, status.facts
    left_nothing = status.outcome is None and facts.started is None and facts.run.claim() is None
    return left_nothing and record is not None and states.log_not_opened(record.state, record.signal)


def _no_log(status: LaunchStatus, nodes: Sequence[str]) -> str:
    """Return the outcome of a launch that never started as a sentence."""
    node, root = nodes[0] if nodes else "its first node", state_root_of(status.run.path)
    return (
        f"job {status.job_id} never started: {node} could not open the job's log below {root} (Slurm's exit code "
        "0:53). The nodes do not see that folder (launch_cluster.state_root), or this user may not write to it there"
    )


def _exit_code(record: JobRecord | None, outcome: Outcome | None) -> int | None:
    code = outcome.get("exit_code") if outcome is not None else None
    if code is not None:
        return code
    return record.exit_code if record is not None and record.final else None


def _reason(record: JobRecord | None, nodes: Sequence[str] = ()) -> str:
    if record is None:
        return ""
    if record.pending:
        return reasons.explain(record.reason).of_job(launch_id(record.job_id), nodes).sentence
    if record.final:
        return steps.describe_end(record)
    return ""


TRACELESS = (
    ". Nothing of it can be seen in {}, not even its log: its nodes have another folder of that name. Set "
    "launch_cluster.state_root to a folder on shared storage"
)


def traceless(run: RunDirectory, job_id: str | None, state: str | None) -> bool:
    """Return whether a job that ran left nothing in its run directory as this host sees it: no claim, start or log.

    Tasks of an array and steps have their logs elsewhere.
    """
    if job_id is None or not job_id.isdigit() or state not in ("COMPLETED", "FAILED"):
        return False
    return not (run.names("logs") or run.claim() or run.started() or run.outcome())


# The messages of a batch script that a signal ended (runtime/artifact/outcome.py, runtime/rank/step.py).
_SIGNALLED = ("ended by a signal (cancelled, time limit or preemption)", "cancelled")


def _message(status: LaunchStatus, answer: SlurmAnswer, nodes: Sequence[str]) -> str:
    """Return the outcome of the launch as a sentence. `nodes`: nodes that Slurm has drained."""
    record, outcome = status.record, status.outcome
    recorded = str(outcome.get("message") or "") if outcome else ""
    if status.standing == SUCCEEDED:
        return (recorded or "the artifact is proven") + _left_in_queue(record)
    if status.job_id is None and status.facts.refusal is not None:
        return f"Slurm refused the job: {status.facts.refusal}"
    if status.standing == WITHDRAWN:
        return status.message
    job = f"{'step' if steps.is_step(status.job_id) else 'job'} {status.job_id}"
    if outcome:
        end = _reason(record) if record is not None and record.final else ""
        if end and recorded in _SIGNALLED:
            return end  # Slurm knows which signal it was
        return "; ".join(filter(None, [recorded or "the job ended without success", end]))
    if answer.silent:
        return f"{answer.silent} The run directory contains no outcome."
    if status.job_id is None:
        return "an intent to submit is recorded, but no job id, and Slurm has no such job; the next launch resolves it"
    if record is None and answer.queue_only:
        return f"{job} left the queue, accounting does not answer, and the run directory contains no outcome"
    if record is None:
        return f"{job} is gone from Slurm and left no outcome: it failed, or its run directory was changed"
    if status.over:
        if record.state == "CANCELLED" and not steps.is_step(status.job_id):
            ran = record.start not in (None, record.end) or status.facts.started or status.facts.run.claim()
            return _reason(record) if ran else f"{job} never started: {_reason(record)}"
        end = f"{job} ended without writing its outcome: {_reason(record)}"
        return end + (TRACELESS.format(status.run.path) if traceless(status.run, status.job_id, record.state) else "")
    if record.pending:
        others = [each for each in status.jobs if each != status.job_id]
        also = f"; also queued as {', '.join(others)} (resources.any_of)" if others else ""
        asked = (status.run.document("first.json") or {}).get("clusters") or ()
        also += f"; asked on {', '.join(asked)}, and one of them runs it (--first)" if asked else ""
        return f"pending: {_reason(record, nodes)}{also}"
    does = summary(roles_of(status.facts.started)) if record.state == "RUNNING" else ""
    if status.facts.asks:
        does = "its nodes are fit, and it waits for the grant of whoever watches (--first)"
    return f"{record.state.lower().replace('_', ' ')} on {record.node_list or 'its nodes'}" + (
        f"; {does}" if does else ""
    )


def _left_in_queue(record: JobRecord | None) -> str:
    """Return a note for a succeeded launch whose job Slurm put back into the queue after a crash; else ""."""
    if record is None or not record.pending:
        return ""
    job_id = launch_id(record.job_id)
    why = reasons.explain(record.reason).of_job(job_id)
    return (
        f"; Slurm has put its job {job_id} back into the queue all the same ({why.meaning}): it would end at once "
        f"without running anything; remove it with: scancel {job_id}"
    )


def _nodes(slurm: Slurm, record: JobRecord | None, started: Started | None) -> list[str]:
    """Return the host names from the job's own list, else from Slurm's."""
    if started and started.get("nodes") is not None:
        return [str(node) for node in started["nodes"] or ()]
    return expand_nodes(slurm, record.node_list) if record is not None else []


def _times(status: LaunchStatus) -> tuple[float | None, float | None]:
    """Return start and end of the newest attempt in epoch seconds: Slurm's if the job has ended, else the job's own."""
    record, started, outcome = status.record, status.facts.started, status.outcome
    pending = record is not None and record.pending
    began = record.start if record is not None and not pending else None
    ended = record.end if record is not None and record.final else None
    if outcome is not None:
        began = began or outcome.get("started")
        ended = ended or outcome.get("time")
    if began is None and started is not None and not pending:
        began = started.get("time")
    return began, ended if status.over else None


def diagnosed(run: RunDirectory, launch: LaunchReport) -> str:
    """Return the end of a failed launch with the cause that a diagnosis of this attempt has found; else its message."""
    known = (run.document("diagnosis.json") or {}) if launch.standing == FAILED else {}
    ended = known.get("launch")
    same = isinstance(ended, dict) and (ended.get("job_id"), ended.get("attempt")) == (launch.job_id, launch.attempt)
    return str(known.get("sentence") or launch.message) if same else launch.message


# Seconds until Slurm is asked again while it still closes a job whose outcome is known.
SETTLE_STEP = 0.1


def final_report(slurm: Slurm, run: RunDirectory, **options: Any) -> LaunchReport:
    """Return `final_reports` for one launch."""
    return final_reports(slurm, [run], **options)[0]


def final_reports(
    slurm: Slurm,
    runs: Sequence[RunDirectory],
    *,
    settle: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[LaunchReport]:
    """Return the reports on some launches, with one query to Slurm.

    The batch script writes its outcome just before it ends. For up to `settle` seconds Slurm is asked again until it
    agrees, so that state and times are final.
    """
    until, step = clock() + settle, SETTLE_STEP
    while True:
        answer = ask_slurm(slurm, runs)
        statuses = [answer.status(run) for run in runs]
        reports = [described(slurm, status, answer) for status in statuses]
        open_ = any(status.over and status.in_queue for status in statuses)
        if answer.silent or not open_ or clock() + step > until:
            return reports
        sleep(step)
        step *= 1.5


# Seconds after its outcome was written during which a failure is fresh.
FRESH_OUTCOME = 60.0


def is_over(run: RunDirectory, slurm: Slurm, *, ask: bool, often: bool) -> bool:
    """Return whether a launch is over.

    A success is final, so Slurm is not asked. Only Slurm knows whether a failed job was put back into the queue. `ask`:
    ask Slurm even if there is no outcome yet. `often`: this function is called repeatedly, so Slurm is asked about a
    failure only while the failure is fresh.
    """
    status = status_of(RunFacts.read(run))
    failed = status.outcome is not None
    fresh = status.outcome is not None and time.time() - float(status.outcome.get("time") or 0) < FRESH_OUTCOME
    if status.standing == UNKNOWN and (ask or fresh or (failed and not often)):
        try:
            status = ask_slurm(slurm, [run]).status(run)
        except SlurmMissing:
            status = status_of(status.facts, JobAnswer(heard=SILENT))
    return status.over
