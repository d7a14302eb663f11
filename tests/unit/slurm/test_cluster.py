# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import cluster, parse, partitions, site_limits
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import Knowledge
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import limits as admission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds
from tests.unit.slurm.recorded import NO_CONTROLLER, FakeSlurm, recorded, said


def table(*rows: str) -> str:
    """Rows of sinfo written with pipes, as Slurm would print them with our separators."""
    return "".join(row.replace("|", parse.FIELD) + parse.RECORD + "\n" for row in rows)


LAB, _ = partitions.parse_limits(recorded("sinfo.txt"))
MIXED, _ = partitions.parse_limits(
    table(
        "gpu|gpu*|up|1-00:00:00|1:00:00|1-infinite|2|96|512000|gpu:h100:8(S:0-1)|idle|ib,h100",
        "gpu|gpu*|up|1-00:00:00|1:00:00|1-infinite|4|32|256000|gpu:a100:4|mixed-|ib",
        "gpu|gpu*|up|1-00:00:00|1:00:00|1-infinite|1|32|256000|gpu:a100:4|down*|ib",
        "big|big|up|infinite|n/a|4|8|128|1000000|(null)|idle~|(null)",
        "old|old|drain|infinite|n/a|1-infinite|2|8|16000|(null)|drained|(null)",
        "empty|empty|up|infinite|n/a|1-infinite|0|0|0|(null)|n/a|(null)",
    )
)


def ask(limits: partitions.ClusterLimits, **wanted: object) -> list[str]:
    asked = {"nodes": 1, "partition": None, "time_minutes": None, **wanted}
    request = ResourceNeeds(**asked)  # type: ignore[arg-type]
    return admission.judge(limits, Knowledge(), request, user="eve", groups=frozenset()).problems


def test_limits_of_a_real_cluster() -> None:
    assert LAB.default is not None and LAB.default.name == "batch"
    short = LAB.find("short")
    assert short is not None
    assert (short.max_time, short.max_nodes, short.total_nodes, short.default) == (1800, 2, 4, False)
    assert (LAB.default.max_time, LAB.default.max_nodes, LAB.default.default_time) == (None, None, 3600)
    assert LAB.default.total_nodes == 8
    assert LAB.default.groups[0].gpus() == 8


def test_limits_take_one_command() -> None:
    slurm = FakeSlurm(sinfo=said(recorded("sinfo.txt"))).slurm()
    assert partitions.limits(slurm) == LAB
    assert slurm.commands == 1


def test_unlike_nodes_and_odd_partitions() -> None:
    gpu, big, empty = MIXED.find("gpu"), MIXED.find("big"), MIXED.find("empty")
    assert gpu and big and empty
    assert (gpu.total_nodes, gpu.available_nodes) == (7, 6)
    assert [group.gpus("h100") for group in gpu.groups] == [8, 0, 0]
    assert (big.min_nodes, big.max_nodes) == (4, 4)
    assert big.available_nodes == 8, "a powered-down node starts on demand"
    assert (empty.total_nodes, empty.groups) == (0, ())


@pytest.mark.parametrize(
    ("limits", "wanted", "sentences"),
    [
        (LAB, {"nodes": 8, "time_minutes": 600, "gpus_per_node": 8, "cpus_per_node": 16}, []),
        (LAB, {"nodes": 9}, ["resources.nodes: 9 asked, partition batch has 8."]),
        (
            LAB,
            {"partition": "bathc"},
            [
                (
                    "resources.partition: 'bathc' is not a partition of this cluster; did you mean batch? "
                    "Known: batch, short."
                )
            ],
        ),
        (
            LAB,
            {"partition": "zzz"},
            ["resources.partition: 'zzz' is not a partition of this cluster. Known: batch, short."],
        ),
        (
            LAB,
            {"nodes": 3, "partition": "short", "time_minutes": 45, "gpus_per_node": 9},
            [
                "resources.nodes: 3 asked, partition short allows at most 2 a job.",
                "resources.time: 00:45:00 asked, partition short allows at most 00:30:00.",
                (
                    "resources.gpus_per_node: 9 asked on 3 nodes, but of partition short 0 of 4 nodes have that many "
                    "(most on a node: 8 GPUs)."
                ),
            ],
        ),
        (LAB, {"partition": "short,batch", "time_minutes": 45}, []),
        (
            LAB,
            {"partition": "batch,shor"},
            [
                (
                    "resources.partition: 'shor' is not a partition of this cluster; did you mean short? "
                    "Known: batch, short."
                )
            ],
        ),
        (
            LAB,
            {"cpus_per_node": 17},
            [
                (
                    "resources.cpus_per_rank: 17 CPUs a node asked on 1 node, but of partition batch 0 of 8 nodes have "
                    "that many (most on a node: 16)."
                )
            ],
        ),
        (MIXED, {"nodes": 2, "gpus_per_node": 8, "gpu_type": "h100", "time_minutes": 24 * 60}, []),
        (
            MIXED,
            {"nodes": 3, "gpus_per_node": 8},
            [
                (
                    "resources.gpus_per_node: 8 asked on 3 nodes, but of partition gpu 2 of 7 nodes have that many "
                    "(most on a node: 8 GPUs)."
                )
            ],
        ),
        (
            MIXED,
            {"gpus_per_node": 8, "gpu_type": "h10"},
            ["resources.gpu_type: no node of partition gpu has 'h10'; did you mean h100? Known there: a100, h100."],
        ),
        (MIXED, {"nodes": 5, "cpus_per_node": 32, "gpus_per_node": 4, "gpu_type": "a100"}, []),
        (
            MIXED,
            {"nodes": 5, "cpus_per_node": 64, "gpus_per_node": 4, "gpu_type": "a100"},
            [
                (
                    "resources.cpus_per_rank: 64 CPUs a node asked on 5 nodes, but of partition gpu 2 of 7 nodes have "
                    "that many (most on a node: 96)."
                )
            ],
        ),
        (
            MIXED,
            {"nodes": 1, "cpus_per_node": 64, "gpus_per_node": 4, "gpu_type": "a100"},
            ["resources: only 0 nodes of partition gpu have 4 a100 GPUs and 64 CPUs at once; 1 asked."],
        ),
        (
            MIXED,
            {"partition": "big", "nodes": 3},
            ["resources.nodes: 3 requested, but partition big requires at least 4 per job."],
        ),
        (
            MIXED,
            {"partition": "old"},
            ["resources.partition: partition old takes no new jobs (its state is drain)."],
        ),
        (MIXED, {"partition": "empty"}, ["resources.nodes: 1 asked, partition empty has 0."]),
        (
            MIXED,
            {"time_minutes": 36 * 60},
            ["resources.time: 1-12:00:00 asked, partition gpu allows at most 1-00:00:00."],
        ),
        (
            partitions.ClusterLimits(()),
            {},
            [
                (
                    "resources.partition: not given, and this cluster has no default partition. "
                    "Known: none that you can see."
                )
            ],
        ),
    ],
)
def test_a_sentence_for_each_thing_that_can_never_run(
    limits: partitions.ClusterLimits, wanted: dict[str, object], sentences: list[str]
) -> None:
    assert ask(limits, **wanted) == sentences


def described(**more: object) -> FakeSlurm:
    answers = {
        "scontrol": [
            said(recorded("ping_up.txt")),
            said(recorded("scontrol_config.txt")),
            said(recorded("scontrol_partition.txt")),
        ],
        "sinfo": [said(recorded("sinfo.txt")), said("node01 mixed\nnode01 mixed\nnode02 idle~\nnode03 down*\n")],
        "sacctmgr": said("lab\n"),
        "srun": said("  --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"),
        **more,
    }
    return FakeSlurm(**answers)  # type: ignore[arg-type]


def test_the_whole_picture() -> None:
    found = cluster.describe(described().slurm())
    assert (found["cluster"], found["version"], found["default_partition"]) == ("lab", "22.05.8", "batch")
    assert found["node_states"] == {"mixed": 1, "idle": 1, "down": 1}
    assert found["accounting"] == {"available": True, "type": "accounting_storage/slurmdbd", "message": ""}
    ways = found["containers"]
    assert isinstance(ways, dict) and ways["pyxis"]["available"] and not ways["crun"]["available"]
    settings = found["settings"]
    assert isinstance(settings, dict)
    assert {k: settings[k] for k in ("max_array_size", "kill_wait", "min_job_age", "job_requeue", "preempt_mode")} == {
        "max_array_size": 5001,
        "kill_wait": 3,
        "min_job_age": 300,
        "job_requeue": 1,
        "preempt_mode": "OFF",
    }
    partitions = found["partitions"]
    assert isinstance(partitions, list)
    short = next(partition for partition in partitions if partition["name"] == "short")
    assert (short["max_time"], short["max_nodes"], short["preempt_mode"]) == ("00:30:00", 2, "OFF")
    assert (short["cpus_per_node"], short["gpus_per_node"], short["mixed"]) == (16, 8, False)


def test_what_the_user_may_charge_is_told_where_it_is_enforced() -> None:
    assert cluster.describe(described().slurm())["mine"] == {
        "user": site_limits.whoami()[0],
        "groups": sorted(site_limits.whoami()[1]),
        "enforced": [],
        "default_account": None,
        "associations": [],
        "qos": [],
        "unknown": [],
    }
    config = recorded("scontrol_config.txt").replace("Enforce = none", "Enforce = associations,limits,qos")
    answers = [said(recorded("ping_up.txt")), said(config), said(recorded("scontrol_partition_rules.txt"))]
    rows = [said("lab\n"), said(recorded("sacctmgr_user.txt")), said(recorded("sacctmgr_qos.txt"))]
    slurm = described(scontrol=answers, sacctmgr=rows).slurm()
    mine = cluster.describe(slurm)["mine"]
    assert isinstance(mine, dict)
    assert (mine["enforced"], mine["default_account"]) == (["associations", "limits", "qos"], "ml")
    assert mine["associations"][1] == {
        "account": "ml",
        "partition": "",
        "qos": "high,normal",
        "default_qos": "normal",
        "max_tres": "node=2",
        "max_submit": "3",
    }
    assert [one["name"] for one in mine["qos"]] == ["normal", "high"]
    assert mine["qos"][1]["max_tres_per_user"] == "cpu=32"
    assert slurm.commands == 9


def test_what_a_site_hides_is_a_warning() -> None:
    closed = said(stderr="slurm_load_partitions: Access/permission denied\n", rc=1)
    answers = [said(recorded("ping_up.txt")), said(recorded("scontrol_config.txt"))]
    slurm = described(scontrol=[*answers, said(recorded("scontrol_partition_rules.txt"))], sinfo=closed).slurm()
    found = cluster.describe(slurm)
    partitions = found["partitions"]
    assert isinstance(partitions, list)
    assert [(one["name"], one["total_nodes"], one["max_time"]) for one in partitions][2] == ("gated", 1, "00:10:00")
    assert found["default_partition"] == "batch" and found["node_states"] == {}
    assert len(slurm.notes) == 2 and "Access/permission denied" in slurm.notes[0]
    assert cluster.describe(described(scontrol=[*answers, closed], sinfo=closed).slurm())["partitions"] == []


def test_accounting_that_does_not_answer_is_told_not_raised() -> None:
    found = cluster.describe(described(sacctmgr=NO_CONTROLLER).slurm())
    accounting = found["accounting"]
    assert isinstance(accounting, dict)
    assert accounting["available"] is False and "Unable to contact" in str(accounting["message"])


def test_a_controller_that_is_down_is_named() -> None:
    with pytest.raises(SlurmUnavailable, match="slurmctld does not answer on vm"):
        cluster.describe(FakeSlurm(scontrol=said(recorded("ping_down.txt"), rc=1)).slurm())
