# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --login HOST`: what becomes of the answer of a login node. Clusters are in tests/cluster."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rankzero.errors import RankzeroError
from rankzero.first_look import Cluster
from rankzero.init import _job_of
from rankzero.project import Project

HOME = {"path": "/home/alice", "home": True, "own": True, "filesystem": "nfs4", "free_mib": 1000}
SCRATCH = {"path": "/scratch/alice", "home": False, "own": True, "filesystem": "lustre", "free_mib": 900_000}
SHARED = {"path": "/shared", "home": False, "own": False, "filesystem": "nfs4", "free_mib": 1500}
PARTITION = {
    "name": "gpu",
    "default": True,
    "total_nodes": 8,
    "cpus_per_node": 96,
    "gpus_per_node": 4,
    "max_time": None,
}
PROPOSAL = {"partition": None, "account": None, "nodes": 2, "gpus_per_node": 4, "max_time": None}


def cluster(login: str = "login", folders: tuple[Any, ...] = (HOME,), **proposal: Any) -> Cluster:
    answer = {"partitions": [PARTITION], "mine": {"user": "alice"}, "shared_folders": list(folders)}
    return Cluster(login, {**answer, "proposal": {**PROPOSAL, **proposal}})


def host(of: Cluster) -> dict[str, Any]:
    (name, variables), *others = yaml.safe_load(of.inventory())["slurm_login"]["hosts"].items()
    assert not others
    return {"name": name, **variables}


@pytest.mark.parametrize(
    ("folders", "state", "store"),
    [
        ((HOME,), "~/.rankzero/state", "~/.rankzero/store"),
        ((HOME, SHARED), "~/.rankzero/state", "~/.rankzero/store"),
        ((HOME, SHARED, SCRATCH), "~/.rankzero/state", "/scratch/alice/rankzero/store"),
        ((SHARED,), "/shared/rankzero-alice/state", "/shared/rankzero-alice/store"),
        ((SCRATCH, HOME), "/scratch/alice/rankzero/state", "/scratch/alice/rankzero/store"),
    ],
)
def test_the_roots_lie_where_the_nodes_see_them(folders: tuple[Any, ...], state: str, store: str) -> None:
    """The first shared folder has the state; only one with much more space than it has the store."""
    assert host(cluster(folders=folders))["launch_cluster"] == {"state_root": state, "store_root": store}


def test_only_what_slurm_does_not_choose_itself_is_named() -> None:
    named = host(cluster("bob@login", account="ml", partition="gpu"))
    assert (named["name"], named["ansible_user"]) == ("login", "bob")
    assert named["launch_cluster"]["resources"] == {"account": "ml", "partition": "gpu"}


def test_no_shared_folder_is_said_with_what_to_do() -> None:
    with pytest.raises(RankzeroError, match=r"share no folder.*--shared FOLDER"):
        cluster(folders=()).inventory()


@pytest.mark.parametrize("name", ["{{ lookup('pipe', 'id') }}", "a\nb: c", "a'b"])
def test_no_program_of_a_cluster_goes_into_an_inventory(name: str) -> None:
    with pytest.raises(RankzeroError, match="is no name of Slurm"):
        cluster(partition=name).inventory()
    with pytest.raises(RankzeroError, match="share no folder"):
        cluster(folders=({**SCRATCH, "path": "/{{ x }}"},)).inventory()


@pytest.mark.parametrize(
    ("torch", "longest", "resources", "ranks"),
    [
        (True, None, {"gpus_per_node": 4, "time": "01:00:00"}, 4),
        (False, "1-00:00:00", {"time": "01:00:00"}, 1),
        (False, "00:30:00", {"time": "00:30:00"}, 1),
    ],
)
def test_a_job_of_its_size_fits_the_partition(
    torch: bool, longest: str | None, resources: dict[str, Any], ranks: int
) -> None:
    project = Project("train.py", "", torch, "", ())
    job = yaml.safe_load(_job_of("it", project, cluster(max_time=longest).job(torch)))
    assert job["resources"] == {"nodes": 2, "cpus_per_rank": 1, **resources}
    assert job["launcher"]["ranks_per_node"] == ranks
