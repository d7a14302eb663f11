# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Healing in the job: a node that dies while the ranks run, and a site where nobody may requeue. The program is a
counter that saves every step; each of its steps is a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.cluster.launching import JOB_SECONDS, Site, log_of, nothing_left, rank_logs, read_json
from tests.cluster.test_launch_resume import ARTIFACT, CHECKPOINT, COUNTS, STEPS, begun, early

#: Saves each step, and reads a file of the code; goes no further than step 4 in its first attempt, and than step 8 in
#: its second. Rank 0 fails once its neighbour is gone, as programs do whose connection breaks.
GOES_ON = f"""
import json, os, time
rank, attempt = os.environ["RANK"], int(os.environ["RANKZERO_ATTEMPT"])
start = int(open("saved").read()) if os.path.exists("saved") else 0
print("read", open("told").read(), flush=True)
print("resumed at step", start, "on", os.uname().nodename, flush=True)
for step in range(start, {STEPS}):
    while (step, attempt) in ((5, 0), (9, 1)):
        time.sleep(0.1)
        if rank == "0" and os.path.exists("broken-" + str(attempt)):
            raise SystemExit("connection reset by peer")
    if rank == "0":
        open("saved.tmp", "w").write(str(step + 1))
        os.replace("saved.tmp", "saved")
    print(time.strftime("%F %T"), "step", step, flush=True)
    # The times are whole seconds: the steps of each attempt take more than one.
    time.sleep(0.3)
if rank == "0":
    open("result.json.tmp", "w").write(json.dumps({{"steps": {STEPS}}}))
    os.replace("result.json.tmp", "result.json")
"""


def test_the_ranks_go_on_on_a_spare_node_and_where_none_is_left_in_the_queue_again(site: Site) -> None:
    """Two deaths, one after the other. They are real: processes, memory and network are gone. Rank 0 ends before Slurm
    has seen it. No node sees the store: each works on a copy that the job brings, the spare one too.
    """
    if site.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    site.cluster = {**site.cluster, "store_root": f"{site.on_the_head()}/store", "store_shared": False}
    (site.folder / "code" / "told").write_text("by the code")
    job = site.job(
        ["python3", "-c", GOES_ON],
        artifact=ARTIFACT,
        checkpoint={"progress": "saved", "requeue": True},
        resources={"time": "00:10:00", "nodes": 2, "spares": 1},
    )
    launch = site.launch(job)
    run = site.run_dir(launch)
    nodes: list[list[str]] = []
    dead: list[str] = []
    try:
        for attempt, step in ((0, "step 4"), (1, "step 8")):
            begun(site, launch, attempt, step)
            # The other rank may be behind, and what it has not said before its node dies it never says.
            begun(site, launch, attempt, "resumed at", ranks=2)
            nodes.append(read_json(run / "started.json")["nodes"])
            dead.append(nodes[-1][1])
            site.lab.faults.power_off(dead[-1])
            (run / "work" / f"broken-{attempt}").touch()
            begun(site, launch, attempt + 1, "resumed at", ranks=2)
        assert site.ended(launch["job_id"]) == "COMPLETED"
    finally:
        for node in dead:
            site.lab.faults.power_on(node)
    outcome = site.outcome(launch)
    assert (outcome["success"], outcome["attempt"], outcome["job_id"]) == (True, 2, launch["job_id"]), outcome
    # On the spare node, inside the job.
    before = read_json(run / "outcome.before-attempt-1.json")
    assert (before["ended_by"], before["success"], before["attempt"]) == ("restart", False, 0)
    assert before["message"].startswith(f"{dead[0]} failed; started again inside the job: attempt 2 follows"), before
    assert nodes[0][0] in nodes[1] and dead[0] not in nodes[1]
    said = rf"\[rankzero\] {dead[0]} failed: the ranks start again without it"
    assert re.search(said, log_of(run, launch["job_id"]))
    remembered = read_json(next(site.host_path(site.state_root).glob(f"clusters/*/nodes/{dead[0]}.json")))
    assert remembered["reason"] == f"it failed while job {launch['job_id']} ran on it"
    # And in the queue again, without the dead ones, whatever Slurm has seen of their end.
    before = read_json(run / "outcome.before-attempt-2.json")
    told = "not restarted inside the job: no spare node is left; requeued: attempt 3 of at most 6 follows"
    assert (before["ended_by"], before["message"]) == ("signal", f"{dead[1]} failed; {told}"), before
    assert not set(dead) & set(read_json(run / "started.json")["nodes"])
    shown = site.lab.head(["scontrol", "show", "job", launch["job_id"]]).stdout
    (excluded,) = re.findall(r"ExcNodeList=(\S+)", shown)
    assert set(site.lab.head(["scontrol", "show", "hostnames", excluded]).stdout.split()) == set(dead)
    logs = [rank_logs(run, attempt) for attempt in range(3)]
    for attempt_logs in logs:
        assert len(attempt_logs) == 2
        assert all("read by the code\n" in text for text in attempt_logs.values()), attempt_logs
    text = "".join(attempt_logs["rank-0000.log"] for attempt_logs in logs)
    assert "resumed at step 5" in text
    assert re.findall(r"^[-\d]+ [:\d]+ step (\d+)$", text, re.MULTILINE) == [str(step) for step in range(STEPS)]
    nothing_left(site, launch)
    # What the hours went to, as accounting has them: a row for each number of nodes, and for the requeue.
    told = ["sacct", "--allocations", "--duplicates", "--noheader", "--parsable2", "--format=ElapsedRaw,AllocTRES,End"]
    told += [f"--jobs={launch['job_id']}"]
    # It lags: until it knows of an end, the time of that row grows.
    ends = lambda: [row.rpartition("|")[2] for row in site.lab.head(told).stdout.splitlines()]  # noqa: E731
    site.lab.wait_until(lambda: len(ends()) > 1 and "Unknown" not in ends(), JOB_SECONDS, "accounting knows all ends")
    shown = site.lab.head(told).stdout
    rows = [(int(seconds), int(nodes)) for seconds, nodes in re.findall(r"^(\d+)\|.*\bnode=(\d+)", shown, re.MULTILINE)]
    report = {"launches": [launch["run_dir"]], "dest": str(site.folder / "report.html"), "annotations": "none"}
    (page,) = site.play(None, playbook="rankzero.slurm.report", **report).results("rankzero.slurm.report_page")
    ledger = page["launches"][0]["ledger"]
    assert ledger["accounted"] and len(rows) == len(ledger["allocations"]) > 1, (rows, ledger)
    assert ledger["node_seconds"] == pytest.approx(sum(seconds * nodes for seconds, nodes in rows), rel=0.01)
    assert sum(row["share"] or 0 for row in ledger["parts"]) == pytest.approx(1)
    parts = {row["part"]: row["node_seconds"] for row in ledger["parts"]}
    assert parts["set-up"] > 0 < parts["steps"] and parts["not known"] == 0 and parts["checkpoints"] is None, parts
    # The log's times are whole seconds, so the first step may seem as old as the ranks.
    assert parts["start-up"] is not None, parts
    assert (site.folder / "report.csv").read_text().startswith("part,node_seconds,")


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
    site.lab.release(jobs[0])
    launch = {"job_id": jobs[0], "run_dir": f"{site.lab.shared_inside}/{run.relative_to(site.lab.shared)}"}
    for attempt in (0, 1):
        begun(site, launch, attempt, f"step {4 + 5 * attempt}")
        early(site, {**launch, "job_id": jobs[-1]})
        jobs.append(successor(site, jobs))
        site.lab.wait_until(lambda: (run / "claim").read_text().split()[-1] not in jobs[:-1], JOB_SECONDS, "the claim")
        # It is the same launch: nothing more is submitted.
        adopted = site.launch(job)
        assert (adopted["submission"], adopted["job_id"]) == ("adopted", jobs[-1])
        site.lab.head(["scontrol", "update", f"JobId={jobs[-1]}", "Requeue=0"])
        site.lab.release(jobs[-1])
    done = play.finish()
    assert done.rc == 0, done.output
    (waited,) = done.results("rankzero.slurm.job_wait")
    assert (waited["success"], waited["job_id"], waited["attempt"]) == (True, jobs[2], 2), waited
    text = "".join(rank_logs(run, attempt)["rank-0000.log"] for attempt in range(3))
    assert re.findall(r"^step (\d+)$", text, re.MULTILINE) == [str(step) for step in range(STEPS)]
    verdict = read_json(run / "outcome.before-attempt-1.json")
    assert verdict["message"].endswith(f"; job {jobs[1]} takes over: attempt 2 of at most 6 follows"), verdict
    assert len(site.jobs()) == 3
    nothing_left(site, launch)
