# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that is running already, as Slurm 22.05 shows it, and whether a launch fits into it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.allocation import (
    Allocation,
    Held,
    allocation_of,
    choose,
    choose_nodes,
    count_ids,
    described,
    limit_note,
    mebibytes,
    parse_held,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import AllocationNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import Gres
from tests.unit.slurm.recorded import NO_CONTROLLER, UNKNOWN_ID, FakeSlurm, recorded, said

SHOWN = recorded("scontrol_job_details.txt")
HOSTS = said("node01\nnode02\nnode03\n")


def held(node: str, cpus: int = 4, gpus: int = 4, memory: int | None = 32000, gpu_type: str | None = None) -> Held:
    return Held(node, cpus, memory, (Gres("gpu", gpu_type, gpus),))


def three(**more: Any) -> Allocation:
    return Allocation("2", "inter", 1000.0, tuple(held(f"node0{number}", **more) for number in (1, 2, 3)))


def shown(**changes: str) -> str:
    text = SHOWN
    for name, value in changes.items():
        before = next(word for word in text.split() if word.startswith(name + "="))
        text = text.replace(before, f"{name}={value}", 1)
    return text


def test_a_running_job_gives_what_it_holds_on_each_node() -> None:
    fake = FakeSlurm(scontrol=[said(SHOWN), HOSTS])
    found = allocation_of(fake.slurm(), "1", uid=0)
    assert fake.asked[0][1:] == ["show", "--details", "job", "1"]
    assert (found.job_id, found.name) == ("1", "inter")
    assert [one.node for one in found.nodes] == ["node01", "node02", "node03"]
    assert {(one.cpus, one.memory, one.gpus(), one.gpus("h100")) for one in found.nodes} == {(4, 32000, 4, 4)}
    assert found.end is not None


def test_nodes_that_hold_different_things_stand_on_lines_of_their_own() -> None:
    text = (
        "   JOB_GRES=gpu:h100:6\n"
        "     Nodes=node01 CPU_IDs=0-1,4,8-9 Mem=0 GRES=gpu:h100:2(IDX:0,3),shard:4,lscratch(CNT:500)\n"
        "     Nodes=node[02-03] CPU_IDs=0 Mem=1024 GRES=\n"
        "     Nodes=node04 CPU_IDs=0 Mem=1024\n"
    )
    (first, one), (second, two), (_third, three_) = parse_held(text)
    assert (first, one.cpus, one.memory, one.gpus("h100"), one.gpus("a100")) == ("node01", 5, None, 2, 0)
    assert one.gres[1:] == (Gres("shard", None, 4), Gres("lscratch", None, 500))
    assert (second, two.cpus, two.memory, two.gpus(), three_.gpus()) == ("node[02-03]", 1, 1024, 0, 0)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (UNKNOWN_ID, "Slurm does not know it"),
        (said(""), "Slurm does not know it"),
        (said(shown(UserId="alice(1000)")), "it belongs to another user, alice"),
        (said(shown(JobState="PENDING", Reason="Resources")), "it waits in the queue: waiting for enough free nodes"),
        (said(shown(JobState="COMPLETED")), "it has ended (COMPLETED"),
        (said(shown(JobState="TIMEOUT")), "it has ended (TIMEOUT"),
        (said(shown(JobState="SUSPENDED")), "it is not running, but SUSPENDED"),
        (said(shown(JobState="CONFIGURING")), "it is not running, but CONFIGURING"),
        (
            said("JobId=5 HetJobId=4 HetJobOffset=1 JobName=x\n   UserId=root(0)\n   JobState=RUNNING\n"),
            "heterogeneous",
        ),
        (
            said(
                "JobId=8 ArrayJobId=7 ArrayTaskId=1 JobName=x\n   UserId=root(0)\n   JobState=RUNNING\n\n"
                "JobId=7 ArrayJobId=7 ArrayTaskId=2 JobName=x\n   UserId=root(0)\n   JobState=RUNNING\n"
            ),
            "it is 2 jobs; name one of them: 7_1, 7_2",
        ),
        (said("JobId=5 JobName=x\n   UserId=root(0)\n   JobState=RUNNING\n"), "does not list its nodes"),
    ],
)
def test_a_job_that_nothing_can_be_started_in_is_named_with_the_reason(answer: Any, why: str) -> None:
    with pytest.raises(RankzeroError) as caught:
        allocation_of(FakeSlurm(scontrol=[answer, HOSTS]).slurm(), "1", uid=0)
    assert "launcher.inside_job: nothing can be started inside job 1: " in caught.value.message
    assert why in caught.value.message


def test_a_silent_slurm_says_nothing_about_a_job() -> None:
    with pytest.raises(RankzeroError) as caught:
        allocation_of(FakeSlurm(scontrol=[NO_CONTROLLER]).slurm(), "1", uid=0)
    assert "launcher.inside_job" not in caught.value.message


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [
        ({"nodes": 2}, ["node01", "node02"]),
        ({"nodes": 3}, ["node01", "node02", "node03"]),
        ({"nodes": 2, "exclude": ["node01"]}, ["node02", "node03"]),
        ({"nodes": 2, "names": ["node03", "node01"]}, ["node01", "node03"]),
        ({"nodes": 1, "cpus_per_node": 4, "gpus_per_node": 4, "memory": "31G"}, ["node01"]),
        ({"nodes": 1, "memory": "0"}, ["node01"]),
    ],
)
def test_the_first_nodes_or_those_of_the_users_choice(asked: dict[str, Any], nodes: list[str]) -> None:
    assert choose(three(), AllocationNeeds("2", **asked)) == (nodes, [])


def test_the_first_nodes_that_have_what_is_asked() -> None:
    mixed = Allocation("2", "x", None, (held("a", cpus=1), held("b"), held("c", gpus=0), held("d")))
    assert choose(mixed, AllocationNeeds("2", nodes=2, cpus_per_node=2, gpus_per_node=1)) == (["b", "d"], [])


@pytest.mark.parametrize(
    ("asked", "problems"),
    [
        ({"nodes": 4}, ["resources.nodes: 4 asked, job 2 has 3: node01, node02, node03."]),
        ({"nodes": 3, "exclude": ["node02"]}, ["3 asked, job 2 has 3, 1 of them excluded (resources.exclude)"]),
        ({"nodes": 1, "names": ["node09"]}, ["launcher.inside_nodes: node09 not in job 2, which has node01, node02"]),
        ({"nodes": 1, "names": ["node01"], "exclude": ["node01"]}, ["node01 also in resources.exclude; keep one."]),
        (
            {"nodes": 1, "names": ["node02"], "cpus_per_node": 8, "gpus_per_node": 8, "memory": "64G"},
            [
                "resources.cpus_per_rank: 8 CPUs a node asked, job 2 has 4 on node02.",
                "resources.gpus_per_node: 8 GPUs asked, job 2 has 4 on node02.",
                "resources.memory: 64G asked, job 2 has 32000M on node02.",
            ],
        ),
    ],
)  # fmt: skip
def test_more_than_the_job_has_is_an_error_with_the_numbers(asked: dict[str, Any], problems: list[str]) -> None:
    nodes, found = choose(three(), AllocationNeeds("2", **asked))
    assert nodes == []
    assert len(found) == len(problems)
    assert all(part in sentence for part, sentence in zip(problems, found))


def test_generic_resources_beside_gpus_are_looked_for() -> None:
    with_scratch = Held("node01", 4, None, (Gres("gpu", "h100", 4), Gres("lscratch", None, 500)))
    found = Allocation("2", "inter", None, (held("node02"), with_scratch))
    assert choose(found, AllocationNeeds("2", nodes=1, gpus_per_node=4, gres=["lscratch:500"])) == (["node01"], [])
    nodes, problems = choose(found, AllocationNeeds("2", nodes=2, gres=["lscratch:501"]))
    assert nodes == [] and problems == [
        "resources.gres: lscratch:501 asked, job 2 has 0 on node02.",
        "resources.gres: lscratch:501 asked, job 2 has 500 on node01.",
    ]
    # What a job was given of no named type is of the type that is asked, as for GPUs.
    assert choose(found, AllocationNeeds("2", nodes=1, gres=["lscratch:ssd:500"]))[0] == ["node01"]


def test_gpus_of_another_type_do_not_count() -> None:
    _nodes, problems = choose(three(gpu_type="a100"), AllocationNeeds("2", nodes=3, gpus_per_node=1, gpu_type="h100"))
    assert problems[0] == "resources.gpus_per_node: 1 h100 GPUs asked, job 2 has 0 on node01."


def test_a_job_that_ends_before_the_launch_may_is_a_warning() -> None:
    assert limit_note(three(), 10, now=400.0) is None
    note = limit_note(three(), 11, now=400.0)
    assert note == (
        "job 2 has 00:10:00 left, which is less than resources.time (00:11:00): Slurm ends the launch with the job"
    )
    assert limit_note(Allocation("2", "x", None), 11, now=0.0) is None


def test_where_a_launch_goes_is_said() -> None:
    assert described(three(), ["node01", "node02"], 400.0) == (
        "job 2 (inter): node01 node02 of its 3 nodes; 00:10:00 left"
    )
    assert described(Allocation("2", "x", None, (held("a"),)), ["a"], 0.0).endswith("; no time limit")


def test_the_place_of_a_launch_is_found_in_one_go() -> None:
    fake = FakeSlurm(
        scontrol=[said(shown(UserId=f"me({__import__('os').geteuid()})")), HOSTS, said("node01\nnode02\n")]
    )
    slurm = fake.slurm()
    asked: dict[str, Any] = {"job_id": "1", "nodes": 1, "names": [], "exclude": ["node[01-02]"], "cpus_per_node": 1}
    asked |= {"gpus_per_node": 0, "gpu_type": None, "gres": [], "memory": None, "time_minutes": 10**9}
    found, nodes, problems = choose_nodes(slurm, AllocationNeeds(**asked), lambda: 0.0)
    assert (found.job_id, nodes, problems) == ("1", ["node03"], [])
    assert len(slurm.notes) == 1, "the limit"


@pytest.mark.parametrize(("text", "count"), [("", 0), ("0", 1), ("0-3", 4), ("0-3,8,10-11", 7)])
def test_cpus_are_counted(text: str, count: int) -> None:
    assert count_ids(text) == count


@pytest.mark.parametrize(
    ("text", "size"), [("0", None), ("", None), ("32000", 32000), ("32G", 32768), ("1T", 1048576), ("62.5G", 64000)]
)
def test_sizes_are_read(text: str, size: int | None) -> None:
    assert mebibytes(text) == size
