# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several submissions of one launch (resources.any_of) on real Slurm: the first that starts runs, and it alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.launching import FINAL, JOB_SECONDS, UNTIL_GO, Site, log_of, read_json
from tests.cluster.test_launch_once import events

#: How many launches start all their jobs at once.
LAUNCHES = int(os.environ.get("RANKZERO_TEST_LAUNCHES", "6"))
WAYS = [{"partition": "short"}, {"partition": "batch", "time": "00:04:00"}]


@pytest.fixture
def closed(site: Site) -> Iterator[Site]:
    """A lab whose partition `short` starts nothing."""
    set_state(site, "short", "DOWN")
    yield site
    set_state(site, "short", "UP")


def set_state(site: Site, partition: str, state: str) -> None:
    site.lab.head(["scontrol", "update", f"PartitionName={partition}", f"State={state}"])


def job(site: Site, program: str, **spec: Any) -> dict[str, Any]:
    return site.job(program, resources={"time": "00:05:00", "nodes": 2, "any_of": WAYS}, **spec)


def test_the_job_that_starts_runs_and_the_wait_follows_it(closed: Site) -> None:
    """The first submission never starts; the second runs with its own partition and time, and ends the first."""
    look = "scontrol show job $SLURM_JOB_ID > seen; echo '{}' > result.json"
    planned = closed.play(job(closed, look, artifact={"path": "result.json"}), playbook="rankzero.slurm.plan")
    assert "started by the first of: partition short; partition batch time 00:04:00" in planned.output
    assert "--partition=batch --time=00:04:00: Slurm would start it" in planned.output
    played = closed.play(job(closed, look, artifact={"path": "result.json"}), wait=True)
    assert played.rc == 0, played.output
    waited = played.results("rankzero.slurm.job_wait")[-1]
    first, second = sorted(closed.jobs(), key=int)
    assert (waited["standing"], waited["job_id"]) == ("succeeded", second)
    (run,) = closed.runs()
    assert events(run) == ["intent", "submitted", "alternative"]
    seen = (run / "work" / "seen").read_text(encoding="utf-8")
    assert "Partition=batch" in seen and "TimeLimit=00:04:00" in seen
    assert closed.ended(first) == "CANCELLED" and closed.ended(second) == "COMPLETED"
    assert read_json(run / "outcome.json")["job_id"] == second
    assert closed.launch(job(closed, look, artifact={"path": "result.json"}))["submission"] == "unchanged"


def test_a_batch_script_waits_in_several_partitions_and_runs_once(closed: Site) -> None:
    """What its own lines ask for is not what it runs under: the alternative decides."""
    script = """\
#!/bin/bash
#SBATCH --partition=short --time=00:05:00 --nodes=2
scontrol show job "$SLURM_JOB_ID" > seen
srun echo rank >> ran
echo '{}' > result.json
"""
    made = {**closed.job("true"), "script": script, "artifact": {"path": "result.json"}, "resources": {"any_of": WAYS}}
    del made["command"]
    launch = closed.launch(made)
    first, second = sorted(closed.jobs(), key=int)
    assert closed.outcome(launch)["job_id"] == second
    (run,) = closed.runs()
    seen = (run / "work" / "seen").read_text(encoding="utf-8")
    assert "Partition=batch" in seen and "TimeLimit=00:04:00" in seen
    assert (run / "work" / "ran").read_text(encoding="utf-8") == "rank\n" * 2
    assert closed.ended(first) == "CANCELLED" and closed.ended(second) == "COMPLETED"
    assert closed.launch(made)["submission"] == "unchanged"


def test_a_launch_that_waits_is_one_launch_and_one_cancellation_ends_it(closed: Site) -> None:
    set_state(closed, "batch", "DOWN")
    try:
        made = job(closed, "true")
        launch = closed.launch(made)
        assert len(closed.jobs()) == 2
        again = closed.launch(made)
        assert (again["submission"], again["job_id"]) == ("adopted", launch["job_id"])
        # Somebody ends one of them: the launch waits on with the other.
        closed.lab.head(["scancel", launch["job_id"]])
        closed.ended(launch["job_id"])
        again = closed.launch(made)
        (other,) = {*closed.jobs()} - {launch["job_id"]}
        assert (again["submission"], again["job_id"], again["standing"]) == ("adopted", other, "waiting")
        cancelled = closed.play(None, playbook="rankzero.slurm.cancel", launch_name=made["name"])
        assert cancelled.rc == 0, cancelled.output
        assert closed.ended(other) == "CANCELLED"
        assert {*closed.jobs()} == {launch["job_id"], other}
    finally:
        set_state(closed, "batch", "UP")


def test_what_a_killed_module_did_not_submit_is_submitted_by_the_next(closed: Site) -> None:
    made = job(closed, UNTIL_GO)
    kill = closed.fake("sbatch", '/usr/bin/sbatch "$@"; kill -9 "$PPID"')
    assert closed.play(made, ansible_shell_executable=kill).rc != 0
    (run,) = closed.runs()
    assert events(run) == ["intent"] and len(closed.jobs()) == 1
    again = closed.launch(made)
    assert again["submission"] == "adopted"
    assert events(run) == ["intent", "adopted", "alternative"]
    closed.go(again)
    assert closed.outcome(again)["success"]
    assert len(closed.jobs()) == 2


def test_of_jobs_that_start_at_once_one_runs(site: Site) -> None:
    """Each launch has three jobs, all of which may start. Run it with RANKZERO_TEST_LAUNCHES=100 for as many."""
    site.own(f"{site.state_root}.ran")
    program = f'echo "$SLURM_JOB_ID" >> {site.state_root}.ran/$NUMBER'
    ways = [{"partition": "batch"}, {"partition": "short"}, {"partition": "batch", "time": "00:04:00"}]
    jobs = {
        f"host{number}": {
            "launch_job": site.job(
                program,
                name=str(number),
                env={"NUMBER": str(number)},
                resources={"time": "00:05:00", "any_of": ways},
            )
        }
        for number in range(LAUNCHES)
    }
    played = site.play_many(jobs, "--forks", "8", wait=True, timeout=300 + 10 * LAUNCHES)
    assert played.rc == 0, played.output
    site.lab.wait_until(lambda: {*site.jobs().values()} <= {*FINAL}, JOB_SECONDS, "all jobs end")
    ran = {path.name: path.read_text().split() for path in site.host_path(f"{site.state_root}.ran").iterdir()}
    assert sorted(ran, key=int) == [str(number) for number in range(LAUNCHES)]
    for run in site.runs():
        outcome = read_json(run / "outcome.json")
        number = read_json(run / "launch.json")["spec"]["env"]["NUMBER"]
        assert ran[number] == [outcome["job_id"]] and outcome["success"]
        for name in os.listdir(run / "logs"):
            job_id = name.removeprefix("job.").removesuffix(".log")
            if name.startswith("job.") and job_id != outcome["job_id"]:
                assert "nothing is run" in log_of(run, job_id)
