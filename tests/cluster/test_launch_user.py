# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As a person uses it: Ctrl-C and back again, the installed collection in a folder of one's own, a training run."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.cluster.launching import CLOSING, JOB_SECONDS, PLAYBOOK, RESULT, UNTIL_GO, Site, rank_logs, read_json
from tests.repository import ROOT

EXAMPLE = ROOT / "examples" / "first_run"


def test_ctrl_c_leaves_the_job_alone_and_the_same_command_attaches_again(site: Site) -> None:
    job = site.job(f"echo step 1; {UNTIL_GO}; {RESULT}", artifact={"require": {"loss": {"lt": 2}}})
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: ": waiting; Ctrl-C" in play.output or play.process.poll(), JOB_SECONDS, "it waits")
    (job_id,) = site.jobs()
    assert f"job {job_id}, generation 1: submitted" in play.output, "the id is on the screen before the wait"
    play.signal(signal.SIGINT)
    interrupted = play.finish()
    assert interrupted.rc != 0
    (run,) = site.runs()
    site.wait_for(run / "started.json")
    assert site.jobs() == {job_id: "RUNNING"}
    assert not (run / "outcome.json").exists()

    again = site.start(job, wait=True)
    site.lab.wait_until(lambda: "adopted" in again.output or again.process.poll(), JOB_SECONDS, "it attaches")
    (site.wait_for(run / "work") / "go").touch()
    back = again.finish()
    assert back.rc == 0, back.output
    assert (back.launch()["submission"], back.launch()["job_id"]) == ("adopted", job_id)
    assert re.search(f"job       {job_id}, generation 1, (COMPLETED|{'|'.join(CLOSING)})", back.output)
    assert [*site.jobs()] == [job_id]


def test_a_wait_that_ends_before_the_job_says_so_and_fails(site: Site) -> None:
    job = site.job(UNTIL_GO)
    played = site.play(job, wait=True, launch_wait_timeout=1)
    launch = played.launch()
    assert played.rc == 2
    assert f"the wait ended before job {launch['job_id']}; the job continues" in played.output
    assert site.jobs()[launch["job_id"]] in ("PENDING", "RUNNING")
    site.go(launch)
    assert site.outcome(launch)["success"]


def test_the_installed_collection_launches_from_a_folder_of_ones_own(site: Site, installed_collections: Path) -> None:
    """A path on the command line is relative to where one stands, a path in a job file to that file."""
    project = site.folder / "project"
    shutil.copytree(site.folder / "code", project / "src")
    (project / "src" / "say.py").write_text("print('from the installed collection')\n", encoding="utf-8")
    job = {**site.job(["say.py"]), "code": {"src": "../src"}}
    site.write(job, "project/jobs/x.yml")
    where = {"ANSIBLE_COLLECTIONS_PATH": str(installed_collections)}
    variables = {"launch_logs_dest": "logs-here"}
    played = site.play("project/jobs/x.yml", "-e", "nodes=2", playbook=PLAYBOOK, env=where, wait=True, **variables)
    assert played.rc == 0, played.output
    launch = played.launch()
    for node in range(2):
        assert "from the installed collection" in rank_logs(site.run_dir(launch))[f"rank-{node:04d}.log"]
    fetched = [path.relative_to(site.folder) for path in site.folder.rglob("rank-0001.log")]
    assert [path.parts[0] for path in fetched] == ["logs-here"], fetched
    assert read_json(site.run_dir(launch) / "launch.json")["spec"]["code"]["src"] == str(project / "src")
    # From another folder it is the same launch.
    elsewhere = site.play(str(project / "jobs" / "x.yml"), "-e", "nodes=2", env=where)
    assert elsewhere.launch()["submission"] == "unchanged"
    assert elsewhere.launch()["job_id"] == launch["job_id"]


def test_an_ordinary_user_launches_into_his_home_from_a_store_of_others(site: Site) -> None:
    if site.lab.way != "realistic":
        pytest.skip("in a lab of the simple way every other test is run by an ordinary user")
    site.outcome(site.launch(site.job("true", name="store")))  # another fills the store, which he may only read
    job = site.job("id -u; ls -l")
    options = site.as_ordinary_user()
    launch = site.launch(job, **options)
    home = f"{site.lab.shared_inside}/home-{site.token}"
    assert launch["run_dir"].startswith(f"{home}/.rankzero/state/runs/"), "the default is below his home"
    assert site.outcome(launch)["success"]
    said = rank_logs(site.run_dir(launch))["rank-0000.log"]
    assert "\n65534\n" in said and "README -> " in said, said
    assert site.launch(job, **options)["submission"] == "unchanged"


def test_a_manifest_of_an_earlier_run_is_a_job_file(site: Site) -> None:
    job = site.job("echo again", env={"WORD": "7"}, resources={"nodes": 2, "time": "00:03:00"})
    first = site.launch(job)
    site.outcome(first)
    shutil.copy(site.run_dir(first) / "launch.json", site.folder / "earlier.json")
    second = site.launch("earlier.json")
    assert (second["key"], second["submission"], second["job_id"]) == (first["key"], "unchanged", first["job_id"])


def test_the_example_trains_under_srun(site: Site, pytestconfig: pytest.Config) -> None:
    """The real thing: torch's DDP over Gloo on two nodes with two ranks each, in an environment built for it. Under
    torchrun, too, with --all; its own playbook starts it so in test_environment_example.py.

    Its store is that of the other tests with torch: what one of them has built is not built again.
    """
    shutil.copytree(EXAMPLE, site.folder / "first_run", ignore=shutil.ignore_patterns("runs", "__pycache__"))
    kinds = ("srun", "torchrun") if pytestconfig.getoption("--all") else ("srun",)
    jobs = {
        kind: {"launch_job": "first_run/jobs/first_run.yml", "launch_overrides": {"launcher": kind, "nodes": 2}}
        for kind in kinds
    }
    cluster = {**site.cluster, "store_root": f"{site.user.place('example')}/store_root"}
    played = site.play_many(jobs, wait=True, timeout=600, launch_cluster=cluster)
    assert played.rc == 0, played.output
    for kind in kinds:
        launch = played.launch(kind)
        run = site.run_dir(launch)
        outcome = read_json(run / "outcome.json")
        assert (outcome["success"], site.ended(launch["job_id"])) == (True, "COMPLETED")
        result = read_json(run / "work" / "result.json")
        assert (result["world_size"], result["rank_sum"], result["steps"]) == (4, 0 + 1 + 2 + 3, 60)
        assert result["parameters_identical"] is True and len(set(result["parameter_hashes"])) == 1
        assert len(result["parameter_hashes"]) == 4
        # The hook has seen torch make the group.
        assert outcome["together"] is True
        assert result["loss"] < 3.5 < result["first_loss"], result
        nodes = read_json(run / "started.json")["nodes"]
        assert len(nodes) == 2 and result["hosts"] == [nodes[0], nodes[0], nodes[1], nodes[1]]
        assert [result["loss"], result["torch"]] == [outcome["artifact"]["scalars"][key] for key in ("loss", "torch")]
        logs = rank_logs(run)
        assert sorted(logs) == [f"rank-{rank:04d}.log" for rank in range(4)]
        for rank in range(4):
            banner = f"RANK={rank} LOCAL_RANK={rank % 2} WORLD_SIZE=4 NODE_RANK={rank // 2} host={nodes[rank // 2]} "
            assert logs[f"rank-{rank:04d}.log"].count(f"[rankzero] {banner}") == 1, logs
            # The program saw the same.
            assert f"rank {rank}/4 local rank {rank % 2} host {nodes[rank // 2]} " in logs[f"rank-{rank:04d}.log"]
        # Which steps are shown depends on how fast they come: about one line a second, and the last one.
        assert re.search(rf"{kind}: job {launch['job_id']}: .*step \d+/60 loss \d", played.output)
        assert f"{kind}: first-run succeeded" in played.output


def test_a_program_that_writes_beside_itself_has_a_copy_of_the_code(site: Site) -> None:
    builds = "import os\nwith open(os.path.join(os.path.dirname(os.path.realpath(__file__)), 'built'), 'x'): pass\n"
    package = site.folder / "code" / "package"
    package.mkdir()
    (package / "tool.py").write_text(builds, encoding="utf-8")
    code = {"src": str(site.folder / "code"), "writable": True}
    run = site.run_dir(site.launch(site.job(["package/tool.py"], code=code), wait=True))
    assert {path.name for path in (run / "work" / "package").iterdir()} == {"tool.py", "built"}
    refused = site.play(site.job(["package/tool.py"], "links"), wait=True)
    assert refused.rc != 0 and "built" in refused.output, "the snapshot is nobody's to change"


def test_ranks_with_whole_nodes_share_their_cpus(site: Site) -> None:
    said = 'echo "cpus $OMP_NUM_THREADS of $(nproc) in $SLURM_CPUS_PER_TASK of $SLURM_CPUS_ON_NODE"'
    resources = {"nodes": 2, "exclusive": True, "time": "00:10:00"}
    launch = site.launch(site.job(said, resources=resources, launcher={"ranks_per_node": 2}), wait=True)
    logs = rank_logs(site.run_dir(launch))
    lines = [re.search(r"^cpus (\d+) of \d+ in (\d+) of (\d+)$", log, re.M) for log in logs.values()]
    assert len(lines) == 4
    for line in lines:
        assert line is not None
        threads, task, node = map(int, line.groups())
        assert threads == task == node // 2 > 1
