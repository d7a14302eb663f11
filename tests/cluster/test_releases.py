# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labs of other Slurm releases than the host's, and launches from one end to the other on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, release, roots
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import topology
from tests.cluster.conftest import LabCluster, instance_name, lab_of
from tests.cluster.launching import CLOSING, RESULT, UNTIL_GO, Site, log_of, rank_logs
from tests.cluster.profiles import the_profile_is_not_read
from tests.cluster.test_lab_role import playbook
from tests.cluster.test_launch_admission import said
from tests.cluster.test_sweep import three_elements
from tests.repository import leaving

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="another Slurm than the host's needs the realistic way: root")
#: One release proves who somebody is with munge, and one with Slurm's own keys.
SIGNED_BY_SLURM = {"26.05": ["AuthType=auth/slurm", "CredType=cred/slurm"]}
#: What only says that this machine's archive does not have the release now; everything else is a failure.
NOT_HERE = ("no-suite", "no-mirror", "unreachable", "other-version")


#: Of the releases between this machine's and the newest: a launch from one end to the other, and what such a lab is.
NEWEST = [*release.RELEASES][-1]
on_the_newest = pytest.mark.parametrize(
    "newer",
    leaving(release.RELEASES, release.RELEASES.keys() - {NEWEST}),
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module", params=list(release.RELEASES))
def newer(request: pytest.FixtureRequest) -> Iterator[LabCluster]:
    # Each node is a block of its own.
    blocks = ["TopologyPlugin=topology/block", "BlockName=b1 Nodes=node01", "BlockName=b2 Nodes=node02", "BlockSizes=1"]
    lines = [*blocks, *SIGNED_BY_SLURM.get(request.param, [])]
    this = lab_of(instance_name("newer"), slurm=request.param, nodes=2, cpus=4, memory=8000, gpus=2, slurm_conf=lines)
    cluster.apply(this, "absent")
    try:
        cluster.apply(this, "present")
    except roots.RootUnavailable as error:
        if error.cause not in NOT_HERE:
            raise
        pytest.skip(error.message)
    yield LabCluster(this)
    cluster.apply(this, "absent")


@pytest.fixture
def site(newer: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(newer, tmp_path, request.node.name)
    yield made
    made.close()


def test_a_launch_from_one_end_to_the_other(newer: LabCluster, site: Site) -> None:
    """Submitted, adopted while it runs, requeued by somebody, proven, and left alone from then on."""
    program = f"echo rank $RANK of $WORLD_SIZE on $(hostname); {UNTIL_GO}; {RESULT}"
    resources = {"nodes": 2, "gpus_per_node": 2, "cpus_per_rank": 1}
    job = site.job(program, resources=resources, launcher=TWO_RANKS, artifact={"require": {"loss": {"lt": 2}}})
    first = site.launch(job)
    assert first["submission"] == "submitted"
    site.wait_for(site.run_dir(first) / "started.json")
    assert site.launch(job)["submission"] == "adopted"
    newer.head(["scontrol", "requeue", first["job_id"]])
    site.wait_for(site.run_dir(first) / "logs" / "1" / "rank-0003.log")
    site.go(first)

    played = site.play(job, wait=True)
    assert played.rc == 0, played.output
    done = played.results("rankzero.slurm.job_wait")[-1]
    assert (done["job_id"], done["success"], done["attempt"]) == (first["job_id"], True, 1)
    # Slurm may close the job for longer than the module waits for it.
    assert site.ended(done["job_id"]) == "COMPLETED" and done["slurm_state"] in ("COMPLETED", *CLOSING)
    assert done["artifact"]["scalars"] == {"loss": 1.5} and sorted(done["nodes"]) == newer.nodes
    earlier, last = done["attempts"]
    assert earlier["slurm_state"] in ("REQUEUED", None) and last["slurm_state"] == done["slurm_state"]
    logs = rank_logs(site.run_dir(first), attempt=1)
    for rank, text in enumerate(logs.values()):
        assert f"rank {rank} of 4 on {newer.nodes[rank // 2]}\n" in text
    assert done["logs"]["rounds"] == 1
    assert "rank 3 of 4" in "".join(p.read_text() for p in (site.folder / "runs").rglob("rank-0003.log"))
    assert site.launch(job)["submission"] == "unchanged"


@on_the_newest
def test_blocks_are_read_and_segments_asked_for(newer: LabCluster, site: Site) -> None:
    """Groups of four ranks take both nodes, which are a block each; segments of one node are what the cluster has."""
    shown = newer.head(["scontrol", "show", "topology"]).stdout
    assert [(unit.name, unit.nodes) for unit in topology.parse(shown).units] == [("b1", 1), ("b2", 1)]
    wide = site.job("true", "wide", resources={"nodes": 2, "segment": 2, "time": "00:05:00"})
    refused = site.play(wide)
    assert refused.rc != 0
    assert "resources.segment: 1 x 2 nodes asked; 2 blocks of 1 hold 0 such segments." in refused.refused()
    groups = {"parallelism": {"tensor": 4}, "launcher": TWO_RANKS}
    played = site.play(site.job("true", "cut", resources={"nodes": 2, "time": "00:05:00"}, **groups))
    assert "cluster has 2 blocks of 1: no group fits into one block" in said(played)
    launch = played.launch()
    assert site.outcome(launch)["success"]
    table = (site.run_dir(launch) / "preflight" / "0" / "table").read_text()
    assert (
        "blocks b1: 1, b2: 1\ncrossing 1 of 1 groups of 2 nodes lie in several blocks, first node01+node02\n" in table
    )
    single = site.launch(site.job("true", "single", resources={"nodes": 2, "segment": 1, "time": "00:05:00"}))
    assert site.outcome(single)["success"]


TWO_RANKS = {"ranks_per_node": 2}


@on_the_newest
def test_launches_that_come_to_nothing(newer: LabCluster, site: Site) -> None:
    """One fails, one is cancelled, one never gets its nodes: each is told by what Slurm says of it."""
    failing = site.play(site.job("echo no; exit 3", "failing", artifact={"require": {"loss": {"lt": 2}}}), wait=True)
    assert failing.rc != 0
    told = failing.results("rankzero.slurm.job_wait")[-1]
    assert (told["success"], told["exit_code"]) == (False, 3)
    # Slurm may close the job for longer than the module waits for it.
    assert site.ended(told["job_id"]) == "FAILED"

    going = site.job(UNTIL_GO, "cancelled")
    launch = site.launch(going)
    site.wait_for(site.run_dir(launch) / "started.json")
    newer.head(["scancel", launch["job_id"]])
    assert site.ended(launch["job_id"]) == "CANCELLED"
    told = site.launch(going, launch_relaunch="never")
    assert (told["submission"], told["standing"]) == ("unchanged", "failed")
    assert "CANCELLED: it was cancelled" in told["message"]

    refused = site.play(site.job("true", "wide", resources={"nodes": 3})).refused()
    assert "resources.nodes: 3 asked, partition batch has 2" in refused


def test_no_job_reads_a_profile(site: Site) -> None:
    the_profile_is_not_read(site)


@on_the_newest
def test_a_sweep(site: Site) -> None:
    three_elements(site)


@on_the_newest
def test_of_two_submissions_of_a_launch_one_runs(site: Site) -> None:
    ways = [{"time": "00:05:00"}, {"time": "00:04:00"}]
    launch = site.launch(site.job("true", "either", resources={"nodes": 1, "time": "00:05:00", "any_of": ways}))
    ran = site.outcome(launch)["job_id"]
    assert len(site.jobs()) == 2 and ran in site.jobs()
    (other,) = {*site.jobs()} - {ran}
    # It has been cancelled, or it started as soon, found the claim taken, and ran nothing.
    if site.ended(other) != "CANCELLED":
        assert "nothing is run" in log_of(site.run_dir(launch), other)
    assert site.ended(ran) == "COMPLETED"


def test_what_such_a_lab_is(newer: LabCluster, site: Site) -> None:
    """Its own Slurm and Python everywhere; the host's people, homes and files on the head; nothing of them on nodes."""
    version = newer.lab.slurm
    everywhere = "sinfo --version; /usr/bin/python3 -c 'import sys; print(sys.version_info > (3, 12))'; id -u nobody"
    assert newer.head(["sh", "-c", everywhere]).stdout.startswith(f"slurm-wlm {version}.")
    shown = newer.head(["srun", "--nodes=2", "sh", "-c", everywhere]).stdout
    assert shown.count(f"slurm-wlm {version}.") == shown.count("True") == shown.count("65534") == 2
    settings = newer.head(["scontrol", "show", "config"]).stdout
    signed = re.findall(r"^(?:AuthType|CredType) += (\S+)$", settings, re.M)
    assert ([f"AuthType={signed[0]}", f"CredType={signed[1]}"] == SIGNED_BY_SLURM.get(version)) == (version == "26.05")
    newer.head(["test", "-e", str(site.folder)])
    assert newer.node("node01", ["test", "-e", str(site.folder)], check=False).returncode == 1
    newer.node("node01", ["touch", "/usr/bin/only-here"])
    assert newer.node("node02", ["test", "-e", "/usr/bin/only-here"], check=False).returncode == 1
    assert not os.path.exists(f"{newer.lab.root}/usr/bin/only-here"), "the root itself is only read"
    assert cluster.apply(newer.lab, "present").changed is False
    in_use = os.path.basename(release.RELEASES[version].place)
    assert in_use not in roots.prune(check_mode=True), "a root in use is kept"


def test_the_role_finds_such_a_lab_as_it_asks_for_it(newer: LabCluster) -> None:
    """In check mode: without its release it would find another lab, and to prune would cost other tests their roots."""
    left = Path(release.STORE, f".new-{newer.name}")
    left.mkdir()
    try:
        lab = newer.lab
        same = ("name", "nodes", "cpus", "memory", "gpus", "slurm_conf")
        sizes = {f"lab_cluster_{name}": getattr(lab, name) for name in same}
        told = {"lab_cluster_slurm": lab.slurm, "lab_cluster_prune": True, "lab_cluster_root_packages": ["coreutils"]}
        done = playbook("--check", "-v", **sizes, **told)
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"was": "running"' in done.stdout and f'"slurm": "{lab.slurm}"' in done.stdout
        assert left.name in done.stdout and left.exists()
        assert "installed coreutils" in done.stdout and "munge" not in done.stdout
    finally:
        left.rmdir()
