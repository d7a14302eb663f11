# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is looked at before a job is queued, on a cluster that enforces accounts, QOS and limits.

What is refused is asked by an ordinary user; what runs is root's, because the lab's files are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.launching import Played, Site, log_of, rank_logs

CONF = [
    "AccountingStorageEnforce=associations,limits,qos",
    "PreemptType=preempt/partition_prio",
    "PreemptMode=REQUEUE",
    "JobRequeue=0",
    "PartitionName=gated Nodes=node01 AllowAccounts=physics AllowQos=high MaxTime=10 MaxNodes=1",
    "PartitionName=staff Nodes=ALL AllowGroups=adm",
    "PartitionName=scavenge Nodes=ALL PreemptMode=CANCEL GraceTime=20",
]
ACCOUNTS = [
    "account ml Description=x Organization=x",
    "account physics Description=x Organization=x",
    "account busy Description=x Organization=x",
    "account small Description=x Organization=x GrpTRESMins=node=50",
    "qos high MaxWall=02:00:00 MaxTRESPerJob=node=2,gres/gpu=4 MaxTRESPerUser=cpu=8",
    "user nobody Account=ml QOS=normal,high DefaultQOS=normal MaxTRESPerJob=node=2",
    "user nobody Account=physics QOS=normal MaxWallDurationPerJob=00:30:00",
    "user nobody Account=busy QOS=normal MaxSubmitJobs=1",
    "user nobody Account=small QOS=normal MaxTRESMinsPerJob=node=30",
    f"user {profile.USER} Account=physics",
]


@pytest.fixture(scope="module")
def strict() -> Iterator[LabCluster]:
    """A lab with accounts, of three nodes."""
    this = lab_of(instance_name("strict"), nodes=3, slurm_conf=CONF, gres=["lscratch:500"])
    with booted(this) as lab:
        if lab.way != "realistic":
            pytest.skip("another user than the one who boots the lab needs root")
        for words in ACCOUNTS:
            lab.head(["sacctmgr", "--immediate", "--quiet", "add", *words.split()])
        # The controller hears of it from slurmdbd.
        shown = ["scontrol", "show", "assoc_mgr", "users=nobody", "flags=assoc"]
        lab.wait_until(lambda: lab.head(shown).stdout.count("UserName=nobody") == 4, what="the accounts are known")
        yield lab


@pytest.fixture(scope="module")
def site(strict: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(strict, tmp_path_factory.mktemp("strict"), "strict")
    yield made
    made.close()


def said(played: Played) -> str:
    """What the run printed, as one line: some versions of Ansible fold their warnings."""
    return " ".join(played.output.split())


#: What the request asks for -> what the message must say. None of it would ever run; sbatch takes half of it with rc 0.
REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "gated": (
        {"partition": "gated", "time": "00:20:00", "nodes": 2},
        (
            "resources.account: ml, but partition gated takes only physics.",
            "resources.qos: normal, but partition gated takes only high.",
            "resources.nodes: 2 asked, partition gated has 1.",
            "resources.time: 00:20:00 asked, partition gated allows at most 00:10:00.",
        ),
    ),
    "group": ({"partition": "staff"}, ("resources.partition: staff is for the groups adm; nobody is in ",)),
    "account": (
        {"account": "phisics"},
        ("'phisics' is not an account of nobody here; did you mean physics? Yours: busy, ml, physics, small.",),
    ),
    "qos": (
        {"account": "physics", "qos": "high"},
        ("resources.qos: 'high' is not open to account physics. Open to it: normal.",),
    ),
    "wall": (
        {"account": "physics", "time": "01:00:00"},
        ("resources.time: 01:00:00 asked, the association of account physics allows at most 00:30:00.",),
    ),
    "nodes": (
        {"nodes": 3},
        ("resources.nodes: 3 nodes asked, the association of account ml allows at most 2 for a job.",),
    ),
    "high": (
        {"qos": "high", "nodes": 3, "time": "03:00:00", "gpus_per_node": 2, "cpus_per_rank": 3, "memory": "99G"},
        (
            "resources.time: 03:00:00 asked, QOS high allows at most 02:00:00.",
            "resources.nodes: 3 nodes asked, QOS high allows at most 2 for a job.",
            "resources.gpus_per_node: 6 GPUs asked, QOS high allows at most 4 for a job.",
            "resources.cpus_per_rank: 18 CPUs asked, QOS high allows at most 8 for a user.",
            "resources.memory: 101376 MiB a node asked on 3 nodes",
        ),
    ),
    # The budget of this host, the limit of the association, and what sshare says of the account above it.
    "minutes": (
        {"account": "small", "time": "01:00:00"},
        (
            "launch_cluster.budget.node_hours: this launch asks for at most 1 node-hours (1 node x 1 h), and 0.5 are ",
            "resources.time: 1 nodes for 01:00:00 are 60 minutes of them, the association of account small allows at ",
            "are 60 minutes of them, and 50 of 50 are left to account small (GrpTRESMins).",
        ),
    ),
    "gres": (
        {"gpus_per_node": 1, "gres": ["lscratch:501", "nosuch"]},
        (
            "resources.gres: lscratch:501 asked on 1 node, but of partition batch 0 of 3 nodes have that many ",
            "(most on a node: 500). Known there: gpu, lscratch.",
            "resources.gres: nosuch asked on 1 node",
        ),
    ),
    "busy": (
        {"account": "busy"},
        ("you have 1 jobs in the queue, and the association of account busy allows 1 at once",),
    ),
}  # fmt: skip


def test_what_would_never_run_is_refused_with_every_reason_and_its_numbers(site: Site) -> None:
    held = ["sbatch", "--hold", "--account=busy", "--job-name=held", "--chdir=/tmp", "--wrap=true"]
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp"]
    site.lab.head([*become, *held])
    before = site.jobs("")
    shell = site.ordinary_user()
    home = f"{site.lab.shared_inside}/home-{site.token}"
    hosts = {
        host: {
            "ansible_shell_executable": shell,
            "ansible_become": False,
            "launch_cluster": {
                "state_root": f"{home}/state",
                "store_root": f"{home}/store",
                **({"budget": {"node_hours": "0.5"}} if host == "minutes" else {}),
            },
            "launch_job": {**site.job("true", name=host), "resources": {"time": "00:10:00", **wanted}},
        }
        for host, (wanted, _parts) in REFUSED.items()
    }
    # Check mode judges without code, and asks the same questions. Modules travel through standard input: nobody may
    # read root's files.
    done = site.play_many(hosts, "--check", "--forks=4", launch_cluster=None, env={"ANSIBLE_PIPELINING": "1"})
    for host, (_wanted, parts) in REFUSED.items():
        message = done.refused(host)
        for part in parts:
            assert part in message, message
    assert site.jobs("") == before
    assert not site.host_path(f"{home}/state").exists()
    site.lab.head(["scancel", "--name=held"])


def test_check_mode_tells_slurms_own_word_and_why_each_variable_is_set(site: Site) -> None:
    job = site.job(
        "true",
        name="table",
        fabric="roce",
        env={"NCCL_DEBUG": "WARN"},
        secrets={"TOKEN": {"from_env": "RANKZERO_TEST_TOKEN"}},
    )
    few = site.play(job, "--check", env={"RANKZERO_TEST_TOKEN": "not-to-be-seen"})
    shown = [line.partition(": ")[2].strip() for line in few.output.splitlines() if ":   " in line]
    decide = ("runs", "on", "time", "in", "success", "looked at: Slurm would start", "generation 1", "-e explain=true")
    assert [line for line in shown if line.startswith(decide)] == shown and len(shown) == len(decide), few.output
    done = site.play(job, "--check", "-e", "explain=true", env={"RANKZERO_TEST_TOKEN": "not-to-be-seen"})
    launch = done.launch()
    assert len(few.launch()["explain"]) == len(launch["explain"]) > 10, "who reads the result has it in any case"
    facts = launch["checks"]["facts"]
    assert "partition batch, account physics, QOS normal" in facts
    assert any(fact.startswith("Slurm would start it at ") and "sbatch --test-only" in fact for fact in facts), facts
    assert launch["checks"]["unknown"] == []
    rows = {row["name"]: row for row in launch["variables"]}
    assert (rows["TOKEN"]["value"], rows["TOKEN"]["source"]) == ("(hidden)", "secrets")
    assert "NCCL before 2.21, until " in rows["NCCL_IB_GID_INDEX"]["workaround"]
    assert rows["GLOO_SOCKET_IFNAME"]["value"] == "(on the node)"
    for line in launch["explain"]:
        assert line in done.output
    assert "not-to-be-seen" not in done.output
    assert site.jobs("table") == {}


def test_a_launch_that_fits_runs_warns_of_its_short_window_and_costs_two_commands_from_then_on(site: Site) -> None:
    job = site.job(
        "printenv HF_HOME HF_HUB_OFFLINE; mkdir $XDG_CACHE_HOME",
        name="fits",
        offline=True,
        resources={"time": "00:10:00", "partition": "scavenge", "account": "physics"},
        checkpoint={"signal_before_end": 60, "requeue": True},
    )
    caches = f"{site.state_root}.caches"
    own = {**site.cluster, "caches": caches}
    first = site.play(job, launch_cluster=own)
    launch = first.launch()
    assert first.rc == 0, first.output
    words = said(first)
    assert "checkpoint.signal_before_end: 60 s, but a job that is preempted in partition scavenge has 20 s" in words
    assert "checkpoint.requeue: partition scavenge cancels a preempted job (PreemptMode=CANCEL)" in words
    # JobRequeue=0 is the default for jobs that do not say it; ours does.
    assert "Requeue=1" in site.lab.head(["scontrol", "show", "job", launch["job_id"]]).stdout
    outcome = site.outcome(launch)
    run = site.run_dir(launch)
    assert outcome["success"], log_of(run, launch["job_id"])
    (words,) = rank_logs(run).values()
    assert site.host_path(f"{caches}/xdg").is_dir()
    assert f"{caches}/huggingface\n1\n" in words
    site.ended(launch["job_id"])
    again = site.play(job, "-e", "rerun=true", launch_explain=True, launch_cluster=own)
    warm = again.launch()
    # Beside a folder of the same key the queue is asked once more, for a job whose own folder somebody removed.
    assert (warm["submission"], warm["generation"], warm["slurm_commands"]) == ("submitted", 2, 3)
    assert "the variables of every rank, and why:" in again.output
    site.outcome(warm)


def test_generic_resources_beside_gpus_are_given_to_a_job_and_found_inside_an_allocation(site: Site) -> None:
    """Of two --gres Slurm takes the last one, and what is only counted it shows in another form than GPUs."""
    here = ["lscratch:200"]
    wanted = {"time": "00:05:00", "partition": "scavenge", "gpus_per_node": 2, "gres": here}
    job = {**site.job("scontrol show -d job $SLURM_JOB_ID", name="gres"), "resources": wanted}
    done = site.launch(job)
    outcome = site.outcome(done)
    assert outcome["success"], log_of(site.run_dir(done), done["job_id"])
    shown = rank_logs(site.run_dir(done))["rank-0000.log"]
    assert re.search(r"JOB_GRES=gpu:2,lscratch:200\b", shown), shown
    held = ["--nodes=1", "--cpus-per-task=2", "--gres=gpu:2,lscratch:300", "--mem=800M", "--time=00:10:00"]
    given = site.head(["salloc", "--no-shell", "--partition=scavenge", *held]).stderr
    inside = re.search(r"job allocation (\d+)", given)
    assert inside, given
    attached = {**job, "name": "inside", "launcher": {"inside_job": inside[1]}}
    much = {**attached, "name": "much", "resources": {**wanted, "gres": ["lscratch:301"]}}
    jobs = {"inside": attached, "much": much}
    hosts = {host: {"launch_job": one, "launch_cluster": site.cluster} for host, one in jobs.items()}
    both = site.play_many(hosts, launch_cluster=None)
    assert "resources.gres: lscratch:301 asked, job " in both.refused("much")
    launch = both.launch("inside")
    assert site.outcome(launch)["success"], log_of(site.run_dir(launch), launch["job_id"])
    site.lab.head(["scancel", inside[1]])


def test_accounting_that_does_not_answer_is_said_and_stops_nobody(site: Site) -> None:
    shell = site.fake("sacctmgr", "echo 'sacctmgr: error: Problem talking to the database' >&2; exit 1")
    job = site.job("true", name="silent", resources={"time": "00:05:00", "partition": "scavenge"})
    own = {**site.cluster, "state_root": f"{site.state_root}.silent"}
    hosts = {"silent": {"ansible_shell_executable": shell, "launch_job": job, "launch_cluster": own}}
    done = site.play_many(hosts, launch_cluster=None)
    launch = done.launch("silent")
    assert launch["submission"] == "submitted"
    assert f"not checked before the submission: accounts of {site.user.name}: sacctmgr" in said(done)
    assert "limits of each QOS: sacctmgr" in said(done)
    assert site.outcome(launch)["success"]


def test_an_environment_of_the_sites_own_runs_the_ranks_and_a_changed_one_is_another_launch(site: Site) -> None:
    """A conda environment in its outward form (no conda is here): history, bin/python, a script of activate.d."""
    inside = f"{site.state_root}.envs/torch"
    place = site.host_path(inside)
    for folder in ("bin", "conda-meta", "etc/conda/activate.d", "lib/python3.11/site-packages/one-1.0.dist-info"):
        (place / folder).mkdir(parents=True)
    (place / "bin" / "python").symlink_to("/usr/bin/python3")
    (place / "conda-meta" / "history").write_text("==> once <==\n", encoding="utf-8")
    script = place / "etc" / "conda" / "activate.d" / "gdal.sh"
    script.write_text('export GDAL_DATA="$CONDA_PREFIX/share" UNSET="$NOBODY_HAS_SET"\n', encoding="utf-8")
    program = site.folder / "code" / "where.py"
    program.write_text("import os, sys; print(sys.executable, os.environ['GDAL_DATA'])\n", encoding="utf-8")
    job = {
        **site.job(["where.py"], name="env", environment={"mode": "path", "path": inside}),
        "resources": {"time": "00:05:00", "partition": "scavenge"},
    }
    first = site.launch(job)
    assert first["submission"] == "submitted"
    assert {"CONDA_PREFIX", "CONDA_DEFAULT_ENV"} <= {row["name"] for row in first["variables"]}
    assert site.outcome(first)["success"], log_of(site.run_dir(first), first["job_id"])
    (words,) = rank_logs(site.run_dir(first)).values()
    assert words.splitlines()[-1] == f"{inside}/bin/python {inside}/share"

    (place / "lib/python3.11/site-packages/two-2.0.dist-info").mkdir()
    gone = {**job, "environment": {"mode": "path", "path": f"{inside}-gone"}}
    bare = {**job, "environment": {"mode": "path", "path": "/shared"}}
    jobs = {"changed": job, "gone": gone, "bare": bare}
    hosts = {host: {"launch_job": one, "launch_cluster": site.cluster} for host, one in jobs.items()}
    later = site.play_many(hosts, "--check", launch_cluster=None)
    assert later.launch("changed")["key"] != first["key"]
    assert f"environment.path: {inside}-gone is not on the cluster" in later.refused("gone")
    assert "environment.path: /shared has no bin/python" in later.refused("bare")


def test_the_role_nccl_looks_at_the_cluster_and_explains_its_fabric(site: Site) -> None:
    own = {"site": {"NCCL_NET": {"value": "IB", "version": "NCCL 2.19", "expires": "2026-01-31"}}}
    look = {"rankzero.slurm.fabric_info": {"fabric": "infiniband_h100", "fabrics": own, "gpu_types": ["a100"]}}
    roles = [{"role": "rankzero.slurm.nccl", "nccl_cluster": {"fabric": "site", "fabrics": own}}]
    play = {"hosts": "slurm_login", "gather_facts": False, "roles": roles, "tasks": [{**look, "tags": ["explain"]}]}
    path = site.folder / "fabric.yml"
    path.write_text(json.dumps([play]), encoding="utf-8")
    done = site.play(None, "--tags", "explain", playbook=str(path))
    assert done.rc == 0, done.output
    assert "NCCL_NET IB the cluster sets it (launch_cluster.fabrics.site; workaround for NCCL 2.19, until" in said(done)
    (info,) = done.results("rankzero.slurm.cluster_info")
    assert (info["mine"]["default_account"], info["mine"]["enforced"]) == ("physics", ["associations", "limits", "qos"])
    scavenge = next(one for one in info["partitions"] if one["name"] == "scavenge")
    assert (scavenge["preempt_mode"], scavenge["grace_time"], info["settings"]["job_requeue"]) == ("CANCEL", 20, 0)
    by_role, by_task = done.results("rankzero.slurm.fabric_info")
    assert by_role["expired"] == by_task["expired"] and len(by_role["expired"]) == 1
    assert by_task["notes"] == ["fabric infiniband_h100 was written for hopper GPUs, and this cluster has a100"]
