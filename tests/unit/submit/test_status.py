# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a launch: a table of run directories and answers of Slurm, and whoever tells it tells the same."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnose import diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import cluster as reconcile
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import results
from ansible_collections.rankzero.slurm.plugins.module_utils.run import launches, select
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import launch_list
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.history import History
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.listing import listing
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE, STANDINGS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import RunFacts, status_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord, query_squeue
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep import SweepSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import Element
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll, View
from tests.unit.submit.bench import NOW, Bench
from tests.unit.submit.grid import Grid
from tests.writers import Run

LONG_AGO = NOW - 5000.0
INTENT = {"time": LONG_AGO, "event": "intent", "submitter": "elsewhere:1"}
SUBMITTED = {"time": LONG_AGO, "event": "submitted", "job_id": "101"}
REJECTED = {"time": LONG_AGO, "event": "rejected", "message": "Invalid account"}


def begun(job: Run) -> Run:
    return job.claimed().started(at=NOW - 4500, nodes=["node01"])


def ended(by: str) -> Callable[[Run], Run]:
    """The verdict on attempt 0."""
    code = 0 if by == "artifact" else 1
    return lambda job: job.claimed().ended(code, "so it ended", by=by, began=NOW - 4500, at=NOW - 4000)


# What lies in the run directory: its journal, and what the job has written.
DIRECTORIES: dict[str, tuple[list[dict[str, Any]], Callable[[Run], object]]] = {
    "intent": ([INTENT], id),
    "refused": ([INTENT, REJECTED], id),
    # A submission that was lost has arrived after all, and the one that repeated it was refused.
    "refused, but claimed": ([INTENT, INTENT, REJECTED], begun),
    "submitted": ([INTENT, SUBMITTED], id),
    "started": ([INTENT, SUBMITTED], begun),
    "success": ([INTENT, SUBMITTED], ended("artifact")),
    "failure": ([INTENT, SUBMITTED], ended("program")),
    "signal": ([INTENT, SUBMITTED], ended("signal")),
    "requeue": ([INTENT, SUBMITTED], ended("requeue")),
    "failure, started anew": (
        [INTENT, SUBMITTED],
        lambda job: ended("program")(job).started(1, at=NOW - 4500, nodes=["node01"]),
    ),
}
# What Slurm says of the job. "gone": everybody answers and shows none; "queue": so does squeue, and accounting is
# silent; "restarts": the job runs again and has not said so yet; "closing": its script has ended, it has not.
ANSWERS: dict[str, dict[str, Any] | None] = {
    "pending": {"state": "PENDING"},
    "running": {"state": "RUNNING"},
    "restarts": {"state": "RUNNING", "restarts": 1},
    "closing": {"state": "COMPLETING"},
    "ended": {"state": "FAILED", "exit": 1},
    "gone": None,
    "queue": None,
    "silent": None,
}
W, R, S, F, _WITHDRAWN, L, U, _UNTRUSTED = STANDINGS
TABLE = {
    #                        pending running restarts closing ended gone queue silent
    "intent":                (W, R, R, R, F, L, L, U),
    "refused":               (F, F, F, F, F, F, F, F),
    "refused, but claimed":  (W, R, R, R, F, F, U, U),
    "submitted":             (W, R, R, R, F, F, U, U),
    "started":               (W, R, R, R, F, F, U, U),
    "success":               (S, S, S, S, S, S, S, S),
    "failure":               (W, F, R, F, F, F, F, F),
    "signal":                (W, R, R, R, F, F, U, U),
    "requeue":               (W, R, R, R, F, F, U, U),
    "failure, started anew": (W, R, R, R, F, F, U, U),
}  # fmt: skip
ROWS = [(directory, answer, TABLE[directory][column]) for directory in TABLE for column, answer in enumerate(ANSWERS)]


@dataclass
class Case:
    """One launch in a state: its run directory, and a Slurm that knows its job or does not."""

    grid: Grid
    directory: str
    answer: str

    def __post_init__(self) -> None:
        journal, job_wrote = DIRECTORIES[self.directory]
        made = Run(Path(self.run.path), "101").journal(*journal).launch()
        (made.path / "job.sbatch").write_text("#!/bin/bash\n")
        job_wrote(made)
        job = ANSWERS[self.answer]
        # A job that was refused does not exist.
        if job is not None and self.directory != "refused":
            self.bench.cluster.jobs["101"] = {
                "name": self.bench.name(), "squeue": True, "exit": 0, "submit": int(LONG_AGO), **job
            }  # fmt: skip
        self.bench.cluster.accounting = self.answer != "queue"
        self.bench.cluster.down = self.answer == "silent"

    @property
    def bench(self) -> Bench:
        return self.grid.bench

    @property
    def run(self) -> Any:
        return self.bench.run()

    @property
    def certain(self) -> bool:
        """Whether the run directory says it all, so that Slurm need not be asked."""
        return status_of(RunFacts.read(self.run)).over

    def record(self) -> JobRecord | None:
        found = query_squeue(self.grid.slurm(), []) if self.answer != "silent" else []
        return found[0] if found else None


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return Grid(tmp_path)


def acting(tell: Callable[[Case], str]) -> Callable[[Case], str]:
    """Those who act on a status do nothing where only Slurm can tell: that is no other answer."""

    @functools.wraps(tell)
    def told(case: Case) -> str:
        try:
            return tell(case)
        except SlurmUnavailable:
            assert case.answer in ("queue", "silent") and not case.certain
            return "refuses"

    return told


@acting
def submit(case: Case) -> str:
    result = case.bench.launch(check_mode=True, relaunch="never")
    if result["submission"] == "planned":
        return L
    assert result["submission"] == ("adopted" if result["standing"] in ACTIVE else "unchanged")
    return str(result["standing"])


def sweep_launcher(case: Case) -> SweepSubmission:
    launcher = case.grid.launcher(True, relaunch="never")
    element = Element(0, case.bench.request.key, {"lr": "1"}, "export LR=1")
    object.__setattr__(launcher.request, "elements", [element])
    return launcher


@acting
def sweep(case: Case) -> str:
    (row,) = sweep_launcher(case).launch().result()["elements"]
    return str(row["standing"])


def sweep_info(case: Case) -> str:
    folder = Path(case.grid.runs / ".sweep-5555")
    folder.mkdir()
    element = {"number": 0, "key": case.bench.request.key, "parameters": {"lr": "1"}}
    record = {"name": "job", "key": "5" * 64, "artifact": None, "metric": None, "goal": "min", "elements": [element]}
    (folder / "sweep.json").write_text(json.dumps(record))
    answer = results(case.grid.slurm(), {"sweep_dir": str(folder)}).as_dict()
    (row,) = answer["elements"]
    assert answer["completed"] == (row["standing"] in (S, F, L))
    return str(row["standing"])


def told_by(report: dict[str, Any]) -> str:
    """What a report of module job_info or job_wait says."""
    assert (report["active"], report["completed"], report["success"]) in (
        (True, False, False), (False, True, False), (False, True, True), (False, False, False)
    )  # fmt: skip
    assert report["completed"] == (report["standing"] in (S, F)) and report["success"] == (report["standing"] == S)
    assert report["active"] == (report["standing"] in ACTIVE or (report["standing"] == U and bool(report["job_id"])))
    return str(report["standing"])


def info(case: Case) -> str:
    options = {**dict.fromkeys(select.RUN_ARGUMENTS), "state_root": "/nowhere", "run_dir": case.run.path}
    (launch,) = launch_list.job_info(case.grid.slurm(), options)["launches"]
    return told_by(launch)


def wait(case: Case) -> str:
    return told_by(launches.final_report(case.grid.slurm(), case.run).as_dict())


def status_listing(case: Case) -> str:
    _head, line = listing([launches.final_report(case.grid.slurm(), case.run).as_dict()], NOW)
    return line.split()[4]


def diagnosis(case: Case) -> str:
    defaults = {name: option.get("default") for name, option in DIAGNOSIS_SPEC.items()}
    options = {**defaults, "run_dir": case.run.path, "write": False, "processes": 1}
    launch = diagnose(case.grid.slurm(), options)["diagnosis"]["launch"]
    return str(launch["standing"])


def logs(case: Case) -> str:
    return "over" if launches.is_over(case.run, case.grid.slurm(), ask=True, often=False) else "open"


def prune(case: Case) -> str:
    slurm = case.grid.slurm()
    launches = inventory.Launches([case.run], History(case.bench.request.state_root), NOW - 30 * 86400)
    (run,) = inventory.runs(slurm, inventory.queue(slurm), launches)
    return "open" if run.end is None else "over"


@acting
def plan(case: Case) -> str:
    known = reconcile.newest_generations(case.grid.slurm(), case.bench.request.state_root, "set", ["job"])
    return known[0].standing


def watch(case: Case) -> str:
    facts = RunFacts.read(case.run)
    waits = Watch(case.run.path, facts.job_id or "101", outcome_grace=0)
    record = case.record()
    rows = {"101": record} if record else {}
    silent = "Slurm is silent" if case.answer == "silent" else ""
    view = View(exists=True, claim=case.run.claim(), started=facts.started, outcome=case.run.document("outcome.json"))
    for moment in (0.0, 100.0, 200.0):
        waits.feed(Poll(True, True, silent, rows, (view,)), moment)
    return "over" if waits.ended else "open"


def expected_of(consumer: Callable[[Case], str], case: Case, state: str) -> set[str]:
    """How a consumer may say a standing: by the standing itself, or "over" or "open" where it says no more."""
    over = state in (F, S)
    if consumer in (submit, sweep, plan):
        # A plan leaves a job alone whose end is not known.
        words = {state} if state != U else {R} if consumer is plan and RunFacts.read(case.run).job_id else {"refuses"}
        # While slurmctld is silent nothing is planned or submitted, so nobody needs an answer.
        return words | ({"refuses"} if case.answer == "silent" and not case.certain else set())
    if consumer in (sweep_info, info, wait, status_listing, diagnosis):
        return {state}
    if consumer is prune:
        # What Slurm still shows is used, whatever has become of it.
        record = case.record()
        return {"over"} if over and not (record and record.active) else {"open"}
    return {"over"} if over else {"open"}


CONSUMERS = (submit, sweep, sweep_info, info, wait, status_listing, diagnosis, logs, prune, plan, watch)


def asks(consumer: Callable[[Case], str], directory: str, answer: str) -> bool:
    """Whether a consumer can be asked: nobody waits for a job that is not known, or asks accounting for one."""
    return consumer is not watch or (answer != "queue" and directory not in ("intent", "refused"))


@pytest.mark.parametrize(("directory", "answer", "state"), ROWS, ids=lambda word: word.replace(" ", "-"))
def test_everybody_tells_the_same(grid: Grid, directory: str, answer: str, state: str) -> None:
    case = Case(grid, directory, answer)
    asked = [consumer for consumer in CONSUMERS if asks(consumer, directory, answer)]
    told = {consumer: consumer(case) for consumer in asked}
    wrong = [
        f"{consumer.__name__}: {word}"
        for consumer, word in told.items()
        if word not in expected_of(consumer, case, state)
    ]
    assert wrong == []
