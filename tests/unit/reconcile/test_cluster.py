# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster's half of a reconciliation, for both kinds of x_request of the module reconcile."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import cluster, register
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.request import ReconcileRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from tests.unit.run.test_launches import KEY, NOW, SUBMITTED, entry, make_run, outcome, queue, row
from tests.unit.slurm.recorded import NO_CONTROLLER, FakeSlurm, said
from tests.writers import Run

SET = "https://git.example.org/jobs.git:jobs"
POLICIES = {"removed": "cancel", "changed": "wait", "relaunch": "never", "max_failures": 3}


def request(root: Path, *wanted: str, **more: Any) -> ReconcileRequest:
    """What the action sends: `wanted` are names, all of one key."""
    rest = {"elements": [], "after": []}
    listed = [{"name": name, "key": KEY + "f" * 48, "file": f"{name}.yml", **rest} for name in wanted]
    sent = {"state_root": str(root), "set": SET, "facts": {"commit": "abc"}, "policies": POLICIES, "wanted": listed}
    return ReconcileRequest.of(json.loads(json.dumps({**sent, "steps": None, **more})))


def actions(fake: FakeSlurm, asked: ReconcileRequest) -> list[tuple[str, str, str | None]]:
    return [(step.action, step.name, step.job_id) for step in cluster.planned(fake.slurm(), asked)]


def test_what_is_there_by_one_question(tmp_path: Path) -> None:
    make_run(tmp_path, *SUBMITTED, name="gpt", outcome_json=outcome(False), generation=1)
    make_run(tmp_path, *SUBMITTED, name="gpt", generation=2)
    make_run(tmp_path, *SUBMITTED, name="stranger")
    fake = queue("RUNNING")
    assert actions(fake, request(tmp_path, "gpt", "new")) == [("adopt", "gpt", "7"), ("launch", "new", None)]
    assert fake.programs.count("squeue") == 1


def test_a_silent_slurm_plans_nothing(tmp_path: Path) -> None:
    make_run(tmp_path, *SUBMITTED)
    with pytest.raises(SlurmUnavailable, match="Nothing is planned and nothing is done"):
        cluster.planned(FakeSlurm(squeue=NO_CONTROLLER).slurm(), request(tmp_path, "gpt"))


def test_only_what_the_set_has_registered_is_cancelled(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n")
    assert actions(queue("RUNNING"), request(tmp_path)) == [], "another's"
    (step,) = cluster.planned(queue("RUNNING").slurm(), request(tmp_path, "gpt"))
    cluster.prepare(queue("RUNNING").slurm(), request(tmp_path, "gpt", steps=[asdict(step)]))
    (entry,) = register.entries(str(tmp_path), SET).values()
    assert (entry["file"], entry["commit"], entry["name"]) == ("gpt.yml", "abc", "gpt")

    assert actions(queue("RUNNING"), request(tmp_path)) == [("cancel", "gpt", "7")]
    (step,) = cluster.planned(queue("RUNNING").slurm(), request(tmp_path))
    fake = FakeSlurm(squeue=said(row("CANCELLED")), scancel=said(""))
    assert cluster.prepare(fake.slurm(), request(tmp_path, steps=[asdict(step)])) == []
    assert fake.programs == ["scancel"], "nobody waits for a job without a successor"
    last = RunDirectory(str(run)).events()[-1]
    assert (last["event"], last["reason"]) == ("cancelled", "its spec is gone (removed: cancel)")
    ended = queue("CANCELLED", EndTime="1")
    assert actions(ended, request(tmp_path)) == [("gone", "gpt", "7")], "a line, until that was carried out"
    (step,) = cluster.planned(ended.slurm(), request(tmp_path))
    cluster.prepare(ended.slurm(), request(tmp_path, steps=[asdict(step)]))
    assert actions(ended, request(tmp_path)) == []
    assert list(register.entries(str(tmp_path), SET).values()) == [{**entry, "gone": True}]
    assert actions(ended, request(tmp_path, "gpt")) == [("failed", "gpt", "7")], "the file is back"


def test_a_successor_waits_until_its_predecessor_has_left_and_not_for_ever(tmp_path: Path) -> None:
    run = RunDirectory(str(make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n")))
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    fake = queue("COMPLETING")
    assert cluster.gone(fake.slurm(), [run], sleep=sleep, clock=lambda: clock[0]) == [run]
    assert clock[0] <= cluster.GONE_SECONDS and fake.programs.count("squeue") < 30
    assert cluster.gone(queue("CANCELLED", EndTime="1").slurm(), [run], sleep=sleep, clock=lambda: clock[0]) == []


def in_array(root: Path, task: int, **files: Any) -> Path:
    """The folder of an element that is task `task` of the array 7."""
    intent = entry("intent", array=f".sweep-{KEY}/1", task=task)
    run = make_run(root, intent, name="lr", key=f"{task:016x}", **files)
    Run.below(root, "lr", f".sweep-{KEY}").journal(entry("submitted", job_id="7"))
    return run


def test_all_jobs_of_a_launch_that_waits_are_cancelled(tmp_path: Path) -> None:
    """It has been submitted several times (resources.any_of)."""
    run = make_run(tmp_path, *SUBMITTED)
    Run(run).journal(*({"time": 1.0, "event": "alternative", "job_id": job_id} for job_id in ("8", "9")))
    (step,) = cluster.planned(queue("PENDING").slurm(), request(tmp_path, "gpt"))
    cluster.prepare(queue("PENDING").slurm(), request(tmp_path, "gpt", steps=[asdict(step)]))
    (step,) = cluster.planned(queue("PENDING").slurm(), request(tmp_path))
    fake = FakeSlurm(squeue=said(row("CANCELLED")), scancel=said(""))
    cluster.prepare(fake.slurm(), request(tmp_path, steps=[asdict(step)]))
    assert [argv[1:] for argv in fake.asked] == [["7", "8", "9"]]


def test_a_sweep_is_registered_by_one_entry_and_cancelled_by_one_command(tmp_path: Path) -> None:
    runs = [in_array(tmp_path, 0, outcome_json=outcome()), in_array(tmp_path, 1), in_array(tmp_path, 2)]
    rows = "".join(row("RUNNING", JobArrayID=f"7_{task}", Name=f"lr.{KEY}.1") for task in (1, 2))
    fake = FakeSlurm(squeue=said(rows), scontrol=said("node01\nnode02\n"), scancel=said(""))
    listed = {"name": "lr", "key": KEY, "file": "lr.yml", "after": []}
    wanted = [{**listed, "elements": [f"{number:016x}{'0' * 48}" for number in range(4)]}]
    (step,) = cluster.planned(fake.slurm(), request(tmp_path, wanted=wanted))
    assert (step.action, step.recorded, step.submits) == ("launch", False, (f"{3:016x}",))
    assert step.reason == "1 of 4 elements succeeded, 2 running, 1 unsubmitted" and step.job_id == "7"
    assert [argv[-1] for argv in fake.asked if argv[0].endswith("squeue")] == ["--jobs=7"], "one question"
    cluster.prepare(fake.slurm(), request(tmp_path, wanted=wanted, steps=[asdict(step)]))
    assert list(register.entries(str(tmp_path), SET)) == [("lr", KEY)]

    (step,) = cluster.planned(fake.slurm(), request(tmp_path))
    assert (step.action, step.name, step.key, step.kind) == ("cancel", "lr", KEY, "sweep")
    fake.asked.clear()
    assert cluster.prepare(fake.slurm(), request(tmp_path, steps=[asdict(step)])) == []
    assert [argv[1:] for argv in fake.asked] == [["7_1", "7_2"]]
    ended = [RunDirectory(str(run)).own_events()[-1]["event"] for run in runs]
    assert ended == ["intent", "cancelled", "cancelled"]


def test_when_a_launch_was_submitted_last(tmp_path: Path) -> None:
    """A job that another one goes on for is as new as that one's claim: what waited for the first one was ended."""
    run = make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n")
    (found,) = cluster.newest_generations(queue("RUNNING").slurm(), str(tmp_path), SET, ["gpt"])
    assert found.since == 0.0 and found.begun, "nobody asks"
    (found,) = cluster.newest_generations(queue("RUNNING").slurm(), str(tmp_path), SET, ["gpt"], ["gpt"])
    assert found.since == NOW - 100
    (run / "claim").write_text("1 lab 8\n")
    os.utime(run / "claim", (NOW, NOW - 5))
    fake = queue("RUNNING", JobArrayID="8")
    (found,) = cluster.newest_generations(fake.slurm(), str(tmp_path), SET, ["gpt"], ["gpt"])
    assert abs(found.since - (NOW - 5)) < 0.001 and found.job_id == "8"
