# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster's half of a reconciliation, for both kinds of _request of the module reconcile."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import cluster, register
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import RunDirectory
from tests.unit.slurm.recorded import NO_CONTROLLER, FakeSlurm, said
from tests.unit.slurm.test_launches import KEY, SUBMITTED, make_run, outcome, queue, row

SET = "https://git.example.org/jobs.git:jobs"
POLICIES = {"removed": "cancel", "changed": "wait", "relaunch": "never", "max_failures": 3}


def request(root: Path, *wanted: str, **more: Any) -> dict[str, Any]:
    """What the action sends: `wanted` are names, all of one key."""
    listed = [{"name": name, "key": KEY + "f" * 48, "file": f"{name}.yml"} for name in wanted]
    return {
        "state_root": str(root), "set": SET, "facts": {"commit": "abc"}, "policies": POLICIES, "wanted": listed, **more
    }  # fmt: skip


def actions(fake: FakeSlurm, asked: dict[str, Any]) -> list[tuple[str, str, str | None]]:
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
    cluster.prepare(queue("RUNNING").slurm(), request(tmp_path, steps=[asdict(step)]))
    (entry,) = register.entries(str(tmp_path), SET).values()
    assert (entry["file"], entry["commit"], entry["name"]) == ("gpt.yml", "abc", "gpt")

    assert actions(queue("RUNNING"), request(tmp_path)) == [("cancel", "gpt", "7")]
    (step,) = cluster.planned(queue("RUNNING").slurm(), request(tmp_path))
    fake = FakeSlurm(squeue=said(row("CANCELLED")), scancel=said(""))
    assert cluster.prepare(fake.slurm(), request(tmp_path, steps=[asdict(step)])) == []
    assert fake.programs == ["scancel"], "nobody waits for a job without a successor"
    last = RunDirectory(str(run)).events()[-1]
    assert (last["event"], last["reason"]) == ("cancelled", "its spec is gone (removed: cancel)")
    assert actions(queue("CANCELLED", EndTime="1"), request(tmp_path)) == []


def test_a_successor_waits_until_its_predecessor_has_left_and_not_for_ever(tmp_path: Path) -> None:
    run = RunDirectory(str(make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n")))
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    fake = queue("COMPLETING")
    assert cluster.gone(fake.slurm(), [run], sleep=sleep, clock=lambda: clock[0]) == [run]
    assert clock[0] <= cluster.GONE_SECONDS and fake.programs.count("squeue") < 30
    assert cluster.gone(queue("CANCELLED", EndTime="1").slurm(), [run], sleep=sleep, clock=lambda: clock[0]) == []
