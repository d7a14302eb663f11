# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which events of launches somebody is to be told of now, and what is said about each."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration, short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import facts_of, first_and_last
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.running import progress
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.silence import find_stall
from ansible_collections.rankzero.slurm.plugins.module_utils.notify import deliver
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import report
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import trusted_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

EVENTS = ("started", "first_step", "stalled", "failed", "proven")
# When a run stands still, as for a wait (watch/pace.py): this many times the usual step, and at least these seconds,
# without a step; or, where it never showed a step or has made the last one, these seconds without a new line.
STALL_FACTOR, STALL_SECONDS, SILENT_SECONDS = 10.0, 60.0, 300.0
# A launch is no longer listed this many seconds after it was submitted, whatever was not delivered.
FORGOTTEN = 90 * 86400.0
# Seconds that a submission may take until its run directory is there.
UNMADE = 3600.0
# The fields of a launch that a message for programs has.
FACTS = (
    "name", "key", "generation", "job_id", "standing", "slurm_state", "attempt", "started_at", "finished_at", "message",
    "run_dir",
)  # fmt: skip
# Values of an artifact in a message.
VALUES = 8


@dataclasses.dataclass(frozen=True)
class Sender:
    """What this sender knows. `urls`: addresses by the name of their variable; `stalled`: run directory -> why a wait
    has found it to stand still.
    """

    urls: Mapping[str, str]
    stalled: Mapping[str, str] = dataclasses.field(default_factory=dict)
    check_mode: bool = False
    now: float = dataclasses.field(default_factory=time.time)

    def address(self, receiver: deliver.Receiver) -> str:
        """Return the URL of a receiver. Raises `Undelivered` if this sender cannot know it."""
        name = receiver.get("url_env", "")
        if not name:
            return deliver.address_in_file(receiver.get("url_file", ""))
        if not self.urls.get(name):
            raise deliver.Undelivered(f"the variable {name} is not set in the environment of this sender")
        return deliver.checked(self.urls[name].strip(), name)


def listed(state_root: str) -> list[RunDirectory]:
    """Return the launches about which there is something to tell. Raises `Untrusted`."""
    root, runs = state_files.own(os.path.expanduser(state_root)), []
    for name in root.names(state_files.TO_NOTIFY):
        parts = name.rsplit(".", 2)
        if len(parts) == 3 and all(parts) and parts[2].isascii() and parts[2].isdecimal():
            runs.append(RunDirectory(os.path.join(root.root, "runs", *parts)))
    return runs


def send_due(slurm: Slurm, runs: Sequence[RunDirectory], sender: Sender) -> ModuleResult:
    """Send what is due about some launches, with one query to Slurm. Returns the result of module job_notify."""
    facts, bad = trusted_runs(runs)
    good = [run for run in runs if run.path in facts]
    receivers = {run.path: receivers_of(run) for run in good}
    waiting = [run for run in good if deliver.open_events(run.path, receivers[run.path])]
    answer = ask_slurm(slurm, waiting, read=facts)
    if answer.silent:
        slurm.note(answer.silent)
    messages: list[ModuleResult] = []
    left = []
    for run in waiting:
        launch = report(slurm, run, answer)
        told: list[ModuleResult] = []
        problems: list[str] = []
        with one_alone(problems.append):
            told = _tell(slurm, launch, receivers[run.path], sender)
        told += [_unsent(run.path, why) for why in problems]
        messages += told
        if not launch.completed or any(message["state"] != deliver.SENT for message in told):
            left.append(run)
    if not sender.check_mode:
        _keep_listed(good, left, sender.now)
    return {
        "changed": any(message["state"] == deliver.SENT for message in messages),
        "messages": messages,
        "left": len(left),
        "untrusted": bad,
    }


def receivers_of(run: RunDirectory) -> list[deliver.Receiver]:
    """Return the receivers of a launch of this user; empty if it has none. Raises `Untrusted`."""
    given = None if run.foreign else (run.document(state_files.NOTIFY) or {}).get("receivers")
    entries = [entry for entry in given if isinstance(entry, dict)] if isinstance(given, list) else []
    return [cast("deliver.Receiver", entry) for entry in entries if isinstance(entry.get("events"), list)]


def _keep_listed(runs: Sequence[RunDirectory], left: Sequence[RunDirectory], now: float) -> None:
    """Strike launches off the list about which nothing is left to tell."""
    for run in runs:
        parts = run.path.split(os.sep)
        entry = os.path.join(*[os.sep, *parts[:-4]], state_files.TO_NOTIFY, ".".join(parts[-3:]))
        with contextlib.suppress(OSError):
            # The entry of a new launch is there before its run directory.
            young = now - os.lstat(entry).st_mtime < (FORGOTTEN if run in left else UNMADE)
            if not young or (run not in left and os.path.isdir(run.path)):
                os.unlink(entry)


def _tell(
    slurm: Slurm, launch: LaunchReport, receivers: Sequence[deliver.Receiver], sender: Sender
) -> list[ModuleResult]:
    """Send what is due about one launch, in the order of the events."""
    run = RunDirectory(launch.run_dir)
    wanted = deliver.open_events(run.path, receivers)
    redactor, told = redactor_of(run), []
    for event in EVENTS:
        words = _words(slurm, launch, event, sender) if event in wanted else None
        if words is None:
            continue
        text, facts = words
        message = deliver.Message.of(event, redactor.text(text), {**_facts(launch), **facts})
        message = dataclasses.replace(message, facts=redactor.document(message.facts))
        if sender.check_mode:
            told.append({"run_dir": run.path, "event": event, "text": message.text, "state": "due"})
            continue
        for done in deliver.deliver(run.path, receivers, message, sender.address):
            if done.state != deliver.SENT or done.reason != deliver.BEFORE:
                told.append(_row(run.path, receivers[done.receiver], message, done))
    return told


def _unsent(run_dir: str, why: str) -> ModuleResult:
    return {"run_dir": run_dir, "event": "", "receiver": "", "state": deliver.FAILED, "reason": why, "text": ""}


def _row(run_dir: str, receiver: deliver.Receiver, message: deliver.Message, done: deliver.Delivery) -> ModuleResult:
    place = next((str(receiver[name]) for name in ("mail", "url_file", "url_env") if receiver.get(name)), "")
    return {
        "run_dir": run_dir,
        "event": done.event,
        "receiver": place,
        "state": done.state,
        "reason": done.reason,
        "text": message.text,
    }


def _words(slurm: Slurm, launch: LaunchReport, event: str, sender: Sender) -> tuple[str, dict[str, Any]] | None:
    """Return (text, facts) if an event has happened; else None."""
    run = RunDirectory(launch.run_dir)
    if event == "started":
        started = run.started()
        if started is None:
            return None
        nodes, ranks = [str(node) for node in started.get("nodes") or ()], started.get("world_size")
        return f"on {short_list(nodes)}" + (f", {ranks} ranks" if ranks else ""), {"started": started.get("time")}
    if event == "first_step":
        step = progress(launch.as_dict(), sender.now)
        loss = "" if step is None or step["loss"] is None else f", loss {step['loss']:.4g}"
        return None if step is None else (f"step {step['step']}{loss}", {"progress": step})
    if event == "stalled":
        why = _standing(run, launch, sender) if launch.active and not launch.completed else ""
        return (why, {}) if why else None
    if not launch.completed or launch.success != (event == "proven"):
        return None
    return _proven(launch) if launch.success else _failed(slurm, launch)


def _proven(launch: LaunchReport) -> tuple[str, dict[str, Any]]:
    values = launch.artifact.scalars if launch.artifact else {}
    shown = [f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()]
    took = "" if launch.wall_time is None else f" after {duration(launch.wall_time)}"
    return "\n".join([f"{launch.message}{took}", *([", ".join(shown[:VALUES])] if shown else [])]), {"values": values}


def _failed(slurm: Slurm, launch: LaunchReport) -> tuple[str, dict[str, Any]]:
    """The cause of a failure as the diagnosis finds it, or at least how the job ended."""
    # Only a failure needs the rules for all families.
    from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnose import diagnose
    from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC

    defaults = {name: option.get("default") for name, option in DIAGNOSIS_SPEC.items()}
    options = {**defaults, "run_dir": launch.run_dir, "write": False, "processes": 1}
    cause: dict[str, Any] = {}
    with contextlib.suppress(RankzeroError, OSError):
        cause = diagnose(slurm, options)["diagnosis"]
    if not cause.get("root"):
        return launch.message, {}
    facts = {name: cause.get(name) for name in ("family", "what", "remedy", "nodes", "retry")}
    lines = [str(cause["sentence"]), f"remedy: {cause['remedy']}" if cause.get("remedy") else ""]
    return "\n".join(filter(None, lines)), {"cause": facts}


def _standing(run: RunDirectory, launch: LaunchReport, sender: Sender) -> str:
    """Return why a running launch stands still, from the logs of its ranks or from a wait; else ""."""
    if launch.started_at is None or run.path in sender.stalled:
        return sender.stalled.get(run.path, "")
    ends = first_and_last(run.shown(os.path.join("logs", str(launch.attempt))))
    logs = {rank: facts_of(log, launch.started_at) for rank, log in ends.items()}
    now = max([sender.now, *(log.modified for log in logs.values())])
    stall = find_stall(logs, now, STALL_FACTOR, STALL_SECONDS)
    if stall is not None:
        return stall.sentence
    quiet = now - max([launch.started_at, *(log.modified for log in logs.values())])
    missing = any(log.progress and not log.progress.last for log in logs.values())
    silent = quiet >= SILENT_SECONDS and not missing
    return f"no line in its log for {duration(quiet)}" if silent else ""


def _facts(launch: LaunchReport) -> dict[str, Any]:
    return {**{name: getattr(launch, name) for name in FACTS}, "nodes": list(launch.nodes)}
