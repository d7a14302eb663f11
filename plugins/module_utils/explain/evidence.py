# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence about a launch besides its logs: Slurm's states and reasons, accounting, exit codes, preflight, monitors.

Each becomes events of the diagnosis, like those of a log, with the file and line where there is one. This module
combines the rooms `slurm` and `diagnosis`, which do not import each other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import (
    ARTIFACT,
    DRAINED,
    LAUNCHER,
    PENDING,
    SETUP,
    STATE_ROOT,
    Event,
    FileEvents,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.events import Reader
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    DECISIVE,
    ECHO,
    LIMIT,
    RAISED,
    WEAK,
    Signature,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import told_of
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import monitor
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import traceless
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import roles_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import state_root_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import reasons, states, step_usage
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

# Slurm's final state -> the family, and how much it proves.
STATES = {
    "OUT_OF_MEMORY": ("host_oom_killed", DECISIVE),
    "NODE_FAIL": ("node_failure", DECISIVE),
    "BOOT_FAIL": ("node_failure", DECISIVE),
    "TIMEOUT": ("time_limit", LIMIT),
    "DEADLINE": ("time_limit", LIMIT),
    "PREEMPTED": ("preempted_or_cancelled", LIMIT),
    "CANCELLED": ("preempted_or_cancelled", LIMIT),
}
_REJECTED = ("sbatch_rejected", CAUSE)
# Slurm's final state -> what happened and what to do, where it is more exact than its family.
_ENDED = {
    "CANCELLED": ("the job was cancelled", "See how far it had come, and who ended it, before you launch it again."),
    "PREEMPTED": ("a job with a higher priority took its nodes", ""),
}
# States in which Slurm itself kills what still runs: signal 9 of a step is then no evidence of anything else.
_KILLED_BY_SLURM = ("CANCELLED", "PREEMPTED", "TIMEOUT", "DEADLINE")
# How the job's own refusal begins -> what happened and what to do, where no node is to blame for it.
_REFUSED = {
    "the set-up failed": (
        "a line of the set-up failed, so no rank was started",
        (
            "Correct the line of `setup`, or end it with `|| true` if it may fail. What it printed is in the "
            "job's log. An environment that a line activates is better named in `environment.path`."
        ),
    ),
    "setup.modules": (
        "the command module is missing in the job, so no rank was started",
        (
            "/etc/profile of the nodes does not define it. If the site has modules, put the line that loads them "
            "(`source /PATH/init/bash`, then `module load`) into `setup.commands`; if not, remove `setup.modules`."
        ),
    ),
    "module load": (
        "a module could not be loaded, so no rank was started",
        (
            "Compare `setup.modules` with `module avail` on a node: the names differ between clusters. What the "
            "command printed is in the job's log."
        ),
    ),
}
# What to do where no node lacks something that others have, and where the job refused its ranks for no node at all.
_COMMON = (
    "Another node would lack it, too. Correct what the job runs in or asks for (`environment`, `container`, "
    "`preflight.imports`); the preflight table shows what each node has."
)
_IN_THE_LOG = "The job's log says why."
# Exit codes as a shell reports them -> what they suggest where no log gives more.
_CODES = {
    137: ("host_oom_killed", WEAK + 4),
    139: ("crash", WEAK + 4),
    135: ("crash", WEAK + 4),
    136: ("crash", WEAK + 4),
    132: ("crash", WEAK + 4),
    134: ("crash", WEAK + 1),
    127: ("script_error", WEAK),
    126: ("permission_denied", WEAK),
}


@dataclass
class Testimony:
    """The evidence: each event in a separate FileEvents, and the facts as data for programs."""

    logs: list[FileEvents] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Add an event that is in no log, as the last line of a file of its own."""
        self.logs.append(FileEvents(event.file, [replace(event, witness=True)], lines=event.line))


def of_pending(launch: LaunchReport, code: str) -> Testimony:
    """Why a pending launch does not start, and what to change."""
    nodes = [lost.node for lost in launch.drained]
    reason = reasons.explain(code).of_job(launch.job_id, nodes)
    never = "it can never start: " if reason.hopeless else "it will not start by itself: " if reason.stuck else ""
    known = (("meaning", never + reason.meaning), ("remedy", _sentence(reason.remedy or "Wait.")))
    testimony = Testimony(facts={"reason": {"code": reason.code, "stuck": reason.stuck, "hopeless": reason.hopeless}})
    text = f"job {launch.job_id} is {launch.slurm_state}, reason {code.strip('()') or 'None'}"
    testimony.add(Event(PENDING, CAUSE, text, 1, file="squeue", captured=known))
    _drained(testimony, launch)
    return testimony


def of_end(slurm: Slurm, run: RunDirectory, launch: LaunchReport, signatures: Sequence[Signature]) -> Testimony:
    """The evidence besides logs of a failed launch."""
    testimony = Testimony()
    # First, because it explains why Slurm cancelled the job.
    _drained(testimony, launch)
    if launch.never_started:
        node = launch.nodes[0] if launch.nodes else None
        known = (("state_root", state_root_of(launch.run_dir)), ("node", node or "the job's first node"))
        testimony.add(Event(STATE_ROOT, DECISIVE, launch.message, 1, file="Slurm", node=node, captured=known))
        return testimony
    if traceless(run, launch.job_id, launch.slurm_state):
        known = (("state_root", state_root_of(launch.run_dir)), ("node", launch.nodes[0] if launch.nodes else "a node"))
        what = "the nodes do not share {state_root} with the login node: the job wrote its files elsewhere"
        testimony.add(Event(STATE_ROOT, DECISIVE, launch.slurm_state or "", 1, file="Slurm", captured=known, what=what))
        return testimony
    refusal = _refusal(run, launch)
    _slurm_and_job(testimony, launch, run.rejected(), refusal)
    _preflight(testimony, run, launch, refusal)
    if launch.job_id and run.rejected() is None:
        ends = step_usage.step_ends(slurm, launch.job_id, since=launch.started_at)
        testimony.facts["accounting"] = [end.as_dict() for end in ends]
        # Of several roles, the job itself ends the steps of the others.
        _accounting(testimony, [end for end in ends if end.state != "CANCELLED" or not roles_of(run.started())], launch)
    _exit_code(testimony, launch)
    _monitors(testimony, run.shown(os.path.join("monitor", str(launch.attempt))), signatures)
    return testimony


def _drained(testimony: Testimony, launch: LaunchReport) -> None:
    """Nodes that Slurm drained because of the job. Where an ended job left nothing else, this is the cause."""
    testimony.facts["drained"] = [node.as_dict() for node in launch.drained]
    for lost in launch.drained:
        text = f"{lost.node} is drained: {lost.reason}"
        known = (("reason", lost.reason), ("meaning", lost.meaning), ("command", lost.command))
        testimony.add(Event(DRAINED, LIMIT + 1, text, 1, file="sinfo", node=lost.node, captured=known))


@dataclass(frozen=True)
class _Refusal:
    """What happened and what to do where the job refused its ranks; empty where the family's own words say it."""

    what: str = ""
    remedy: str = ""
    captured: tuple[tuple[str, str], ...] = ()


def _refusal(run: RunDirectory, launch: LaunchReport) -> _Refusal:
    """Only nodes that lack what others have, as the preflight judged it, are worth excluding."""
    outcome = launch.outcome or {}
    message = str(outcome.get("message") or "")
    for beginning, (what, remedy) in _REFUSED.items():
        if message.startswith(beginning):
            return _Refusal(what, remedy)
    if not outcome.get("unfit_nodes"):
        return _Refusal(remedy=_IN_THE_LOG)
    table = run.text(os.path.join("preflight", str(launch.attempt), "table")).splitlines()
    blamed = [node for line in table if (words := line.split()) and words[0] == "blamed" for node in words[1:]]
    return _Refusal(captured=(("nodes", ", ".join(blamed)),)) if blamed else _Refusal(remedy=_COMMON)


def _slurm_and_job(testimony: Testimony, launch: LaunchReport, rejected: str | None, refusal: _Refusal) -> None:
    """Slurm's final state, else the batch script's own outcome: no log of a rank contains them."""
    family, strength = STATES.get(launch.slurm_state or "", ("", 0))
    if rejected is not None:
        family, strength = _REJECTED
    if not family and launch.completed:
        if (launch.outcome or {}).get("ended_by") == "setup":
            family, strength = SETUP, DECISIVE
        elif launch.exit_code == 0:
            family, strength = ARTIFACT, WEAK
        else:
            family, strength = LAUNCHER, ECHO
    if family:
        told = refusal if family == SETUP else _Refusal(*_ENDED.get(launch.slurm_state or "", ("", "")))
        testimony.add(Event(family, strength, _end_of(launch), 1, file="Slurm", **vars(told)))


def _end_of(launch: LaunchReport) -> str:
    """The final state, and the message unless it only describes the state, which the family does as well."""
    message, state = launch.message or "", launch.slurm_state
    if state is None:
        return message
    if message.startswith(states.describe_end(state)):
        return state
    return message if f"{state}: " in message else f"{state}: {message}"


def _preflight(testimony: Testimony, run: RunDirectory, launch: LaunchReport, refusal: _Refusal) -> None:
    """The lines of the preflight table for nodes that were not fit."""
    outcome = launch.outcome or {}
    unfit = outcome.get("unfit_nodes") or {}
    name = os.path.join("preflight", str(launch.attempt), "table")
    path, table = run.file(name), enumerate(run.text(name).splitlines(), 1)
    rows = {line.split()[0]: (number, line) for number, line in table if line.split()}
    testimony.facts["preflight"] = [
        {"node": node, "why": why, "line": rows.get(node, (0, ""))[1]} for node, why in sorted(unfit.items())
    ]
    if outcome.get("ended_by") == "setup":
        for node, why in sorted(unfit.items()):
            number, line = rows.get(node, (1, ""))
            text = line or f"{node}: {why}"
            testimony.add(Event(SETUP, DECISIVE, text, number, file=path, node=node, **vars(refusal)))


def _accounting(testimony: Testimony, ends: Sequence[step_usage.StepEnd], launch: LaunchReport) -> None:
    end = step_usage.worst(ends)
    if end is None:
        return
    if end.state == "OUT_OF_MEMORY":
        family, strength = STATES[end.state]
    elif end.code == 137 and _killed_by_slurm(launch):
        family, strength = LAUNCHER, ECHO
    elif end.code == 137 and end.memory_is_used_up:
        family, strength = "host_oom_killed", RAISED - 1
    else:
        family, strength = _CODES.get(end.code or 0, (LAUNCHER, ECHO))
    node = end.max_rss_node if family == "host_oom_killed" else ""
    what = told_of("exit code 137") if family == "host_oom_killed" and end.state != "OUT_OF_MEMORY" else ""
    testimony.add(Event(family, strength, end.sentence, 1, file="sacct", node=node or None, what=what))


def _exit_code(testimony: Testimony, launch: LaunchReport) -> None:
    """The batch script's exit code, for sites without accounting."""
    code = launch.exit_code
    testimony.facts["exit_code"] = code
    family, strength = _CODES.get(code or 0, ("", 0))
    if family and not (code == 137 and _killed_by_slurm(launch)):
        text, what = f"the ranks' step ended with exit code {code}", told_of("exit code 137") if code == 137 else ""
        testimony.add(Event(family, strength - 1, text, 1, file="outcome.json", what=what))


def _killed_by_slurm(launch: LaunchReport) -> bool:
    """Whether Slurm ended the job, and so killed its processes."""
    return launch.slurm_state in _KILLED_BY_SLURM


def _monitors(testimony: Testimony, folder: Beneath, signatures: Sequence[Signature]) -> None:
    """Nodes whose memory was full, and the complaints of nvidia-smi."""
    nodes = monitor.read_samples(folder)
    testimony.facts["samples"] = [usage.as_dict() for usage in nodes.values()]
    for node, usage in nodes.items():
        percent = usage.memory_percent
        if percent is not None and percent >= monitor.MEMORY_FULL:
            text = f"{percent:.0f} % of the memory of {node} was in use ({usage.peak_memory_mb:.0f} MiB)"
            file = next((path for path in usage.files if path.endswith(".host.csv")), folder.path)
            what = "the memory of the node was nearly full"
            testimony.add(Event("host_oom_killed", WEAK + 5, text, 1, file=file, node=node, what=what))
        for path, number, text in usage.complaints:
            read = Reader(signatures).read(path, [lines.Line(max(1, number), text, None, node)])
            seen = [replace(advice.with_rank(event, None, node), witness=True) for event in read.events]
            testimony.logs += [FileEvents(path, [event]) for event in seen]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
