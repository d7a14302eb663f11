# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches on a lab of profile site: an ordinary user, control groups, a share that caches, the rules of a site.

What the machine cannot do is named by the lab, and the test that needs it is skipped with that reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cgroups, cluster, profile
from tests.cluster.conftest import LabCluster, instance_name, lab_of
from tests.cluster.launching import JOB_SECONDS, Site, log_of, rank_logs, read_json
from tests.cluster.test_launch_resume import COUNTS, STEPS, begun, early, nothing_left

#: What a rank sees of its user, its cores, its devices and its /tmp.
LOOK = """
id -un; grep Cpus_allowed_list /proc/self/status; echo "gpus $CUDA_VISIBLE_DEVICES"; echo "tmp $(ls -A /tmp)"
for n in 0 1 2 7; do (: < /dev/nvidia$n) 2>&1 | sed 's/.*nvidia/nvidia/'; done
[ "$RANK" != 0 ] || echo '{"loss": 1.5}' > result.json
echo the last word
"""
EATS = 'import sys; sys.stdout.write("eats\\n"); sys.stdout.flush(); x = bytearray(600 << 20); print(len(x))'
#: What the inventory of the lab says of its host.
BECOME = {
    "ansible_become": True,
    "ansible_become_method": "ansible.builtin.su",
    "ansible_become_user": profile.USER,
    "ansible_pipelining": True,
}


@pytest.fixture(scope="module")
def site_lab() -> Iterator[LabCluster]:
    if os.getuid() != 0:
        pytest.skip("a lab of profile site needs root")
    this = lab_of(instance_name("site"), profile="site", nodes=2, cpus=0, partitions=[], internet=False)
    cluster.apply(this, "absent")
    cluster.apply(this, "present")
    try:
        yield LabCluster(this)
    finally:
        cluster.apply(this, "absent")
        assert cgroups.left(this.group) == [], "control groups of the lab are left"


@pytest.fixture
def features(site_lab: LabCluster) -> dict[str, bool | str]:
    return profile.probe(site_lab.lab)


@pytest.fixture
def site(site_lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(site_lab, tmp_path, request.node.name)
    made.cluster["resources"] = {"account": profile.ACCOUNT}
    yield made
    made.close()


def needs(features: dict[str, bool | str], *names: str) -> None:
    for name in names:
        if features[name] is not True:
            pytest.skip(f"{name}: {features[name]}")


def user(site: Site, *argv: str, check: bool = True) -> str:
    return site.lab.head([*profile.become_user(), *argv], check=check).stdout


def test_an_ordinary_user_launches_waits_and_reads_every_log(site: Site, features: dict[str, bool | str]) -> None:
    needs(features, "cgroups", "affinity", "private_tmp", "network_share", "job_submit")
    for node in site.lab.nodes:
        site.lab.node(node, ["touch", "/tmp/of-another"])
    job = site.job(
        LOOK,
        resources={"nodes": 2, "time": "00:05:00", "gpus_per_node": 2, "gpu_type": "h100", "memory": "500M"},
        artifact={"require": {"loss": {"lt": 2}}},
    )
    played = site.play(job, wait=True)
    assert played.rc == 0, played.output
    launch = played.launch()
    run = site.run_dir(launch)
    (waited,) = played.results("rankzero.slurm.job_wait")
    assert (waited["success"], waited["job_id"]) == (True, launch["job_id"])
    assert run.stat().st_uid == profile.UID
    # Each rank on a core of its own (L11), with both GPUs of the node and none of the others', and a /tmp of the job's.
    logs = rank_logs(run)
    for rank in range(4):
        lines = logs[f"rank-{rank:04d}.log"].splitlines()[1:]
        assert lines[:4] == [profile.USER, f"Cpus_allowed_list:\t{rank % 2}", "gpus 0,1", "tmp "], lines
        denied = [line.split(":")[0] for line in lines if line.endswith("Operation not permitted")]
        absent = [line.split(":")[0] for line in lines if line.endswith("No such device or address")]
        assert (denied, absent) == (["nvidia2", "nvidia7"], ["nvidia0", "nvidia1"]), lines
        assert lines[-1] == "the last word"
    table = (run / "preflight" / "0" / "table").read_text().splitlines()
    assert table[2] == f"bound {','.join(site.lab.nodes)} 0:cpus=0,gpus=0-1 1:cpus=1,gpus=0-1", table
    # Rank 0's log was looked at while it grew; what was fetched is whole all the same.
    fetched = {path.name: path.read_text() for path in (site.folder / "runs").rglob("rank-*.log")}
    assert fetched == logs
    # The site's rules: another comment, which accounting does not keep; the launch is found by its name.
    shown = user(site, "scontrol", "show", "job", launch["job_id"])
    assert "Comment=checked by the site" in shown and "Requeue=0" in shown
    again = site.play(job, wait=True)
    assert again.launch()["launch_state"] == "unchanged"
    assert again.launch()["job_id"] == launch["job_id"]
    # Nobody sees what others run.
    sees = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "squeue", "--noheader", "--states=all"]
    assert site.lab.head(sees).stdout == ""
    assert launch["job_id"] in user(site, "squeue", "--noheader", "--states=all")


def test_what_a_site_refuses_and_stops_is_said_clearly(site: Site, features: dict[str, bool | str]) -> None:
    needs(features, "cgroups", "affinity", "job_submit")
    common = {"time": "00:05:00", "memory": "300M"}
    jobs = {
        "nobody": site.job("true", name="nobody", resources={**common, "account": None}),
        "unknown": site.job("true", name="unknown", resources={**common, "account": "nonsense"}),
        "long": site.job("true", name="long", resources={**common, "qos": "debug", "time": "01:00:00"}),
        # As SLURM_CPU_BIND inherited from a shell would do it: both ranks on one core.
        "bound": site.job(
            "true",
            name="bound",
            resources=common,
            launcher={"ranks_per_node": 2, "srun": {"cpu-bind": "map_cpu:1"}},
        ),
        "blind": site.job(
            "true",
            name="blind",
            resources={**common, "gpus_per_node": 2, "gpu_type": "h100"},
            launcher={"srun": {"gpu-bind": "single:1"}},
        ),
        "eats": site.job(["python3", "-c", EATS], name="eats", resources=common),
    }
    played = site.play_many({host: {"launch_job": job, **BECOME} for host, job in jobs.items()}, wait=True)
    assert played.rc == 2
    assert "this site charges every job to an account: give --account" in played.refused("nobody")
    yours = f"is not an account of {profile.USER} here. Yours: {profile.ACCOUNT}."
    assert f"resources.account: 'nonsense' {yours}" in played.refused("unknown")
    assert "resources.time: 01:00:00 asked, QOS debug allows at most 00:10:00." in played.refused("long")
    messages = {host: site.outcome(played.launch(host))["message"] for host in ("bound", "blind")}
    assert messages["bound"].startswith("preflight: node0") and "share 1 CPU (1) for 2" in messages["bound"], messages
    assert "task 0 sees 1 GPU" in messages["blind"] and "for 2 that the job asked for" in messages["blind"], messages
    for host in messages:
        assert not list((site.run_dir(played.launch(host)) / "logs" / "0").glob("rank-*")), "no rank started"
    (waited,) = played.results("rankzero.slurm.job_wait", "eats")
    assert "(first: task 0 on node0" in waited["message"] and ", Out Of Memory)" in waited["message"], waited
    steps = user(site, "sacct", "--noheader", "--jobs", waited["job_id"], "--format=State%20").split()
    assert "OUT_OF_MEMORY" in steps, steps
    assert "eats" in rank_logs(site.run_dir(played.launch("eats")))["rank-0000.log"]


def test_a_result_from_another_node_is_proven_whatever_this_one_remembers(
    site: Site, features: dict[str, bool | str]
) -> None:
    """R5: the verdict is written on the first node; here it has asked for the result too early, by name or by size."""
    needs(features, "network_share")
    told = 'until ls | grep -qx "$1"; do sleep 0.1; done'
    asks = {"missing": "! cat result.json", "partial": "wc -c < result.json"}
    writes = {"missing": ":", "partial": "printf '{\"loss\"' > result.json"}
    jobs = {}
    for what, ask in asks.items():
        line = f"""
told() {{ {told}; }}
if [ $RANK = 0 ]; then told first; {ask}; touch asked; told done
else {writes[what]}; touch first; told asked; printf '{{"loss": 1.0}}' > result.json; touch done; fi
"""
        resources = {"nodes": 2, "time": "00:05:00", "memory": "300M"}
        job = site.job(line, name=what, resources=resources, artifact={"require": {"loss": {"lt": 2}}})
        jobs[what] = {"launch_job": job, **BECOME}
    played = site.play_many(jobs, wait=True)
    assert played.rc == 0, played.output
    for what in jobs:
        outcome = site.outcome(played.launch(what))
        assert (outcome["success"], outcome["artifact"]["bytes"]) == (True, len('{"loss": 1.0}')), outcome
        work = site.run_dir(played.launch(what)) / "work"
        assert sorted(path.name for path in work.iterdir()) == ["README", "asked", "done", "first", "result.json"]


def test_the_early_signal_and_preemption_both_lead_to_the_very_step(site: Site) -> None:
    """R4 where a site requeues nobody by itself: the partition's grace is all that the ranks have."""
    node = site.lab.nodes[0]
    job = site.job(
        ["python3", "-c", COUNTS],
        artifact={"require": {"steps": {"ge": STEPS}}},
        checkpoint={"signal_before_end": 60, "requeue": True, "progress": "saved"},
        resources={"time": "00:10:00", "sbatch": {"nodelist": node}, "memory": "500M"},
        launcher={"ranks_per_node": 2},
    )
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: ": submitted;" in play.output or play.process.poll(), JOB_SECONDS, "it is submitted")
    (run,) = site.runs()
    launch = {
        "job_id": read_json(site.wait_for(run / "started.json"))["job_id"],
        "run_dir": f"{site.lab.shared_inside}/{run.relative_to(site.lab.shared)}",
    }
    begun(site, launch, 0, "step 4", ranks=2)
    early(site, launch)
    begun(site, launch, 1, "resumed at step 5", ranks=2)
    begun(site, launch, 1, "step 9", ranks=2)
    asked = ["sbatch", "--parsable", "--account", profile.ACCOUNT, "--partition=urgent", f"--nodelist={node}"]
    urgent = user(site, *asked, "--exclusive", "--time=1", "--chdir=/tmp", "--output=/dev/null", "--wrap=true").strip()
    begun(site, launch, 1, "saved step 10", ranks=2)
    site.lab.wait_until(lambda: site.jobs("").get(urgent) == "COMPLETED", JOB_SECONDS, "the urgent job has run")
    done = play.finish()
    assert done.rc == 0, done.output
    (waited,) = done.results("rankzero.slurm.job_wait")
    assert (waited["success"], waited["job_id"], waited["attempt"]) == (True, launch["job_id"], 2), waited
    for rank in range(2):
        assert "resumed at step 10" in rank_logs(run, 2)[f"rank-{rank:04d}.log"]
    verdict = read_json(run / "outcome.before-attempt-2.json")
    assert verdict["message"] == "preempted by a job of a higher priority; requeued: attempt 3 follows", verdict
    said = log_of(run, launch["job_id"])
    assert "attempt 2 on" in said
    nothing_left(site, launch)


def test_what_a_killed_lab_left_is_cleared(site_lab: LabCluster) -> None:
    """Last: it ends the lab's processes as a crash of the machine's memory would, groups and mounts stay."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.lab import processes

    marks = processes.Marks(site_lab.lab.marker, f"{site_lab.dir}/lib/agent", str(site_lab.dir))
    assert processes.kill_all(marks) > 10
    if profile.probe(site_lab.lab)["cgroups"] is True:
        assert cgroups.left(site_lab.lab.group), "a killed lab leaves its groups"
    report = cluster.apply(site_lab.lab, "present")
    assert (report.was, report.now) == ("stopped", "running")
    known = json.loads((site_lab.dir / "lab.json").read_text())
    assert known["ready"]
    options = ["--account", profile.ACCOUNT, "--nodes=2", "--mem=100M", "--time=1"]
    said = site_lab.head([*profile.become_user(), "srun", *options, "sh", "-c", "echo ok > /shared/$SLURMD_NODENAME"])
    assert said.returncode == 0
    assert sorted(path.name for path in site_lab.shared.glob("node0*")) == site_lab.nodes
