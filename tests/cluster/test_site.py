# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches on a lab of profile site: an ordinary user, control groups, a share that caches, the rules of a site.

What the machine cannot do is named by the lab, and the test that needs it is skipped with that reason.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, profile
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups
from benchmarks.faults.run import run_matrix
from tests import images
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import JOB_SECONDS, Site, log_of, nothing_left, rank_logs, read_json
from tests.cluster.test_attach import ABSENT, steps
from tests.cluster.test_launch_resume import COUNTS, STEPS, begun, early
from tests.cluster.test_sweep import sweep, three_elements

#: What a rank sees of its user, its cores, its devices and its /tmp.
LOOK = """
id -un; grep Cpus_allowed_list /proc/self/status; echo "gpus $CUDA_VISIBLE_DEVICES"; echo "tmp $(ls -A /tmp)"
for n in 0 1 2 7; do (: < /dev/nvidia$n) 2>&1 | sed 's/.*nvidia/nvidia/'; done
[ "$RANK" != 0 ] || echo '{"loss": 1.5}' > result.json
echo the last word
"""
EATS = 'import sys; sys.stdout.write("eats\\n"); sys.stdout.flush(); x = bytearray(600 << 20); print(len(x))'
#: A rank that saves itself when it is told to end.
#: Why it is a loop, and ends with 0, is in test_attach.py.
SAVES = (
    'trap "sleep 1; echo saved; exit 0" TERM; echo "connections $CUDA_DEVICE_MAX_CONNECTIONS"; '
    "while :; do sleep 600 & wait; done"
)


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
    return site.lab.head([*profile.become_user(site.lab.lab), *argv], check=check).stdout


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
    # Each rank on a core of its own, with both GPUs of the node and none of the others', and a /tmp of the job's.
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
    assert again.launch()["submission"] == "unchanged"
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
    played = site.play_many({host: {"launch_job": job} for host, job in jobs.items()}, wait=True)
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
    states = ["sacct", "--noheader", "--jobs", waited["job_id"], "--format=State%20"]
    said = lambda: "OUT_OF_MEMORY" in user(site, *states).split()  # noqa: E731
    site.lab.wait_until(said, JOB_SECONDS, "accounting says why its step ended")
    (why,) = played.results("rankzero.slurm.job_diagnosis", "eats")
    ends = why["diagnosis"]["facts"]["accounting"]
    assert why["diagnosis"]["family"] == "host_oom_killed" and len(why["lines"]) <= 15, why
    assert any(end["state"] == "OUT_OF_MEMORY" and end["asked"] for end in ends), ends
    assert "eats" in rank_logs(site.run_dir(played.launch("eats")))["rank-0000.log"]


def test_a_launch_inside_the_users_own_allocation_starts_ends_and_owns_its_checkpoints(
    site: Site, features: dict[str, bool | str]
) -> None:
    """A launch inside a job where Slurm finds the processes of a step by control group, by a user who is not root."""
    needs(features, "cgroups", "affinity", "job_submit", "network_share")
    options = ["--account", profile.ACCOUNT, "--nodes=2", "--ntasks=2", "--cpus-per-task=2", "--gres=gpu:h100:2"]
    begin = ["salloc", "--no-shell", *options, "--mem=800M", "--time=00:20:00"]
    begun_allocation = site.lab.head([*profile.become_user(site.lab.lab), *begin]).stderr
    allocation = begun_allocation.split("job allocation ")[1].split()[0]
    folder = f"{site.state_root}.checkpoints"
    resources = {"nodes": 2, "time": "00:10:00", "gpus_per_node": 2, "gpu_type": "h100", "memory": "300M"}
    asked = {
        "resources": {**resources, "account": None},
        "launcher": {"inside_job": allocation},
        "parallelism": {"tensor": 2},
        "checkpoint": {"dir": folder},
    }
    job = site.job(SAVES, **asked)
    try:
        launch = site.launch(job)
        run = site.run_dir(launch)
        site.lab.wait_until(lambda: sum("connections" in text for text in rank_logs(run).values()) == 4, JOB_SECONDS)
        # The GPU's type and the parallelism decide, and a rank has it.
        assert all("connections 1\n" in text for text in rank_logs(run).values()), rank_logs(run)
        started = read_json(run / "started.json")
        assert (started["job_id"], started["nodes"]) == (launch["job_id"], site.lab.nodes)
        assert (run / "claim").read_text().split()[2] == launch["job_id"]
        # The srun that started it was killed, and its step goes on: none is left on the login node for anybody to end.
        processes = site.lab.head(["ps", "-eo", "args"]).stdout.splitlines()
        assert not [
            line for line in processes if "srun" in line.split()[0] and "/attach.sh" in line and site.token in line
        ]
        mine = sorted(name for name in steps(site.lab, allocation).values() if site.token in name)
        assert len(mine) == 2 and mine[1] == f"{mine[0]}.ranks", mine

        refused = site.play(site.job("true", name="second", checkpoint={"dir": folder})).refused()
        assert f"checkpoint.dir: {folder} belongs to job {launch['job_id']} of " in refused

        (site.folder / "absent.yml").write_text(ABSENT)
        cancelled = site.play(job, playbook="absent.yml")
        assert cancelled.launch()["changed"], cancelled.output
        outcome = site.outcome(launch)
        assert (outcome["ended_by"], outcome["message"]) == ("signal", "cancelled")
        assert all("saved" in text for text in rank_logs(run).values()), rank_logs(run)
        nothing_left(site, launch)
        over = lambda: not [name for name in steps(site.lab, allocation).values() if site.token in name]  # noqa: E731
        site.lab.wait_until(over, JOB_SECONDS, "its steps are over")
        assert site.jobs("")[allocation] == "RUNNING", "the allocation is hers"
    finally:
        user(site, "scancel", allocation, check=False)


def test_a_hidden_store_and_an_image_are_no_matter_to_an_ordinary_user(
    site: Site, features: dict[str, bool | str]
) -> None:
    """Copies by sbcast into a job with a /tmp of its own; a container by crun under the control groups of the job."""
    needs(features, "cgroups", "affinity", "private_tmp", "network_share")
    lab, (first, second) = site.lab, site.lab.nodes
    crun = lab.node(first, ["sh", "-c", "command -v crun"], check=False).returncode == 0
    folder = f"{lab.shared_inside}/images-{site.token}"
    made = images.built(site.host_path(folder), {"PATH": "/usr/bin", "INSIDE": "torch"})
    image = made["sqsh"].replace(str(lab.shared), lab.shared_inside)
    store = site.cluster["store_root"]
    hidden = f"{store}-{site.token}"
    user(site, "mkdir", "-p", hidden)
    (site.folder / "code" / "told").write_text("by the code\n")
    common = {"time": "00:10:00", "memory": "600M"}
    cores = 'while read -r line; do case $line in Cpus_allowed_list*) echo "$line" ;; esac; done < /proc/self/status'
    told = f"cat told; {cores}; echo $(id -u) $INSIDE $(ls /in-the-image 2> /dev/null)"
    jobs = {
        "staged": site.job(told, "staged", resources={**common, "nodes": 2}),
        "contained": site.job(
            told,
            "contained",
            resources={**common, "sbatch": {"nodelist": first}},
            launcher={"ranks_per_node": 2},
            container={"runtime": "oci", "image": image},
        ),
    }
    if not crun:
        del jobs["contained"]
    roots = {"staged": hidden, "contained": store}
    lab.faults.hide(second, hidden)
    try:
        hosts = {
            host: {"launch_job": job, "launch_cluster": {**site.cluster, "store_root": roots[host]}}
            for host, job in jobs.items()
        }
        played = site.play_many(hosts, wait=True, launch_cluster=None)
        assert played.rc == 0, played.output
    finally:
        lab.faults.unhide(second, hidden)
    runs = {host: site.run_dir(played.launch(host)) for host in jobs}
    staged = runs["staged"]
    table = (staged / "preflight" / "0" / "table").read_text()
    assert re.search(rf"^{second} proj=staged ", table, re.MULTILINE), table
    assert re.search(rf"^{first} proj=ok ", table, re.MULTILINE), table
    for text in rank_logs(staged).values():
        assert text.splitlines()[1:] == ["by the code", "Cpus_allowed_list:\t0", f"{profile.UID}"], text
    for rank, text in enumerate(rank_logs(runs["contained"]).values() if crun else ()):
        said = ["by the code", f"Cpus_allowed_list:\t{rank}", f"{profile.UID} torch /in-the-image"]
        assert text.splitlines()[1:] == said, text
    assert [len(rank_logs(run)) for run in runs.values()] == [2] * len(jobs)
    # An environment that is built on this machine at the same time has its folder there, too.
    copies = "ls -d /tmp/rankzero-* /var/tmp/rankzero-[0-9]* /run/crun/* 2>&-; grep '^rankzero ' /proc/mounts; :"
    for node in lab.nodes:
        assert lab.node(node, ["sh", "-c", copies]).stdout == "", node
    for host in jobs:
        nothing_left(site, played.launch(host))
    shutil.rmtree(site.host_path(folder))
    if not crun:
        pytest.skip("the hidden store is shown; the nodes of this lab have no crun (a package of Debian and others)")


@pytest.mark.more
def test_a_sweep_of_an_ordinary_user(site: Site, features: dict[str, bool | str]) -> None:
    """Its tasks read their lines, and it reads their verdicts, through a share that caches."""
    needs(features, "network_share", "job_submit")
    again = sweep(site.play(three_elements(site, memory="100M"), playbook="rankzero.slurm.sweep"))
    assert again["counts"] == {"unchanged": 2, "submitted": 1}


def test_a_result_from_another_node_is_proven_whatever_this_one_remembers(
    site: Site, features: dict[str, bool | str]
) -> None:
    """The verdict is written on the first node; here it has asked for the result too early, by name or by size."""
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
        jobs[what] = {"launch_job": job}
    played = site.play_many(jobs, wait=True)
    assert played.rc == 0, played.output
    for what in jobs:
        outcome = site.outcome(played.launch(what))
        assert (outcome["success"], outcome["artifact"]["bytes"]) == (True, len('{"loss": 1.0}')), outcome
        work = site.run_dir(played.launch(what)) / "work"
        assert sorted(path.name for path in work.iterdir()) == ["README", "asked", "done", "first", "result.json"]


def test_the_early_signal_and_preemption_both_lead_to_the_very_step(site: Site) -> None:
    """Restarts where a site requeues nobody by itself: the partition's grace is all that the ranks have."""
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


def test_faults_lose_and_double_nothing_where_a_share_caches_and_comments_are_the_sites(
    site_lab: LabCluster, tmp_path: Path
) -> None:
    chosen = (
        "killed before sbatch's answer is recorded",
        "killed, and sbatch submits two seconds later",
        "three launches at once, from three hosts",
        "three launches at once after a refusal",
        "requeued while a duplicate waits",
        "the run directory is removed while the job waits",
        "the answer to link() is lost",
    )
    runs = run_matrix(site_lab.lab, "site", tmp_path, 1, chosen=chosen)
    assert [run for run in runs if not run.good] == [] and len(runs) == len(chosen)


def test_what_a_killed_lab_left_is_cleared(site_lab: LabCluster) -> None:
    """Last: it ends the lab's processes as a crash of the machine's memory would, groups and mounts stay."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import processes

    marks = processes.Marks(site_lab.lab.marker, f"{site_lab.dir}/lib/agent", str(site_lab.dir))
    assert processes.kill_all(marks) > 10
    if profile.probe(site_lab.lab)["cgroups"] is True:
        assert cgroups.groups_left(site_lab.lab.group), "a killed lab leaves its groups"
    report = cluster.apply(site_lab.lab, "present")
    assert (report.was, report.now) == ("stopped", "running")
    known = json.loads((site_lab.dir / "lab.json").read_text())
    assert known["ready"]
    options = ["--account", profile.ACCOUNT, "--nodes=2", "--mem=100M", "--time=1"]
    says = f"echo ok > {site_lab.shared_inside}/$SLURMD_NODENAME"
    said = site_lab.head([*profile.become_user(site_lab.lab), "srun", *options, "sh", "-c", says])
    assert said.returncode == 0
    assert sorted(path.name for path in site_lab.shared.glob("node0*")) == site_lab.nodes
