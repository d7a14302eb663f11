# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the time limit the ranks save themselves, the job requeues itself and goes on where it stood; what is
watched of the nodes meanwhile ends with the ranks. The program is a counter: each of its steps is a line.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.launching import JOB_SECONDS, Played, Site, log_of, nothing_left, rank_logs, read_json
from tests.repository import leaving

STEPS = 12


def counts(steps: int) -> str:
    """A program that counts to `steps`. No attempt does more than five by itself; told to end, it saves where it is."""
    return f"""
import json, os, signal, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
start = int(open("saved").read()) if os.path.exists("saved") else 0
print("resumed at step", start, flush=True)
for step in range(start, {steps}):
    while not told and step == start + 5:
        time.sleep(0.05)
    if told:
        if os.environ["RANK"] == "0":
            open("saved.tmp", "w").write(str(step))
            os.replace("saved.tmp", "saved")
        print("saved step", step, flush=True)
        raise SystemExit(0)
    print("step", step, flush=True)
if os.environ["RANK"] == "0":
    open("result.json.tmp", "w").write(json.dumps({{"steps": {steps}}}))
    os.replace("result.json.tmp", "result.json")
"""


COUNTS = counts(STEPS)
#: Ends when told, and leaves nothing.
FORGETS = "trap 'exit 0' TERM; echo begun; while :; do sleep 0.1; done"
ARTIFACT = {"require": {"steps": {"ge": STEPS}}}
CHECKPOINT = {"signal_before_end": 60, "requeue": True}


def begun(site: Site, launch: Mapping[str, Any], attempt: int, text: str, ranks: int = 1) -> None:
    """Wait until that many ranks of an attempt have said something."""
    run = site.run_dir(launch)

    def said() -> bool:
        return sum(text in log for log in rank_logs(run, attempt).values()) >= ranks

    site.lab.wait_until(said, JOB_SECONDS, f"attempt {attempt}: {text}")


def sampled(site: Site, launch: Mapping[str, Any], attempt: int) -> None:
    """Wait until the samplers of both nodes have started: they have the lowest priority."""
    folder = site.run_dir(launch) / "monitor" / str(attempt)
    site.lab.wait_until(
        lambda: len(list(folder.glob("*.host.csv"))) == 2, JOB_SECONDS, f"samplers of attempt {attempt}"
    )


def early(site: Site, launch: Mapping[str, Any]) -> None:
    """What Slurm does before the time limit: the signal goes to the batch script alone."""
    site.lab.head(["scancel", "--batch", "--signal=USR2", launch["job_id"]])


def test_a_job_goes_on_at_the_very_step_and_waiting_for_it_goes_on_too(site: Site) -> None:
    job = site.job(
        ["python3", "-c", COUNTS],
        artifact=ARTIFACT,
        checkpoint={**CHECKPOINT, "progress": "saved"},
        resources={"time": "00:10:00", "nodes": 2},
        launcher={"ranks_per_node": 2},
    )
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: ": submitted;" in play.output, JOB_SECONDS, "the job is submitted")
    (run,) = site.runs()
    launch = {
        "job_id": read_json(site.wait_for(run / "started.json"))["job_id"],
        "run_dir": f"{site.lab.shared_inside}/{run.relative_to(site.lab.shared)}",
    }
    begun(site, launch, 0, "step 4", ranks=4)
    sampled(site, launch, 0)
    early(site, launch)
    begun(site, launch, 1, "resumed at step 5", ranks=4)
    begun(site, launch, 1, "step 9", ranks=4)
    sampled(site, launch, 1)
    # While the job waits for its next attempt, or runs it, the wait goes on.
    assert play.process.poll() is None, play.output
    early(site, launch)
    done: Played = play.finish()
    assert done.rc == 0, done.output
    (waited,) = done.results("rankzero.slurm.job_wait")
    assert (waited["success"], waited["job_id"], waited["attempt"]) == (True, launch["job_id"], 2), waited
    assert waited["artifact"]["scalars"] == {"steps": STEPS}
    for rank in range(4):
        said = [rank_logs(run, attempt)[f"rank-{rank:04d}.log"] for attempt in (0, 1, 2)]
        assert re.findall(r"^step (\d+)$", "".join(said), re.MULTILINE) == [str(step) for step in range(STEPS)]
        assert ["resumed at step 5" in said[1], "resumed at step 10" in said[2]] == [True, True]
    for attempt in (0, 1):
        verdict = read_json(run / f"outcome.before-attempt-{attempt + 1}.json")
        assert (verdict["ended_by"], verdict["success"], verdict["attempt"]) == ("signal", False, attempt)
        assert verdict["message"] == f"requeued: attempt {attempt + 2} of at most 6 follows"
        nodes = {path.name for path in (run / "monitor" / str(attempt)).glob("*.host.csv")}
        assert len(nodes) == 2, nodes
    nothing_left(site, launch)


def test_restarts_that_lead_nowhere_end(site: Site) -> None:
    """One job has no restarts left, one leaves its progress as it was, one may not be requeued at all."""
    asked = {
        "limit": {**CHECKPOINT, "max_restarts": 0},
        "still": {**CHECKPOINT, "progress": "saved"},
        "once": {"signal_before_end": 60, "requeue": False},
    }
    jobs = {name: {"launch_job": site.job(FORGETS, name=name, checkpoint=value)} for name, value in asked.items()}
    play = site.play_many(jobs)
    launches = {host: play.launch(host) for host in jobs}
    for launch in launches.values():
        begun(site, launch, 0, "begun")
        early(site, launch)
    begun(site, launches["still"], 1, "begun")
    early(site, launches["still"])
    said = {
        "limit": "not requeued: this was attempt 1 of at most 1 (checkpoint.max_restarts)",
        "still": "no progress: saved (checkpoint.progress) is the same after attempt 1 and attempt 2",
        "once": "not requeued: checkpoint.requeue is not true",
    }
    for host, launch in launches.items():
        assert site.ended(launch["job_id"]) == "FAILED"
        outcome = site.outcome(launch)
        assert (outcome["ended_by"], outcome["success"]) == ("signal", False)
        assert outcome["message"].endswith(said[host]), outcome
        nothing_left(site, launch)


def test_slurm_itself_sends_the_signal_before_the_time_limit(site: Site) -> None:
    """Slurm looks at time limits every 30 seconds and sends the signal up to that much earlier than asked: between 15
    and 45 seconds after the start, here. How far the program came until then is a matter of the machine's load.
    """
    job = site.job(
        ["python3", "-c", counts(10)],
        artifact={"require": {"steps": {"ge": 10}}},
        checkpoint={**CHECKPOINT, "signal_before_end": 15},
        resources={"time": "00:01:00"},
    )
    launch = site.launch(job)
    verdict = read_json(site.wait_for(site.run_dir(launch) / "outcome.before-attempt-1.json"))
    assert (verdict["ended_by"], verdict["success"], verdict["attempt"]) == ("signal", False, 0)
    begun(site, launch, 1, "resumed at step")
    assert site.ended(launch["job_id"]) == "COMPLETED"
    assert site.outcome(launch)["success"] is True


# After a success and a cancellation other tests see that nothing of a job is left (`nothing_left`).
@pytest.mark.parametrize("end", leaving(["success", "failure", "cancelled", "killed"], ["success", "cancelled"]))
def test_no_sampler_outlives_its_job(site: Site, end: str) -> None:
    line = f"until [ -e go ]; do sleep 0.1; done; {'exit 3' if end == 'failure' else 'exit 0'}"
    launch = site.launch(
        site.job(line, resources={"nodes": 2, "time": "00:10:00"}, monitor={"host": 1, "timestamps": 1})
    )
    run = site.run_dir(launch)
    for node in read_json(site.wait_for(run / "started.json"))["nodes"]:
        path = site.wait_for(run / "monitor" / "0" / f"{node}.host.csv")
        site.lab.wait_until(lambda path=path: path.read_text().count("\n") >= 2, JOB_SECONDS, f"{node} is sampled")
    dated = re.compile(r"^\[rankzero\] \d{4}-\d\d-\d\dT", re.MULTILINE)
    site.lab.wait_until(lambda: dated.search(log_of(run, launch["job_id"])), JOB_SECONDS, "the log has a time of day")
    if end in ("success", "failure"):
        site.go(launch)
    else:
        number = signal.SIGTERM if end == "cancelled" else signal.SIGKILL
        site.lab.head(
            ["scancel", *(["--full", f"--signal={int(number)}"] if end == "killed" else []), launch["job_id"]]
        )
    state = site.ended(launch["job_id"])
    assert state == {"success": "COMPLETED", "failure": "FAILED"}.get(end, "CANCELLED"), state
    nothing_left(site, launch)
