# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A diagnosis and its launch, as the result of module job_diagnosis and as text for a screen. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import Verdict, verdict_of
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import Answer, Stall
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import StartedRole, process_name
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import Ledger

_MARKS = {True: "ok", False: "BAD", None: "?"}
_STALLED = (
    "Look at what the ranks do: playbook `rankzero.slurm.shell` enters a node (`py-spy dump`, `nvidia-smi`). The rank "
    "that is in no collective is the one that the others wait for."
)
# The lines on a screen: cause, place, evidence, remedy, path of the complete report.
SCREEN_LINES = 15
# The lines for the state of a running job whose logs already show a failure.
RUNNING_LINES = 3
SHOWN = 2
NAMED = 8
WIDTH = 110

# The fields of a launch's report that its diagnosis repeats.
_OF_LAUNCH = (
    *("name", "key", "generation", "job_id", "standing", "slurm_state", "attempt", "message", "run_dir"),
    *("completed", "success"),
)


@dataclass(frozen=True)
class DiagnosisReport:
    """`launch`: None where only logs were read. `stall`: the stall of a running job. `facts`: evidence besides logs.

    `facts` maps each source to its data as JSON (explain/evidence.py). `ledger`: what the hours of an ended launch went
    to. `roles`: of a launch with several programs.
    """

    diagnosis: Diagnosis
    checklist: Sequence[Answer] = ()
    launch: LaunchReport | None = None
    facts: Mapping[str, object] | None = None
    running: bool = False
    stall: Stall | None = None
    ledger: Ledger | None = None
    roles: Sequence[StartedRole] = ()

    @property
    def verdict(self) -> Verdict:
        """How the launch ended, or what its logs show so far."""
        cause, launch = self.diagnosis.what if self.diagnosis.root else "", self.launch
        return verdict_of(launch.outcome, cause, launch.message) if launch is not None else Verdict("", cause)

    def as_dict(self) -> ModuleResult:
        """The result of module job_diagnosis without the fields that do not apply (`launch`, `facts`, `stall`,
        `ledger`).
        """
        document = {**self.diagnosis.as_dict(), "checklist": [answer.as_dict() for answer in self.checklist]}
        document["sentence"] = self.verdict.sentence
        if self.launch is not None:
            document["launch"] = {name: getattr(self.launch, name) for name in _OF_LAUNCH}
            document["facts"] = dict(self.facts or {})
        if self.running:
            document["stall"] = self.stall.as_dict() if self.stall else None
        if self.ledger is not None:
            document["ledger"] = self.ledger.as_dict()
        return document


def screen(report: DiagnosisReport, story: str = "") -> list[str]:
    """A diagnosis in at most SCREEN_LINES lines. `story`: the path of the complete report."""
    diagnosis, running = report.diagnosis, _running(report)
    if running:
        running = [*running[: SCREEN_LINES - 1], *_row("story", story, 1)]
    root = diagnosis.root
    if root is None and running:
        return running
    if root is None:
        verdict = _row("verdict", _own_verdict(report), 2)
        return [_without_cause(diagnosis), *verdict, *_unread(diagnosis), *_checks(report)][:SCREEN_LINES]
    lines = running[:RUNNING_LINES] + _row(
        "cause", f"{diagnosis.what} ({diagnosis.family}, confidence {diagnosis.confidence})", 2
    )
    lines += _row("where", _where(diagnosis, report.roles), 2)
    lines += _row("evidence", f"{root.file}:{root.line}  {root.text}", 3)
    for event in diagnosis.evidence[1:SHOWN]:
        lines += _row("", f"{event.file}:{event.line}  {event.text}", 1)
    told = _own_verdict(report)
    lines += _row("verdict", "" if told in root.text else told, 2)
    lines += _row("job", _memory(report), 2)
    if len(diagnosis.chain) > 1:
        lines += _row("then", " -> ".join(diagnosis.chain[1:]), 1)
    lines += _row("remedy" if diagnosis.confidence == "high" else "look at", diagnosis.remedy, 4)
    lines += _row("retry", "the same launch may succeed when it is tried again" if diagnosis.retry else "", 1)
    lines += [*_unread(diagnosis), *_row("story", story, 1)]
    return lines[:SCREEN_LINES]


def _without_cause(diagnosis: Diagnosis) -> str:
    """Healthy only where the logs prove it."""
    read = f"{diagnosis.files} log{'s' if diagnosis.files != 1 else ''} read"
    if not diagnosis.healthy:
        return f"no cause found in these logs: {read}, without a line that is known as a failure or a normal end"
    end = "the program ended normally" if diagnosis.confidence == "high" else "steps are logged until the end"
    return f"no failure: {read}; {end}"


def _own_verdict(report: DiagnosisReport) -> str:
    """What the job itself said of its end; a success needs no words."""
    launch = report.launch
    return "" if launch is None or launch.success or not launch.outcome else report.verdict.own


def _memory(report: DiagnosisReport) -> str:
    """The sizes of a job whose GPUs were full, and the most that was sampled."""
    memory = (report.facts or {}).get("memory")
    return str(memory.get("text") or "") if isinstance(memory, Mapping) else ""


def _running(report: DiagnosisReport) -> list[str]:
    """For a running job: its state, the checklist, and whether it stalls."""
    launch = report.launch
    if launch is None or not report.running:
        return []
    lines = _row("state", f"{launch.message} (job {launch.job_id}, attempt {launch.attempt + 1})", 1)
    lines += _checks(report)
    slow = (report.facts or {}).get("slow")
    if isinstance(slow, Mapping):
        lines += _row("slow", str(slow.get("message")), 4)
    if report.stall:
        standstill = (report.facts or {}).get("standstill")
        culprit = str(standstill.get("message")) if isinstance(standstill, Mapping) else ""
        lines += _row("stalled", report.stall.sentence, 2) + (_row("because", culprit, 4) or _row("", _STALLED, 2))
    return lines


def _checks(report: DiagnosisReport) -> list[str]:
    """The launch checklist, one line per answer."""
    rows = []
    for number, check in enumerate(report.checklist):
        rows += _row("" if number else "check", f"{_MARKS[check.ok]:<4}{check.question}: {check.answer}", 1)
    return rows


def _row(title: str, text: str, most: int) -> list[str]:
    if not text:
        return []
    shown = textwrap.wrap(text, WIDTH, max_lines=most, placeholder=" ...", break_on_hyphens=False)
    return [f"{title if index == 0 else '':<10}{line}" for index, line in enumerate(shown)]


def _unread(diagnosis: Diagnosis) -> list[str]:
    unread = diagnosis.unreadable
    if not unread:
        return []
    more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
    return _row("not read", f"{unread[0].file}: {unread[0].why}{more}", 1)


def _where(diagnosis: Diagnosis, roles: Sequence[StartedRole]) -> str:
    ranks, nodes = diagnosis.ranks, diagnosis.nodes
    words = []
    if ranks:
        more = f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else ""
        kind = "" if roles else "ranks " if len(ranks) > 1 else "rank "
        words.append(f"{kind}{', '.join(process_name(roles, rank) for rank in ranks[:NAMED])}{more}")
    if nodes:
        words.append(f"on {', '.join(nodes[:NAMED])}")
    if len(ranks) > 1 and diagnosis.root and diagnosis.root.rank is not None:
        words.append(f"(first {'' if roles else 'rank '}{process_name(roles, diagnosis.root.rank)})")
    return " ".join(words)
