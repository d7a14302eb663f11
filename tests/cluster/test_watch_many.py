# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits that end before the launch does, waits for many at once, logs that are followed: on real jobs."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.launching import Site
from tests.cluster.watching import Bench, bench

__all__ = ["bench"]


def test_many_launches_by_one_question_a_poll(bench: Bench) -> None:
    ends = ["success", "success", 'outcome false 3 "exit code 3" null; exit 3']
    runs = [bench.submit(f"echo step 1 >> $LOG; until [ -e $RUN/go ]; do sleep 0.2; done; {end}") for end in ends]
    for run in runs:
        bench.started(run)
    paths = [run.path for run in runs]
    short = bench.task("job_wait", run_dirs=paths, wait_timeout=2)
    assert (short["completed"], short["success"]) == (False, False)
    assert all("the job continues" in one["message"] for one in short["launches"])
    task = bench.start("job_wait", run_dirs=paths)
    task.says("login: waiting for 3 launches; Ctrl-C leaves the jobs alone")
    for run in runs:
        (run.here / "go").touch()
    found = task.finish()
    assert (found["completed"], found["success"]) == (True, False)
    assert [one["success"] for one in found["launches"]] == [True, True, False]
    assert [one["run_dir"] for one in found["launches"]] == paths
    assert (
        found["message"].startswith("2 of 3 succeeded, 1 failed, 0 not over: ") and runs[2].job_id in found["message"]
    )
    assert set(found) == set(short) and set(found["launches"][0]) == set(short["launches"][0])
    # The polls of three jobs asked no more often than those of one would have.
    assert found["slurm_commands"] <= found["polls"] + 8
    again = bench.task("job_wait", run_dirs=paths)
    assert (again["polls"], again["message"]) == (0, found["message"]), "what is over is not waited for"
    failed = bench.task("job_wait", run_dirs=paths, name="x", fails=True)
    assert "run_dirs: names the launches" in failed["msg"]


def test_until_a_line_of_a_log(bench: Bench) -> None:
    steps = "for i in $(seq 9); do echo step $i >> $LOG; sleep 0.3; done"
    run = bench.submit(f"{steps}; until [ -e $RUN/go ]; do sleep 0.2; done")
    found = bench.task("job_wait", run_dir=run.path, until="pattern", pattern=r"step [5-9]$")
    assert (found["completed"], found["matched"]) == (False, "step 5")
    found = bench.task(
        "job_wait",
        run_dir=run.path,
        until="pattern",
        pattern="nowhere",
        log="rank-0000.log",
        queue_budget=1,
        wait_timeout=2,
    )
    assert (found["completed"], found["matched"]) == (False, None)
    failed = bench.task("job_wait", run_dir=run.path, fails=True, until="artifact")
    assert "until: artifact needs contract.json" in failed["msg"]


FOLLOWED = """
echo "2026-01-01 00:00:01 from rank 0, HF_TOKEN=abcdefghijkl" >> $LOG
echo "2026-01-01 00:00:00 from rank 1" >> $RUN/logs/$ATTEMPT/rank-0001.log
until [ -e $RUN/go ]; do sleep 0.2; done
echo "2026-01-01 00:00:02 later" >> $LOG
success"""


def test_logs_are_followed_merged_and_redacted(bench: Bench) -> None:
    run = bench.submit(FOLLOWED)
    bench.started(run)
    task = bench.start("job_logs", run_dir=run.path, follow=True, merge=True, head_bytes=10, follow_timeout=100)
    task.says("login: rank 0 | 2026-01-01 00:00:01 from rank 0, HF_TOKEN=************")
    task.says("login: rank 1 | 2026-01-01 00:00:00 from rank 1")
    (run.here / "go").touch()
    task.says("login: rank 0 | 2026-01-01 00:00:02 later")
    found = task.finish()
    assert found["over"] and "abcdefghijkl" not in task.output
    merged = Path(found["merged"]).read_text().splitlines()
    ranks = [line for line in merged if line.startswith("rank")]
    assert [line.split()[4][-1] for line in ranks] == ["0", "1", "2"], merged
    assert Path(found["merged"]).parent == Path(found["dest"]).parent
    # The second time nothing moves; unredacted it is another text.
    assert bench.task("job_logs", run_dir=run.path)["bytes"] == 0
    plain = bench.task("job_logs", run_dir=run.path, redact=False, reconnect_timeout=5)
    assert [file["path"] for file in plain["files"]] == ["0/rank-0000.log"]
    assert "abcdefghijkl" in (Path(plain["dest"]) / "0" / "rank-0000.log").read_text()


PROGRAM = """mkdir ckpt; echo part > ckpt/shard-0; sleep 1
echo '{"step": 12}' > ckpt/.meta; mv ckpt/.meta ckpt/meta.json
until [ -e go ]; do sleep 0.2; done; echo late"""


def test_attach_until_the_artifact_then_to_the_end_and_status(site: Site) -> None:
    """A launch as train makes it, in CI: detached there, and another command attaches to it."""
    artifact = {"path": "ckpt", "format": "directory", "complete": "meta.json", "require": {"step": {"ge": 10}}}
    job = site.job(PROGRAM, artifact=artifact)
    played = site.play(job, wait=None, launch_wait=None, env={"CI": "true"})
    assert played.rc == 0, played.output
    launch = played.launch()
    assert "rankzero.slurm.job_wait" not in played.tasks() and "rankzero.slurm.attach -e run_dir=" in played.output
    common = {"launch_wait": None, "run_dir": launch["run_dir"]}
    landed = site.play(None, playbook="rankzero.slurm.attach", wait_until="artifact", **common)
    assert landed.rc == 0, landed.output
    (result,) = landed.results("rankzero.slurm.job_wait")
    assert (result["proven"], result["completed"], result["slurm_state"]) == (True, False, "RUNNING")

    active = site.play(None, playbook="rankzero.slurm.status", launch_wait=None, active=True, launch_name=job["name"])
    (shown,) = active.results("rankzero.slurm.job_info")
    assert [one["job_id"] for one in shown["launches"]] == [launch["job_id"]]
    assert f"{job['name']}" in active.output and "running" in active.output

    site.go(launch)
    ended = site.play(None, playbook="rankzero.slurm.attach", **{**common, "run_dir": None}, job_id=launch["job_id"])
    assert ended.rc == 0, ended.output
    assert f"{job['name']} succeeded" in ended.output and "work/ckpt is proven" in ended.output
    fetched = site.play(
        None, playbook="rankzero.slurm.logs", launch_name=job["name"], merge=True, dest="here", launch_wait=None
    )
    assert fetched.rc == 0, fetched.output
    merged = next(site.folder.rglob("here/**/merged.log")).read_text()
    assert "rank 0 | late" in merged
    none = site.play(None, playbook="rankzero.slurm.status", launch_wait=None, launch_name="nobody")
    assert none.rc == 0 and "no launch with name nobody is recorded" in none.output
