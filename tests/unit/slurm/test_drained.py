# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that Slurm drains for a job's sake: which are told, of which job, and what an administrator has to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import evidence
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_report
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import drained
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from tests.unit.run.test_launches import entry, look, make_run, outcome, row
from tests.unit.slurm.recorded import NO_ACCOUNTING, NO_CONTROLLER, FakeSlurm, said

#: sinfo --Node --states=drain --format=%N|%E of a lab whose nodes are in two partitions.
SHOWN = """node02|Duplicate jobid
node02|Duplicate jobid
node03|batch job complete failure
node05|disk replaced on Monday
"""
HELD = {"Reason": "launch failed requeued held"}
RESUME = "scontrol update NodeName=node02 State=RESUME"


def slurm(squeue: str, sinfo: str = SHOWN) -> FakeSlurm:
    return FakeSlurm(squeue=said(squeue), sinfo=said(sinfo), sacct=NO_ACCOUNTING, scontrol=said(""))


def test_only_what_slurm_has_drained_for_a_job_counts() -> None:
    assert [(one.node, one.reason) for one in drained.parse(SHOWN)] == [
        ("node02", "Duplicate jobid"),
        ("node03", "batch job complete failure"),
    ]
    assert drained.parse(SHOWN)[0].command == RESUME
    assert drained.parse("garbage\n|Duplicate jobid\n\n") == []


def test_a_job_that_slurm_holds_after_a_crash_names_its_commands(tmp_path: Path) -> None:
    fake = slurm(row("PENDING", **HELD))
    run = make_run(tmp_path, entry("submitted", job_id="7"))
    launch = look(fake, run)
    both = "scontrol update NodeName=node02,node03 State=RESUME"
    assert "scontrol release 7;" in launch["message"] and both in launch["message"]
    assert "Duplicate jobid" in launch["message"] and "node05" not in launch["message"]
    assert [one["node"] for one in launch["drained"]] == ["node02", "node03"]
    assert launch["active"] and not launch["completed"]
    told = evidence.of_pending(final_report(fake.slurm(), RunDirectory(str(run))), launch["reason_code"])
    diagnosis = advice.diagnosis_of(cause.find_cause(told.logs), scan.Scan(), str(tmp_path))
    assert diagnosis.family == "pending" and "scontrol release 7" in diagnosis.remedy
    assert both in diagnosis.remedy
    assert any("node02 is drained" in one.text for one in diagnosis.evidence)


def test_a_job_that_a_drained_node_has_ended_names_the_node(tmp_path: Path) -> None:
    fake = slurm(row("CANCELLED", NodeList="node02", EndTime="1000000000"))
    run = make_run(tmp_path, entry("submitted", job_id="7"))
    launch = look(fake, run)
    assert launch["completed"] and RESUME in launch["message"]
    assert [one["node"] for one in launch["drained"]] == ["node02"], "node03 is not the job's"
    ended = final_report(fake.slurm(), RunDirectory(str(run)))
    told = evidence.of_end(fake.slurm(), RunDirectory(str(run)), ended, SIGNATURES)
    chosen = cause.find_cause(told.logs)
    assert chosen.family == "node_drained" and chosen.root and chosen.root.node == "node02"
    diagnosis = advice.diagnosis_of(chosen, scan.Scan(), str(tmp_path))
    assert RESUME in diagnosis.remedy and "had forgotten" in diagnosis.what


def test_nodes_are_asked_about_once_for_all_jobs(tmp_path: Path) -> None:
    fake = slurm(row("CANCELLED", NodeList="node02", EndTime="1000000000"))
    slurm_client = fake.slurm()
    record = JobRecord("7", "train", "CANCELLED", node_list="node02")
    for _job in range(3):
        assert [one.node for one in drained.of(slurm_client, record, verdict=False)] == ["node02"]
    assert fake.programs.count("sinfo") == 1


@pytest.mark.parametrize(
    ("shown", "files"),
    [
        (row("PENDING", Reason="Resources"), {}),
        (row("PENDING", Reason="JobHeldUser"), {}),
        (row("RUNNING", NodeList="node02"), {}),
        (row("FAILED", NodeList="node02", EndTime="1000000000"), {"outcome_json": outcome(success=False)}),
        (row("COMPLETED", NodeList="node02", EndTime="1000000000"), {"outcome_json": outcome()}),
    ],
)
def test_of_any_other_job_no_node_is_asked_about(tmp_path: Path, shown: str, files: dict[str, object]) -> None:
    fake = slurm(shown)
    launch = look(fake, make_run(tmp_path, entry("submitted", job_id="7"), **files))
    assert launch["drained"] == [] and "sinfo" not in fake.programs


def test_a_slurm_that_does_not_say_is_no_failure(tmp_path: Path) -> None:
    fake = slurm(row("PENDING", **HELD))
    fake.answers["sinfo"] = NO_CONTROLLER
    launch = look(fake, make_run(tmp_path, entry("submitted", job_id="7")))
    assert launch["drained"] == [] and "State=RESUME" in launch["message"]
