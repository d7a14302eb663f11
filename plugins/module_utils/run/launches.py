# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches as the modules report them: the run directory's word, joined with Slurm's. Changes nothing.

Success is the newest attempt's own outcome; Slurm's state explains it. Every source may be silent or gone: the
report then says what is known and who did not answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run import attempts, steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import MAY_FOLLOW, RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import own, without_namesakes
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity, select_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import drained, reasons, states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, expand_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    CLOCK_SLACK,
    DEFAULT_REACH,
    JobRecord,
    find_by_id,
    find_by_name,
    launch_id,
    query_sacct,
)

# Of a run directory that another user could have written nothing is reported.
UNTRUSTED = "UNTRUSTED"
# What a job says of itself where Slurm no longer knows it, or does not answer.
UNKNOWN = "UNKNOWN"


@dataclass
class SlurmAnswer:
    """What Slurm said of some jobs. `silent`: the complaint of a Slurm that did not answer, else empty."""

    records: dict[str, JobRecord] = field(default_factory=dict)
    by_name: dict[str, JobRecord] = field(default_factory=dict)
    silent: str = ""


def ask_slurm(slurm: Slurm, runs: Sequence[RunDirectory]) -> SlurmAnswer:
    """One lookup for all runs, one more for those whose job id was never recorded. Silence is an answer here."""
    answer = SlurmAnswer()
    ids = {run.path: run.job_id() for run in runs}
    intents = [_first_time(run) for run in runs]
    nameless = {identity(run.path).job_name: run for run in runs if ids[run.path] is None and run.rejected() is None}
    since = min((moment for moment in intents if moment), default=None)
    try:
        known = {job_id: identity(path).job_name for path, job_id in ids.items() if job_id}
        answer.records = steps.find(slurm, known, since=since)
        _add_history(slurm, answer, since)
        inside = {name: run for name, run in nameless.items() if steps.host_job(run)}
        for name, run in inside.items():
            answer.by_name.update({record.name: record for record in steps.named(slurm, run, name)})
            del nameless[name]
        # Oldest first: of two submissions of one name the newest one counts.
        for record in find_by_name(slurm, nameless, since=since or 0):
            if without_namesakes([record], nameless[record.name].path):
                answer.by_name[record.name] = record
    except SlurmUnavailable as error:
        answer.silent = error.message
    return answer


def _add_history(slurm: Slurm, answer: SlurmAnswer, since: float | None) -> None:
    """The attempts before a requeue, which only accounting remembers: one question for all jobs that had one."""
    wanted = [
        job_id
        for job_id, record in answer.records.items()
        if record.restarts and not record.earlier and not steps.is_step(job_id)
    ]
    if not wanted:
        return
    begun = (since or time.time() - DEFAULT_REACH) - CLOCK_SLACK
    for row in query_sacct(slurm, [f"--jobs={','.join(wanted)}"], begun):
        known = answer.records.get(row.job_id)
        if known is not None and row.name == known.name:
            answer.records[row.job_id] = replace(known, earlier=row.earlier)


def sound(runs: Iterable[RunDirectory]) -> tuple[list[RunDirectory], dict[str, str]]:
    """(those to look at, path -> why not of those that another user could have written): one bad run costs one row."""
    good, bad = [], {}
    for run in runs:
        try:
            run.events(), run.job_id(), run.outcome(), run.before()
        except Untrusted as error:
            bad[run.path] = error.message
        else:
            good.append(run)
    return good, bad


def _first_time(run: RunDirectory) -> float | None:
    return next((float(event["time"]) for event in run.events() if "time" in event), None)


def report(slurm: Slurm, run: RunDirectory, answer: SlurmAnswer) -> dict[str, Any]:
    """One launch as job_info and job_wait return it."""
    who = identity(run.path)
    job_id = run.job_id()
    record = steps.judged(_record_of(answer, run, who.job_name), run.outcome())
    if record is not None:
        job_id = launch_id(record.job_id)
    started, outcome = run.started(), run.outcome()
    attempt = _attempt(run, record)
    success = bool(outcome and outcome.get("success"))
    # A proof is final: a job that Slurm starts again after it ends at once.
    if outcome is not None and not success and int(outcome.get("attempt") or 0) < attempt:
        outcome = None
    ended = record.final if record is not None else _gone(slurm, answer, job_id, outcome)
    completed = run.rejected() is not None or success or ended
    state = _state(run, record, outcome)
    begun, finished = _times(record, started, outcome, completed)
    nodes = _nodes(slurm, record, started)
    lost = drained.of(slurm, record, verdict=outcome is not None)
    names = [node.node for node in lost]
    message = _message(slurm, run, answer, record, outcome, completed, names)
    told = drained.sentences(lost, commands=completed)
    newest = {
        "attempt": attempt,
        "job_id": job_id,
        "state": state,
        "started_at": begun,
        "finished_at": finished,
        "node_list": record.node_list if record is not None else None,
        "nodes": nodes,
        "exit_code": _exit_code(record, outcome),
        "reason": str(outcome.get("message") or "") if outcome else _reason(record, names),
    }
    return {
        "name": who.name,
        "key": who.key,
        "generation": who.generation,
        "job_id": job_id,
        "state": state,
        "active": job_id is not None and not completed,
        "completed": completed,
        "success": success,
        "exit_code": _exit_code(record, outcome),
        "reason": _reason(record, names),
        "reason_code": record.reason if record is not None else "",
        "message": f"{message}; {told}" if told else message,
        "drained": [node.as_dict() for node in lost],
        "nodes": nodes,
        "attempt": attempt,
        "attempts": [*attempts.earlier(attempt, run.before(), record), newest],
        "started_at": begun,
        "finished_at": finished,
        "wall_time": None if begun is None or finished is None else max(0.0, finished - begun),
        "artifact": outcome.get("artifact") if outcome else None,
        "outcome": outcome,
        "run_dir": run.path,
        "logs_dir": run.file("logs"),
        "journal": run.events(),
        "source": record.source if record else None,
    }


def untrusted(run: RunDirectory, why: str) -> dict[str, Any]:
    """The row of a launch of which nothing can be believed."""
    who = identity(run.path)
    unknown = ("job_id", "exit_code", "started_at", "finished_at", "wall_time", "artifact", "outcome", "source")
    return {
        **dict.fromkeys(unknown),
        "name": who.name,
        "key": who.key,
        "generation": who.generation,
        "state": UNTRUSTED,
        "message": why,
        "active": False,
        "completed": False,
        "success": False,
        "reason": "",
        "reason_code": "",
        "nodes": [],
        "attempt": 0,
        "attempts": [],
        "run_dir": run.path,
        "logs_dir": run.file("logs"),
        "journal": [],
    }


def _record_of(answer: SlurmAnswer, run: RunDirectory, job_name: str) -> JobRecord | None:
    job_id = run.job_id()
    if job_id is None:
        return answer.by_name.get(job_name)
    return own(answer.records.get(job_id), run.path)


def _attempt(run: RunDirectory, record: JobRecord | None) -> int:
    """The newest attempt that anyone knows of (0 is the first). A requeued job that still waits has not begun it."""
    started = run.started() or {}
    seen = [int(started.get("attempt") or 0), int((run.outcome() or {}).get("attempt") or 0)]
    if record is not None and record.restarts:
        seen.append(record.restarts)
    return max(seen)


def _gone(slurm: Slurm, answer: SlurmAnswer, job_id: str | None, outcome: Mapping[str, Any] | None) -> bool:
    """Whether a job that Slurm shows nowhere has ended. A Slurm that is silent, in whole or in part, says nothing."""
    if job_id is None:
        return False
    if answer.silent or slurm.accounting == "silent":
        # A verdict that no requeue can follow is an end even so.
        return outcome is not None and outcome.get("ended_by") not in MAY_FOLLOW
    return True


def _state(run: RunDirectory, record: JobRecord | None, outcome: Mapping[str, Any] | None) -> str:
    if record is not None:
        return record.state
    if run.rejected() is not None:
        return "REJECTED"
    if run.job_id() is None:
        return "UNSUBMITTED"
    # The batch script's exit code is what Slurm would have made its state of.
    return UNKNOWN if outcome is None else ("COMPLETED" if outcome.get("success") else "FAILED")


def _exit_code(record: JobRecord | None, outcome: Mapping[str, Any] | None) -> int | None:
    if outcome is not None and outcome.get("exit_code") is not None:
        return int(outcome["exit_code"])
    return record.exit_code if record is not None and record.final else None


def _reason(record: JobRecord | None, nodes: Sequence[str] = ()) -> str:
    if record is None:
        return ""
    if record.pending:
        return reasons.explain(record.reason).of_job(launch_id(record.job_id), nodes).sentence
    if record.final:
        return steps.describe_end(record)
    return ""


def _message(
    slurm: Slurm,
    run: RunDirectory,
    answer: SlurmAnswer,
    record: JobRecord | None,
    outcome: Mapping[str, Any] | None,
    completed: bool,
    nodes: Sequence[str],
) -> str:
    """What became of the launch, in a sentence for people. `nodes`: those that Slurm has drained."""
    if run.rejected() is not None:
        return f"Slurm refused the job: {run.rejected()}"
    said = str(outcome.get("message") or "") if outcome else ""
    if outcome and outcome.get("success"):
        return (said or "the artifact is proven") + _left_in_queue(record)
    job = f"{'step' if steps.is_step(run.job_id()) else 'job'} {run.job_id()}"
    if outcome:
        end = _reason(record) if record is not None and record.final else ""
        return "; ".join(filter(None, [said or "the job ended without success", end]))
    if answer.silent:
        return f"{answer.silent} The run directory holds no outcome."
    if record is None and run.job_id() is None:
        return "an intent to submit is recorded, but no job id, and Slurm knows no such job; the next launch settles it"
    if record is None and slurm.accounting == "silent":
        return f"{job} left the queue, accounting does not answer, and the run directory holds no outcome"
    if record is None:
        return f"{job} is gone from Slurm and left no outcome: it failed, or its run directory was changed"
    if completed:
        return f"{job} ended without writing its outcome: {_reason(record)}"
    if record.pending:
        return f"pending: {_reason(record, nodes)}"
    return f"{record.state.lower().replace('_', ' ')} on {record.node_list or 'its nodes'}"


def _left_in_queue(record: JobRecord | None) -> str:
    """What is left of a proven launch where Slurm, after a crash, has put its job back into the queue."""
    if record is None or not record.pending:
        return ""
    job_id = launch_id(record.job_id)
    why = reasons.explain(record.reason).of_job(job_id)
    return (
        f"; Slurm has put its job {job_id} back into the queue all the same ({why.meaning}): it would end at once "
        f"without running anything; remove it with: scancel {job_id}"
    )


def _nodes(slurm: Slurm, record: JobRecord | None, started: Mapping[str, Any] | None) -> list[str]:
    """Host names: the job's own list, else Slurm's."""
    if started and isinstance(started.get("nodes"), list):
        return [str(node) for node in started["nodes"]]
    return expand_nodes(slurm, record.node_list) if record is not None else []


def _times(
    record: JobRecord | None,
    started: Mapping[str, Any] | None,
    outcome: Mapping[str, Any] | None,
    completed: bool,
) -> tuple[float | None, float | None]:
    """Start and end of the newest attempt, epoch seconds: Slurm's where it has ended, else the job's own."""
    began = record.start if record is not None and not record.pending else None
    ended = record.end if record is not None and record.final else None
    if outcome is not None:
        began = began or outcome.get("started")
        ended = ended or outcome.get("time")
    if began is None and started is not None and not (record is not None and record.pending):
        began = started.get("time")
    return began, ended if completed else None


def job_info(slurm: Slurm, options: Mapping[str, Any]) -> dict[str, Any]:
    """The result of module job_info for RUN_ARGUMENTS."""
    runs = select_runs(options)
    if options.get("newest"):
        runs = list({os.path.dirname(run.path): run for run in runs}.values())  # the last of each key is its newest
    good, bad = sound(runs)
    answer = ask_slurm(slurm, good)
    reports = {run.path: report(slurm, run, answer) for run in good}
    launches = [reports.get(run.path) or untrusted(run, bad[run.path]) for run in runs]
    if options.get("active"):
        launches = [one for one in launches if one["active"]]
    if answer.silent:
        slurm.note(answer.silent)
    result: dict[str, Any] = {"launches": launches, "slurm_commands": slurm.commands}
    if not launches:
        result["message"] = _nothing_found(slurm, options)
        result["slurm_commands"] = slurm.commands
    return result


def _nothing_found(slurm: Slurm, options: Mapping[str, Any]) -> str:
    root = os.path.expanduser(options["state_root"])
    given = [f"{o} {options[o]}" for o in ("name", "key", "generation", "job_id") if options.get(o)]
    text = f"no launch{' with ' + ', '.join(given) if given else ''} is recorded under {root}"
    if not options.get("job_id"):
        return text
    record = next(iter(find_by_id(slurm, [options["job_id"]]).values()), None)
    if record is None:
        return f"{text}, and Slurm does not know that job"
    return f"{text}; Slurm knows the job as {record.name!r} ({record.state}), so another program or state_root made it"


# How often, in seconds, Slurm is asked again while it still closes a job whose outcome is already known.
SETTLE_STEP = 0.1


def final_report(slurm: Slurm, run: RunDirectory, **options: Any) -> dict[str, Any]:
    """`final_reports` of one launch."""
    return final_reports(slurm, [run], **options)[0]


def final_reports(
    slurm: Slurm,
    runs: Sequence[RunDirectory],
    *,
    settle: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[dict[str, Any]]:
    """The reports of some launches, by one question to Slurm. The batch script writes its outcome just before it ends:
    for up to `settle` seconds Slurm is asked again until it agrees, so that state and times are the final ones.
    """
    until, step = clock() + settle, SETTLE_STEP
    while True:
        answer = ask_slurm(slurm, runs)
        found = [report(slurm, run, answer) for run in runs]
        open_ = any(
            one["completed"] and one["source"] is not None and not states.is_final(one["state"]) for one in found
        )
        if answer.silent or not open_ or clock() + step > until:
            return found
        sleep(step)
        step *= 1.5


def is_over(run: RunDirectory, slurm: Slurm | None = None) -> bool:
    """Whether nothing more is to come from a launch. Without `slurm` only its own word counts, which costs nothing."""
    outcome = run.outcome()
    if run.rejected() is not None or (
        outcome and (outcome.get("success") or outcome.get("ended_by") not in MAY_FOLLOW)
    ):
        return True
    return slurm is not None and bool(final_report(slurm, run)["completed"])
