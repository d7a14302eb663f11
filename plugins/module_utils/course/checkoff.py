# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check-off of a class: read every student's runs, query Slurm once, and give one verdict for each task."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.course import folders, judge, records
from ansible_collections.rankzero.slurm.plugins.module_utils.course.claims import Claims, HandedIn, runs_of
from ansible_collections.rankzero.slurm.plugins.module_utils.course.judge import (
    FAILED,
    PASSED,
    UNPROVEN,
    Expected,
    Verdict,
    Word,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.course.students import Student, quoted
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import whoami

ACTION_ARGUMENTS: dict[str, Any] = {
    # options of course_checkoff: written by make reference
    "root": {"type": "path", "required": True},
    "students": {"type": "list", "elements": "str", "default": []},
    "job": {"type": "str", "default": "ddp-lab"},
    "nodes": {"type": "list", "elements": "int", "default": [3, 5]},
    "ranks_per_node": {"type": "int", "default": 2},
    "artifact": {"type": "str", "default": "result.json"},
    "saved": {"type": "list", "elements": "str", "default": ["model.pt"]},
    "epoch_time": {"type": "str", "default": "seconds_per_epoch"},
    "code": {"type": "list", "elements": "str", "default": []},
    "pick": {"type": "str", "choices": ["latest", "best"], "default": "latest"},
    "clock_slack": {"type": "float", "default": 10.0},
    "dest": {"type": "path"},
    "evidence": {"type": "bool", "default": False},
    # end of options
}
# Without the options of the action on the controller, which writes the result.
ARGUMENTS = {name: option for name, option in ACTION_ARGUMENTS.items() if name not in ("dest", "evidence")}


@dataclass
class Handed:
    """One run that a student has handed in, with its verdicts."""

    run: Claims
    word: Word
    verdicts: list[Verdict]

    @property
    def submitted(self) -> float:
        """The submit time in epoch seconds: from Slurm, or else as the student's files state it."""
        job = self.word.job
        return (job.submit if job else None) or self.run.submitted or 0.0

    @property
    def passed(self) -> int:
        """The number of criteria that passed."""
        return sum(verdict.result == PASSED for verdict in self.verdicts)


@dataclass
class Sheet:
    """One student: the runs that count, by number of nodes; all runs; and the verdicts."""

    student: Student
    chosen: dict[int, Handed] = field(default_factory=dict)
    handed: list[Handed] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def result(self) -> str:
        """FAILED if any criterion failed, UNPROVEN if any could not be judged, else PASSED."""
        results = [verdict.result for verdict in self.verdicts]
        return FAILED if FAILED in results else UNPROVEN if UNPROVEN in results else PASSED

    @property
    def passed(self) -> int:
        """The number of criteria that passed."""
        return sum(verdict.result == PASSED for verdict in self.verdicts)


def check(slurm: Slurm, options: Parameters) -> ModuleResult:
    """The result of module course_checkoff for ARGUMENTS. Changes nothing. Raises `RankzeroError`."""
    root = os.path.realpath(options["root"])
    course = folders.read(root)
    if course is None:
        raise RankzeroError(
            f"root: {root} contains no class ({folders.RECORD} is missing). Module rankzero.slurm.course_class, or the "
            "playbook rankzero.slurm.course, makes one."
        )
    _check_options(options)
    class_ = _asked(course, options["students"])
    most_logs = max(options["nodes"]) * (options["ranks_per_node"] + 1)
    looked_for = HandedIn(options["artifact"], options["saved"], most_logs)
    handed_in = {student.id: runs_of(folders.home_of(root, student), options["job"], looked_for) for student in class_}
    asked = records.query_jobs(slurm, [run.job_id for runs in handed_in.values() for run in runs if run.job_id])
    sheets = [_sheet(root, student, handed_in, asked, course, options) for student in class_]
    _same_results(sheets, options["artifact"])
    students = [_as_dict(sheet) for sheet in sheets]
    return {
        "course": course.name,
        "accounting": asked.accounting,
        "students": students,
        "counts": {word: sum(sheet.result == word for sheet in sheets) for word in (PASSED, FAILED, UNPROVEN)},
        "lines": _table(course, asked, sheets, options),
        "csv": _csv(sheets, options["nodes"]),
        "slurm_commands": slurm.commands,
    }


def _check_options(options: Mapping[str, Any]) -> None:
    job = options["job"]
    if not job or "/" in job or job.startswith("."):
        raise RankzeroError(f"job: {quoted(job)} is not a job name; give the name in the job file")
    nodes = options["nodes"]
    if not nodes or any(count < 1 for count in nodes) or len(set(nodes)) != len(nodes):
        raise RankzeroError(f"nodes: {nodes} must be different numbers of at least 1, as [3, 5]")
    for name in (options["artifact"], *options["saved"]):
        if os.path.isabs(name) or ".." in name.split("/") or not name:
            raise RankzeroError(f"artifact, saved: {quoted(name)} is not a path in the working directory of a run")


def _asked(course: folders.Course, ids: Sequence[str]) -> list[Student]:
    known = {student.id: student for student in course.everyone}
    unknown = [student_id for student_id in ids if student_id not in known]
    if unknown:
        raise RankzeroError(
            f"students: {', '.join(map(quoted, unknown))} {'is' if len(unknown) == 1 else 'are'} not in the class "
            f"{course.name}; it has {', '.join(known) or 'no students'}"
        )
    return [known[student_id] for student_id in ids] if ids else list(course.students)


def _sheet(
    root: str,
    student: Student,
    handed_in: Mapping[str, Sequence[Claims]],
    asked: records.Records,
    course: folders.Course,
    options: Mapping[str, Any],
) -> Sheet:
    sheet, home = Sheet(student), folders.home_of(root, student)
    # If Slurm does not know a job's owner, one job can still be the run of only one student.
    others = {
        run.job_id: other
        for other, runs in handed_in.items()
        for run in runs
        if other != student.id and run.job_id not in asked.jobs
    }
    runs = handed_in[student.id]
    for nodes in options["nodes"]:
        expected = Expected(
            nodes=nodes,
            ranks_per_node=options["ranks_per_node"],
            user=student.user,
            account=student.account if course.accounts and asked.accounting == "ok" else None,
            saved=options["saved"],
            artifact=options["artifact"],
            code=options["code"],
            clock_slack=options["clock_slack"],
            others=others,
        )
        words = [(run, _word(asked, run, student)) for run in runs if run.nodes == nodes]
        judged = [Handed(run, word, judge.judge(run, word, expected)) for run, word in words]
        sheet.handed += judged
        if judged:
            best = options["pick"] == "best"
            sheet.chosen[nodes] = max(judged, key=lambda handed: (handed.passed if best else 0, handed.submitted))
            sheet.verdicts += sheet.chosen[nodes].verdicts
        elif not os.access(home, os.R_OK | os.X_OK):
            why = f"{home} cannot be read: run the check-off as root, or name a group of yours in module course_class"
            sheet.verdicts += judge.missing(nodes, why, unreadable=True)
        else:
            sheet.verdicts += judge.missing(nodes, _why_none(nodes, runs, options["job"]), unreadable=False)
    if len(options["nodes"]) > 1:
        by_nodes = {nodes: (handed.run, handed.word) for nodes, handed in sheet.chosen.items()}
        sheet.verdicts.append(
            judge.epoch_time(
                by_nodes, options["nodes"], options["epoch_time"], options["artifact"], options["clock_slack"]
            )
        )
    for handed in sheet.chosen.values():
        if handed.word.job is not None and handed.word.job.active:
            sheet.notes.append(f"job {handed.run.job_id} has not ended ({handed.word.job.state}): check again later")
    return sheet


def _word(asked: records.Records, run: Claims, student: Student) -> Word:
    """Slurm's record of a run. If the reader may not see others' jobs, there is none, which proves nothing."""
    word = asked.word(run.job_id)
    if word.job is None and not word.silent and os.geteuid() != 0 and student.user != whoami()[0]:
        return Word(
            silent="accounting does not show it to you: an operator sees others' jobs, where PrivateData hides jobs"
        )
    return word


def _why_none(nodes: int, runs: Sequence[Claims], job: str) -> str:
    others = sorted({run.nodes for run in runs if run.nodes})
    has = f"runs of {job} on {', '.join(map(str, others))} nodes" if others else f"no run of {job}"
    return f"no run on {nodes} nodes; there {'are' if others else 'is'} {has}"


def _same_results(sheets: Sequence[Sheet], artifact: str) -> None:
    """Note equal results: each contains an epoch's time, so no two runs produce the same. A person must decide whose
    it is.
    """
    owners: dict[str, list[tuple[Sheet, str]]] = {}
    for sheet in sheets:
        for handed in sheet.handed:
            file = handed.run.files.get(f"work/{artifact}")
            if file is not None and file.sha256 and file.size:
                owners.setdefault(file.sha256, []).append((sheet, handed.run.job_id))
    for submissions in owners.values():
        for sheet, job_id in submissions:
            others = sorted(
                {f"{other.student.id} (job {theirs})" for other, theirs in submissions if other is not sheet}
            )
            if others:
                sheet.notes.append(f"{artifact} of job {job_id} is byte for byte that of {', '.join(others)}")


def _as_dict(sheet: Sheet) -> dict[str, Any]:
    counted = [handed.run.path for handed in sheet.chosen.values()]
    return {
        "id": sheet.student.id,
        "result": sheet.result,
        "passed": sheet.passed,
        "of": len(sheet.verdicts),
        "tasks": [
            {
                "task": verdict.task,
                "nodes": verdict.nodes,
                "result": verdict.result,
                "evidence": [asdict(item) for item in verdict.evidence],
            }
            for verdict in sheet.verdicts
        ],
        "runs": [
            {
                "run_dir": handed.run.path,
                "nodes": handed.run.nodes,
                "job_id": handed.run.job_id,
                "generation": handed.run.generation,
                "submitted": handed.submitted,
                "state": handed.word.job.state if handed.word.job else "UNKNOWN",
                "passed": handed.passed,
                "of": len(handed.verdicts),
                "counts": handed.run.path in counted,
            }
            for handed in sorted(sheet.handed, key=lambda handed: handed.submitted)
        ],
        "notes": sheet.notes,
        "lines": _details(sheet, every=True),
    }


MARKS = {PASSED: "ok", FAILED: "FAIL", UNPROVEN: "?"}
WORDS = {judge.SLURM: "Slurm", judge.SYSTEM: "file system", judge.STUDENT: "student's word"}


def _table(
    course: folders.Course, asked: records.Records, sheets: Sequence[Sheet], options: Mapping[str, Any]
) -> list[str]:
    """The class as text: one line for each student, then what each has not passed, with the evidence."""
    columns = [*judge.RUN_TASKS]
    count = f"{len(sheets)} student{'' if len(sheets) == 1 else 's'}"
    lines = [f"{course.name}: {count}, job {options['job']}; of several runs the {options['pick']} one counts"]
    if asked.accounting == "disabled":
        lines.append(
            "This cluster has no accounting: for jobs no longer in the queue, only the students' files are evidence."
        )
    elif asked.accounting == "silent":
        lines.append("Accounting does not answer: check again later.")
    wide = max([len("student"), *(len(sheet.student.id) for sheet in sheets)])
    head = "  ".join(columns)
    lines.append(f"{'student':{wide}}  {'nodes':5}  {'job':>8}  {head}  epochs  result")
    for sheet in sheets:
        for row, nodes in enumerate(options["nodes"]):
            verdicts = {verdict.task: verdict for verdict in sheet.verdicts if verdict.nodes == nodes}
            cells = "  ".join(f"{MARKS[verdicts[task].result]:{len(task)}}" for task in columns)
            job = sheet.chosen[nodes].run.job_id if nodes in sheet.chosen else "-"
            line = f"{sheet.student.id if row == 0 else '':{wide}}  {nodes:<5}  {job or '-':>8}  {cells}"
            if row == 0:
                epochs = next((MARKS[epoch.result] for epoch in sheet.verdicts if epoch.nodes is None), "")
                line += f"  {epochs:6}  {sheet.result} {sheet.passed} of {len(sheet.verdicts)}"
            lines.append(line.rstrip())
    for sheet in sheets:
        details = _details(sheet, every=False)
        lines += [f"{sheet.student.id}:", *(f"  {line}" for line in details)] if details else []
    return lines


def _details(sheet: Sheet, *, every: bool) -> list[str]:
    """The evidence as lines, each with a mark; without `every`, only evidence that does not support a task."""
    lines = []
    for verdict in sheet.verdicts:
        if verdict.nodes is not None and verdict.nodes not in sheet.chosen:
            # One sentence covers all tasks of a missing run.
            what = f"{verdict.nodes} nodes"
        else:
            what = verdict.task + (f", {verdict.nodes} nodes" if verdict.nodes else "")
        for evidence in verdict.evidence:
            if every or evidence.ok is not True:
                result = PASSED if evidence.ok else UNPROVEN if evidence.ok is None else FAILED
                lines.append(f"{MARKS[result]:4}  {what}: {evidence.text} ({WORDS[evidence.source]})")
    return [*dict.fromkeys(lines), *(f"note  {note}" for note in sheet.notes)]


def _csv(sheets: Sequence[Sheet], nodes: Sequence[int]) -> str:
    """One line for each student. No cell contains text from a student, so none can be a formula in a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    tasks = [(verdict.task, verdict.nodes) for verdict in sheets[0].verdicts] if sheets else []
    names = [task if count is None else f"{task}_{count}" for task, count in tasks]
    writer.writerow(["student", "result", "passed", "of", *(f"job_{count}" for count in nodes), *names])
    for sheet in sheets:
        jobs = [sheet.chosen[count].run.job_id if count in sheet.chosen else "" for count in nodes]
        results = [verdict.result for verdict in sheet.verdicts]
        writer.writerow([sheet.student.id, sheet.result, sheet.passed, len(results), *jobs, *results])
    return text.getvalue()
