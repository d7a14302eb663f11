# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same jobs on every release that labs run, told by squeue, scontrol and sacct (record_states.py made them)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import release
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import (
    cluster,
    jobs,
    parse,
    partitions,
    reasons,
    states,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from tests.unit.slurm.recorded import FakeSlurm, recorded, said

RELEASES = ["22.05", "24.11", "26.05"]
every_release = pytest.mark.parametrize("version", RELEASES)

#: Name -> (state, how a person is told it: the reason of a waiting job, the end of an ended one, "" for a running one).
STORY = {
    "completed": ("COMPLETED", "COMPLETED: the batch script ended with exit code 0"),
    "fail3": ("FAILED", "FAILED: the batch script failed, exit code 3 (NonZeroExitCode)"),
    "signalled": ("FAILED", "FAILED: the batch script failed, signal 11"),
    "cancelled": ("CANCELLED", "CANCELLED: it was cancelled, signal 15"),
    "cancelled-waiting": ("CANCELLED", "CANCELLED: it was cancelled"),
    "timeout": (
        "TIMEOUT",
        "TIMEOUT: it reached its time limit; raise resources.time or resume from a checkpoint (TimeLimit)",
    ),
    "node-fail": ("NODE_FAIL", "NODE_FAIL: one of its nodes failed (NodeDown)"),
    "preempted": ("PREEMPTED", "PREEMPTED: a job with a higher priority took its nodes"),
    "held": ("PENDING", "held by its owner (JobHeldUser)"),
    "later": ("PENDING", "its earliest start time has not come (BeginTime)"),
    "dependent": ("PENDING", "waiting for another job to end (Dependency)"),
    "never": ("PENDING", "the job it depends on ended in a way that can never satisfy the dependency"),
    "toomany": ("PENDING", "it asks for more nodes than the partition allows or has up (PartitionNodeLimit)"),
    "toolong": ("PENDING", "its time limit is above the limit of the partition (PartitionTimeLimit)"),
    "requeue-held": ("PENDING", "requeued and held (job_requeued_in_held_state)"),
    "wide": ("PENDING", "waiting for enough free nodes (Resources)"),
    "running": ("RUNNING", ""),
    "urgent": ("RUNNING", ""),
    "requeued": ("RUNNING", ""),
    "node-fail-requeued": ("RUNNING", ""),
    "suspended": ("SUSPENDED", ""),
    'we|ird na=me %j "q" Name=x': ("RUNNING", ""),
    "new\nline\x1fsep\ttab": ("RUNNING", ""),
    "het": ("RUNNING", ""),
}


def told(record: JobRecord) -> str:
    if record.pending:
        return reasons.explain(record.reason).sentence
    if record.final:
        return states.describe_end(record.state, record.exit_code, record.signal, record.reason)
    return ""


def by_name(records: list[JobRecord]) -> dict[str, JobRecord]:
    return {record.name: record for record in records if not record.job_id.startswith(ARRAY)}


ARRAY = "22"


def squeue(version: str) -> list[JobRecord]:
    return jobs.query_squeue(FakeSlurm(squeue=said(recorded("states_squeue.txt", version))).slurm(), [])


def scontrol(version: str) -> list[JobRecord]:
    answer = said(recorded("states_scontrol_job.txt", version))
    return jobs.query_scontrol(FakeSlurm(scontrol=answer).slurm(), "1")


def sacct(version: str) -> list[JobRecord]:
    slurm = FakeSlurm(sacct=said(recorded("states_sacct.txt", version))).slurm()
    records = jobs.query_sacct(slurm, [], 0)
    assert (slurm.accounting, slurm.notes) == ("ok", [])
    return records


@every_release
@pytest.mark.parametrize("source", [squeue, scontrol])
def test_every_state_of_the_queue(version: str, source: Any) -> None:
    found = by_name(source(version))
    assert set(found) >= set(STORY)
    for name, (state, text) in STORY.items():
        record = found[name]
        assert record.state == state, name
        assert told(record).startswith(text) and bool(told(record)) == bool(text), f"{name}: {told(record)}"


@every_release
@pytest.mark.parametrize("source", [squeue, scontrol])
def test_the_numbers_of_the_queue(version: str, source: Any) -> None:
    found = by_name(source(version))
    running = found["running"]
    assert (running.partition, running.nodes, running.node_list) == ("batch", 1, "node02")
    assert running.work_dir == "/shared" and running.user == "root" and running.end is None
    assert running.submit and running.start and running.submit <= running.start
    assert running.elapsed and running.elapsed > 60
    assert (found["fail3"].exit_code, found["fail3"].signal) == (3, 0)
    assert found["fail3"].end and found["fail3"].start
    assert found["signalled"].signal == 11
    assert (found["requeued"].restarts, found["node-fail-requeued"].restarts, running.restarts) == (1, 1, 0)
    assert found["held"].start is None and found["wide"].nodes == 7


@every_release
@pytest.mark.parametrize("source", [squeue, scontrol, sacct])
def test_arrays_and_het_jobs(version: str, source: Any) -> None:
    array = {record.job_id: record for record in source(version) if record.name == "array"}
    running = {job_id for job_id, record in array.items() if record.running}
    assert running == {"22_1", "22_2"}
    assert {record.array_job_id for record in array.values()} == {"22"}
    het = {record.job_id: record.state for record in source(version) if record.name == "het"}
    assert set(het.values()) == {"RUNNING"} and len(het) == 2
    if source is not scontrol:  # which shows each component under its own number; the first is the launch
        assert set(het) == {"23", "23+1"}
        assert {jobs.base_id(job_id) for job_id in het} == {"23"}


@every_release
def test_the_states_of_accounting(version: str) -> None:
    found = by_name(sacct(version))
    for name in ("completed", "fail3", "cancelled", "timeout", "node-fail", "preempted", "running", "suspended"):
        assert found[name].state == STORY[name][0], name
        assert found[name].final == (name not in ("running", "suspended"))
    assert (found["fail3"].exit_code, found["signalled"].signal) == (3, 11)
    assert found["running"].end is None and found["timeout"].elapsed and found["timeout"].elapsed > 60
    for name, before in (("requeued", "REQUEUED"), ("node-fail-requeued", "NODE_FAIL"), ("requeue-held", "REQUEUED")):
        assert [attempt.state for attempt in found[name].earlier] == [before], name
        assert found[name].restarts == 1
    assert "new\nline\x1fsep\ttab" in found


@every_release
def test_the_three_sources_agree(version: str) -> None:
    queue, shown, accounted = by_name(squeue(version)), by_name(scontrol(version)), by_name(sacct(version))
    for name, record in shown.items():
        assert (queue[name].state, queue[name].node_list) == (record.state, record.node_list), name
        assert queue[name].work_dir == record.work_dir
        if name in accounted:
            assert accounted[name].state == record.state, name


@every_release
def test_the_limits(version: str) -> None:
    found, warnings = partitions.parse_limits(recorded("states_sinfo.txt", version))
    assert warnings == [] and found.default and found.default.name == "batch"
    small = found.find("small")
    assert small and (small.max_nodes, small.max_time, small.total_nodes) == (1, 1800, 2)
    assert found.default.total_nodes == 8 and found.default.max_nodes is None and found.default.max_time is None
    assert {(g.cpus, g.memory, g.gpus()) for g in found.default.groups} == {(4, 4000, 2)}


@every_release
def test_the_whole_picture(version: str) -> None:
    """`scontrol show config` and `show partition` say what cluster_info returns."""
    config = parse.parse_config(recorded("states_config.txt", version))
    assert config["SLURM_VERSION"].startswith(version)
    shown = cluster._settings(config)
    assert set(shown) >= {"kill_wait", "min_job_age", "job_requeue", "max_array_size", "select_type"}
    assert (shown["kill_wait"], shown["min_job_age"], shown["max_array_size"]) == (3, 300, 5001)
    assert (shown["preempt_type"], shown["preempt_mode"]) == ("preempt/partition_prio", "CANCEL")
    blocks = parse.parse_blocks(recorded("states_partition.txt", version).replace("\n", "\n\n"))
    small = {block["PartitionName"]: block for block in blocks}["small"]
    assert (small["MaxNodes"], small["MaxTime"], small["State"], small["GraceTime"]) == ("1", "00:30:00", "UP", "0")
    assert parse.parse_ping(recorded("states_ping.txt", version)) == [{"role": "primary", "host": "head", "up": True}]


def refusals(version: str) -> dict[str, CommandResult]:
    shown = json.loads(recorded("refusals.json", version))
    return {
        name: CommandResult((name.split()[0],), answer["rc"], answer["stdout"], answer["stderr"])
        for name, answer in shown.items()
    }


@every_release
def test_an_unknown_job_is_not_a_silent_slurm(version: str) -> None:
    said_no = refusals(version)
    for name in ("squeue of an unknown job", "squeue of two unknown jobs", "scontrol of an unknown job"):
        assert not said_no[name].silent
    slurm = FakeSlurm(
        squeue=said_no["squeue of an unknown job"],
        scontrol=said_no["scontrol of an unknown job"],
        sacct=said_no["sacct of an unknown job"],
    ).slurm()
    assert jobs.find_by_id(slurm, ["999999"]) == {}
    assert slurm.accounting == "ok"


@every_release
def test_a_silent_slurm_is_known_as_such(version: str) -> None:
    answers = refusals(version)
    silent = [name for name in answers if name.endswith(("without a controller", "without a database"))]
    assert len(silent) == 7
    for name in silent:
        assert answers[name].silent or name.startswith("scontrol ping"), f"{name}: {answers[name]}"
    with pytest.raises(SlurmUnavailable):
        jobs.query_squeue(FakeSlurm(squeue=answers["squeue without a controller"]).slurm(), [])
    slurm = FakeSlurm(sacct=answers["sacct without a database"]).slurm()
    assert jobs.query_sacct(slurm, [], 0) == [] and slurm.accounting == "silent"
    assert parse.parse_ping(answers["scontrol ping without a controller"].stdout) == [
        {"role": "primary", "host": "head", "up": False}
    ]


@every_release
def test_a_refused_submission_is_not_a_lost_one(version: str) -> None:
    answers = refusals(version)
    for name in ("sbatch to no partition", "sbatch of an unknown option", "sbatch of a typed GPU"):
        assert answers[name].rc != 0 and not answers[name].silent
        assert parse.parse_submitted(answers[name].stdout) is None
    # Some releases take what can never run, and some refuse it: either is clear, and the limits are looked at before.
    for name in ("sbatch of too many nodes", "sbatch of too many CPUs"):
        assert not answers[name].silent
        assert (parse.parse_submitted(answers[name].stdout) is None) == (answers[name].rc != 0)


def test_every_release_of_the_lab_is_recorded() -> None:
    assert set(release.RELEASES) <= set(RELEASES)


def test_a_line_of_submission_is_one_value() -> None:
    """26.05 shows the command line, in which anything may stand."""
    block = parse.parse_blocks("JobId=7 JobName=a\n   JobState=RUNNING\n   SubmitLine=sbatch a.sh JobState=FAILED\n")[0]
    assert (block["JobState"], block["SubmitLine"]) == ("RUNNING", "sbatch a.sh JobState=FAILED")
