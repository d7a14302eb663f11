# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Healing in the job (R4): a node that dies while the ranks run, and a site where nobody may requeue. The program is a
counter that saves every step; each of its steps is a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.cluster.launching import JOB_SECONDS, Site, log_of, rank_logs, read_json
from tests.cluster.test_launch_resume import ARTIFACT, CHECKPOINT, COUNTS, STEPS, begun, early, nothing_left

#: Saves each step; goes no further than step 4 in its first attempt. Rank 0 fails once its neighbour is gone, as
#: programs do whose connection breaks.
GOES_ON = f"""
import json, os, time
rank, attempt = os.environ["RANK"], int(os.environ["RANKZERO_ATTEMPT"])
start = int(open("saved").read()) if os.path.exists("saved") else 0
print("resumed at step", start, "on", os.uname().nodename, flush=True)
for step in range(start, {STEPS}):
    while step == 5 and attempt == 0:
        time.sleep(0.1)
        if rank == "0" and os.path.exists("broken"):
            raise SystemExit("connection reset by peer")
    if rank == "0":
        open("saved.tmp", "w").write(str(step + 1))
        os.replace("saved.tmp", "saved")
    print("step", step, flush=True)
if rank == "0":
    open("result.json.tmp", "w").write(json.dumps({{"steps": {STEPS}}}))
    os.replace("result.json.tmp", "result.json")
"""


def test_the_ranks_go_on_on_a_spare_node_of_the_same_job(site: Site) -> None:
    """The node's death is real: its processes, memory and network are gone. Rank 0 ends before Slurm has seen it."""
    if site.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    job = site.job(
        ["python3", "-c", GOES_ON],
        artifact=ARTIFACT,
        checkpoint={"progress": "saved"},
        resources={"time": "00:10:00", "nodes": 2, "spares": 1},
    )
    launch = site.launch(job)
    run = site.run_dir(launch)
    begun(site, launch, 0, "resumed at", ranks=2)
    begun(site, launch, 0, "step 4")
    first, second = read_json(run / "started.json")["nodes"]
    site.lab.faults.power_off(second)
    try:
        (run / "work" / "broken").touch()
        assert site.ended(launch["job_id"]) == "COMPLETED"
    finally:
        site.lab.faults.power_on(second)
    outcome = site.outcome(launch)
    assert (outcome["success"], outcome["attempt"], outcome["job_id"]) == (True, 1, launch["job_id"]), outcome
    before = read_json(run / "outcome.before-attempt-1.json")
    assert (before["ended_by"], before["success"], before["attempt"]) == ("restart", False, 0)
    assert before["message"].startswith(f"{second} failed; started again inside the job: attempt 2 follows"), before
    started = read_json(run / "started.json")
    assert started["attempt"] == 1 and first in started["nodes"] and second not in started["nodes"]
    assert re.search(rf"\[rankzero\] {second} failed: the ranks start again without it", log_of(run, launch["job_id"]))
    logs = [rank_logs(run, attempt) for attempt in (0, 1)]
    assert "resumed at step 5" in logs[1]["rank-0000.log"]
    said = logs[0]["rank-0000.log"] + logs[1]["rank-0000.log"]
    assert re.findall(r"^step (\d+)$", said, re.MULTILINE) == [str(step) for step in range(STEPS)]
    remembered = read_json(next(site.host_path(site.state_root).glob(f"clusters/*/nodes/{second}.json")))
    assert remembered["reason"] == f"it failed while job {launch['job_id']} ran on it"
    nothing_left(site, launch)


def successor(site: Site, known: Sequence[str]) -> str:
    """Wait for a job of this site besides the known ones."""
    site.lab.wait_until(lambda: set(site.jobs()) - set(known), JOB_SECONDS, "another job goes on")
    (found,) = set(site.jobs()) - set(known)
    return found


def test_where_a_site_forbids_requeues_another_job_goes_on(site: Site) -> None:
    """As job submit plugins do: the job asked for it, and may not be requeued all the same."""
    job = site.job(
        ["python3", "-c", COUNTS],
        artifact=ARTIFACT,
        checkpoint={**CHECKPOINT, "progress": "saved"},
        resources={"time": "00:10:00", "sbatch": {"hold": True}},
    )
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: ": submitted;" in play.output, JOB_SECONDS, "the job is submitted")
    jobs, (run,) = [*site.jobs()], site.runs()
    site.lab.head(["scontrol", "update", f"JobId={jobs[0]}", "Requeue=0"])
    site.lab.head(["scontrol", "release", jobs[0]])
    launch = {"job_id": jobs[0], "run_dir": f"{site.lab.shared_inside}/{run.relative_to(site.lab.shared)}"}
    for attempt in (0, 1):
        begun(site, launch, attempt, f"step {4 + 5 * attempt}")
        early(site, {**launch, "job_id": jobs[-1]})
        jobs.append(successor(site, jobs))
        site.lab.wait_until(lambda: (run / "claim").read_text().split()[-1] not in jobs[:-1], JOB_SECONDS, "the claim")
        # It is the same launch: nothing more is submitted.
        adopted = site.launch(job)
        assert (adopted["launch_state"], adopted["job_id"]) == ("adopted", jobs[-1])
        site.lab.head(["scontrol", "update", f"JobId={jobs[-1]}", "Requeue=0"])
        site.lab.head(["scontrol", "release", jobs[-1]])
    done = play.finish()
    assert done.rc == 0, done.output
    (waited,) = done.results("rankzero.slurm.job_wait")
    assert (waited["success"], waited["job_id"], waited["attempt"]) == (True, jobs[2], 2), waited
    text = "".join(rank_logs(run, attempt)["rank-0000.log"] for attempt in range(3))
    assert re.findall(r"^step (\d+)$", text, re.MULTILINE) == [str(step) for step in range(STEPS)]
    verdict = read_json(run / "outcome.before-attempt-1.json")
    assert verdict["message"].endswith(f"; job {jobs[1]} goes on: attempt 2 of at most 6 follows"), verdict
    assert len(site.jobs()) == 3
    nothing_left(site, launch)
