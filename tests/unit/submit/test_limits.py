# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts, QOS, partitions' rules and their limits against a request, on recorded answers of a real cluster.

There nobody has the accounts ml (default, QOS normal and high, 2 nodes a job, 3 jobs) and physics (30 minutes), the QOS
high has limits of its own, and batch is held to the QOS long (one node for all its jobs).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import associations, partitions, site_limits
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import Gres
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import Knowledge
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import limits
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.checks import Checks
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds, StorageNeeds
from tests.unit.slurm.recorded import NO_CONTROLLER, FakeSlurm, recorded, said

LIMITS, _ = partitions.parse_limits(recorded("sinfo_rules.txt"))
RULES = site_limits.parse_partitions(recorded("scontrol_partition_rules.txt"))
# As recorded, without the QOS of the partition: it hides what the others say.
PLAIN = {**RULES, "batch": {**RULES["batch"], "QoS": "N/A"}}
SETTINGS = {
    "AccountingStorageEnforce": "associations,limits,qos",
    "PreemptType": "preempt/none",
    "KillWait": "30 sec",
    "JobRequeue": "1",
}
ROWS = tuple(site_limits.parse_table(recorded("sacctmgr_user.txt"), site_limits.ASSOCIATION))
QOS = {row["Name"]: row for row in site_limits.parse_table(recorded("sacctmgr_qos.txt"), site_limits.QOS)}
KNOWN = Knowledge(SETTINGS, PLAIN, ROWS, QOS)


def judged(known: Knowledge = KNOWN, user: str = "nobody", groups: tuple[str, ...] = (), **asked: Any) -> Any:
    request = ResourceNeeds(**{"nodes": 1, "time_minutes": 10.0, **asked})
    return limits.judge(LIMITS, known, request, user=user, groups=frozenset(groups))


def problems(known: Knowledge = KNOWN, **asked: Any) -> list[str]:
    return list(judged(known, **asked).problems)


def test_a_request_that_fits_says_under_what_it_runs() -> None:
    verdict = judged()
    assert (verdict.problems, verdict.notes) == ([], [])
    assert verdict.facts == [
        "partition batch, account ml, QOS normal",
        "preemption OFF; KillWait 30 s after the time limit; JobRequeue 1",
    ]


@pytest.mark.parametrize(
    ("asked", "sentences"),
    [
        ({"account": "physics", "time_minutes": 30.0}, []),
        (
            {"account": "physics", "time_minutes": 31.0},
            ["resources.time: 00:31:00 asked, the association of account physics allows at most 00:30:00."],
        ),
        ({"nodes": 3}, ["resources.nodes: 3 nodes asked, the association of account ml allows at most 2 for a job."]),
        # The limits of a QOS come before those of the association.
        (
            {"qos": "high", "nodes": 3, "time_minutes": 180.0},
            [
                "resources.time: 03:00:00 asked, QOS high allows at most 02:00:00.",
                "resources.nodes: 3 nodes asked, QOS high allows at most 2 for a job.",
            ],
        ),
        (
            {"qos": "high", "nodes": 2, "gpus_per_node": 3, "cpus_per_node": 16},
            ["resources.gpus_per_node: 6 GPUs asked, QOS high allows at most 4 for a job."],
        ),
        (
            {"account": "phisics"},
            [
                (
                    "resources.account: 'phisics' is not an account of nobody here; did you mean physics? "
                    "Yours: ml, physics."
                )
            ],
        ),
        (
            {"account": "physics", "qos": "high"},
            ["resources.qos: 'high' is not open to account physics. Open to it: normal."],
        ),
        ({"qos": "zzz"}, ["resources.qos: 'zzz' is not a QOS of this cluster. Open to it: high, normal."]),
        (
            {"partition": "gated"},
            [
                "resources.account: ml, but partition gated takes only physics.",
                "resources.qos: normal, but partition gated takes only high.",
            ],
        ),
        ({"partition": "closed", "account": "physics"}, []),
        ({"partition": "closed"}, ["resources.account: partition closed does not take ml (nor ml)."]),
        ({"partition": "grp"}, ["resources.partition: grp is for the groups root; nobody is in staff."]),
        ({"partition": "grp,short"}, []),
        (
            {"memory": 64001, "cpus_per_node": 17, "gpus_per_node": 9},
            [
                (
                    "resources.gpus_per_node: 9 asked on 1 node, but of partition batch 0 of 3 nodes have that many "
                    "(most on a node: 8 GPUs)."
                ),
                (
                    "resources.cpus_per_rank: 17 CPUs a node asked on 1 node, but of partition batch 0 of 3 nodes have "
                    "that many (most on a node: 16)."
                ),
                (
                    "resources.memory: 64001 MiB a node asked on 1 node, but of partition batch 0 of 3 nodes have that "
                    "much (most on a node: 64000 MiB)."
                ),
            ],
        ),
        ({"memory": 0}, []),
        (
            {"constraint": "ib"},
            [
                (
                    "resources.constraint: ib is true of 0 of 3 nodes of partition batch, 1 asked. "
                    "Features there: none."
                )
            ],
        ),
        # More than names joined by & is Slurm's to judge.
        ({"constraint": "[ib|roce]"}, []),
    ],
)  # fmt: skip
def test_every_reason_with_its_numbers(asked: dict[str, Any], sentences: list[str]) -> None:
    assert judged(groups=("staff",), **asked).problems == sentences


def test_generic_resources_are_compared_with_the_nodes_and_the_limits() -> None:
    groups = tuple(
        dataclasses.replace(group, gres=(*group.gres, Gres("lscratch", None, 800), Gres("nic", "cx7", 2)))
        for partition in LIMITS.partitions
        if partition.name == "batch"
        for group in partition.groups
    )
    found = dataclasses.replace(
        LIMITS,
        partitions=tuple(
            dataclasses.replace(one, groups=groups) if one.name == "batch" else one for one in LIMITS.partitions
        ),
    )

    def of(*gres: str, known: Knowledge = KNOWN, **more: Any) -> list[str]:
        request = ResourceNeeds(**{"nodes": 1, "partition": "batch", "gres": gres, **more})
        return limits.judge(found, known, request, user="nobody", groups=frozenset()).problems

    assert of("lscratch:800", "nic:cx7:2", "nic", gpus_per_node=1) == []
    (problem,) = of("lscratch:1K")
    assert problem.startswith("resources.gres: lscratch:1K asked on 1 node, but of partition batch 0 of")
    assert "most on a node: 800" in problem and "lscratch, nic:cx7" in problem
    assert len(of("nic:cx6", "nosuch:1")) == 2
    limited = {**QOS, "normal": {**QOS["normal"], "MaxTRES": "gres/lscratch=1000"}}
    (problem,) = of("lscratch:600", nodes=2, known=Knowledge(SETTINGS, PLAIN, ROWS, limited))
    assert problem == "resources.gres: 1200 lscratch asked, QOS normal allows at most 1000 for a job."


def test_the_qos_of_a_partition_comes_first_unless_the_jobs_stands_over_it() -> None:
    known = Knowledge(SETTINGS, RULES, ROWS, QOS)
    assert problems(known, nodes=2) == [
        "resources.nodes: 2 nodes asked, QOS long of the partition allows at most 1 for all its jobs together."
    ]
    over = {**QOS, "normal": {**QOS["normal"], "Flags": "OverPartQOS", "GrpTRES": "node=2"}}
    assert problems(Knowledge(SETTINGS, RULES, ROWS, over), nodes=2) == []


def test_flags_of_a_qos_lift_the_partitions_limits() -> None:
    lifted = {**QOS, "high": {**QOS["high"], "Flags": "PartitionTimeLimit,PartitionMaxNodes"}}
    known = Knowledge(SETTINGS, PLAIN, ROWS, lifted)
    assert problems(known, partition="short", time_minutes=90.0, qos="high") == []
    assert problems(known, partition="short", time_minutes=90.0) == [
        "resources.time: 01:30:00 asked, partition short allows at most 01:00:00."
    ]


def test_what_is_not_enforced_refuses_nobody() -> None:
    for enforce in ("none", ""):
        known = Knowledge({**SETTINGS, "AccountingStorageEnforce": enforce}, PLAIN, ROWS, QOS)
        assert problems(known, account="nonsense", nodes=3, time_minutes=10_000.0) == []
    known = Knowledge({**SETTINGS, "AccountingStorageEnforce": "associations"}, PLAIN, ROWS, QOS)
    assert problems(known, nodes=3) == [], "limits are not enforced"
    assert len(problems(known, account="nonsense")) == 1


def test_a_user_without_any_account() -> None:
    nobody = tuple(
        row
        for row in site_limits.parse_table(recorded("sacctmgr_user_elsewhere.txt"), site_limits.ASSOCIATION)
        if row["Account"]
    )
    known = Knowledge(SETTINGS, PLAIN, nobody, QOS)
    assert problems(known) == [
        "resources.account: the user nobody has no account on this cluster; ask its staff."
    ]  # fmt: skip


def test_rules_of_a_partition_that_slurm_shows_in_words() -> None:
    block = {**PLAIN["batch"], "RootOnly": "YES", "ReqResv": "YES", "MaxCPUsPerNode": "8", "State": "DOWN"}
    known = Knowledge(SETTINGS, {"batch": block}, ROWS, QOS)
    verdict = judged(known, cpus_per_node=9)
    assert verdict.problems == [
        "resources.partition: only root may use batch.",
        "resources.reservation: not given; partition batch takes only jobs with a reservation.",
        "resources.cpus_per_rank: 9 CPUs a node asked, partition batch allows at most 8.",
    ]
    assert verdict.notes == ["partition batch is down now: the job waits until an administrator sets it up again"]


@pytest.mark.parametrize(
    ("mode", "grace", "requeues", "asked", "notes"),
    [
        ("REQUEUE", "120", "1", {"early": 120, "requeue": True}, []),
        ("REQUEUE", "30", "1", {"early": 120, "requeue": True}, ["has 30 s (GraceTime)"]),
        ("CANCEL", "120", "0", {"early": 120, "requeue": True}, ["cancels a preempted job (PreemptMode=CANCEL)"]),
        ("CANCEL", "0", "1", {"early": None, "requeue": None}, []),
        ("SUSPEND,GANG", "0", "1", {"early": 120, "requeue": True}, []),
        ("REQUEUE", "120", "0", {"early": 120}, ["requeues nothing by itself (JobRequeue=0)"]),
    ],
)
def test_the_window_to_save_oneself(
    mode: str, grace: str, requeues: str, asked: dict[str, Any], notes: list[str]
) -> None:
    settings = {**SETTINGS, "PreemptType": "preempt/partition_prio", "JobRequeue": requeues}
    block = {**PLAIN["batch"], "PreemptMode": mode, "GraceTime": grace}
    verdict = judged(Knowledge(settings, {"batch": block}, ROWS, QOS), **asked)
    assert len(verdict.notes) == len(notes)
    for note, part in zip(verdict.notes, notes):
        assert part in note
    assert f"preemption {mode} with GraceTime {grace} s" in verdict.facts[1]
    # Without a plugin nobody is preempted, whatever the partition says.
    quiet = judged(Knowledge({**settings, "PreemptType": "preempt/none"}, {"batch": block}, ROWS, QOS), **asked)
    assert "preemption OFF;" in quiet.facts[1] and not any("preempted in" in note for note in quiet.notes)


# --- what is asked, remembered and asked again


def cluster(**more: Any) -> FakeSlurm:
    config = "AccountingStorageEnforce = associations,limits\nAccountingStorageType = accounting_storage/slurmdbd\n"
    answers = {
        "sinfo": said(recorded("sinfo_rules.txt")),
        "scontrol": [said(config + "ClusterName = lab\n"), said(recorded("scontrol_partition_rules.txt"))] * 2,
        "sacctmgr": [said(recorded("sacctmgr_user.txt")), said(recorded("sacctmgr_qos.txt"))] * 2,
        "squeue": said("ml|normal\nml|high\nphysics|normal\n"),
        **more,
    }
    return FakeSlurm(**answers)


def checks(fake: FakeSlurm, folder: Path, check_mode: bool = False, now: float = 1000.0, **asked: Any) -> Checks:
    where = StorageNeeds(roots={"state_root": str(folder)})
    request = ResourceNeeds(**{"nodes": 1, "partition": "short", "time_minutes": 10.0, **asked})
    made = Checks(
        fake.slurm(), request, where=where, containers=(), check_mode=check_mode, clock=lambda: now
    )  # fmt: skip
    made.user, made.informed.user = "nobody", "nobody"
    return made


def test_what_rarely_changes_is_asked_once_in_ten_minutes(tmp_path: Path) -> None:
    cold = cluster()
    first = checks(cold, tmp_path)
    assert first.run().problems == []
    assert cold.programs == ["sinfo", "scontrol", "scontrol", "sacctmgr", "sacctmgr", "squeue"]
    first.informed.keep()
    warm = cluster()
    assert checks(warm, tmp_path, now=1500.0).run().problems == []
    assert warm.programs == ["sinfo"]
    late = cluster()
    checks(late, tmp_path, now=1601.0).run()
    assert len(late.programs) == 6
    # A folder that holds nonsense is as good as none.
    (file,) = (tmp_path / "cache" / "cluster").iterdir()
    file.write_text('{"time": 1500, "knowledge": {"settings": 7}}', encoding="utf-8")
    again = cluster()
    checks(again, tmp_path, now=1500.0).run()
    assert len(again.programs) == 6


def test_nothing_is_refused_from_memory(tmp_path: Path) -> None:
    first = checks(cluster(), tmp_path)
    first.run()
    first.informed.keep()
    # Since then the account was opened.
    opened = recorded("sacctmgr_user.txt") + "nobody|ml|new||normal|||||||||\n"
    now = cluster(sacctmgr=[said(opened), said(recorded("sacctmgr_qos.txt"))])
    assert checks(now, tmp_path, account="new").run().problems == []
    assert now.programs[:5] == ["sinfo", "scontrol", "scontrol", "sacctmgr", "sacctmgr"]


def test_too_many_jobs_in_the_queue(tmp_path: Path) -> None:
    queue = said("ml|normal\n" * 3)
    (problem,) = checks(cluster(squeue=queue), tmp_path).run().problems
    assert problem.startswith("you have 3 jobs in the queue, and the association of account ml allows 3 at once")
    assert checks(cluster(squeue=queue), tmp_path, account="physics").run().problems == []
    # Nobody asks the queue where nothing limits it.
    unlimited = cluster(squeue=queue)
    checks(unlimited, tmp_path, account="physics").run()
    assert "squeue" not in unlimited.programs
    assert checks(cluster(squeue=queue), tmp_path).reasons() == f"\n  - {problem}"
    assert checks(cluster(sinfo=NO_CONTROLLER), tmp_path).reasons() == ""
    qos = associations.Charge("ml", "high")
    known = Knowledge(SETTINGS, PLAIN, ROWS, QOS)
    assert next(associations.over_count(known, qos, None, [("ml", "high")] * 2)).startswith("you have 2 jobs")


def test_sources_that_are_silent_are_named_and_refuse_nobody(tmp_path: Path) -> None:
    fake = cluster(scontrol=NO_CONTROLLER)
    made = checks(fake, tmp_path, account="nonsense")
    checked = made.run()
    assert checked.problems == []
    assert [sentence.split(":")[0] for sentence in checked.unknown] == ["settings", "who may use a partition"]
    (note,) = made.slurm.notes
    assert note.startswith("not checked before the submission: settings: scontrol slurm_load_jobs error")
    del fake.answers["sacctmgr"]
    config = said("AccountingStorageEnforce = limits\nAccountingStorageType = accounting_storage/slurmdbd\n")
    fake.answers["scontrol"] = [config, said("")]
    assert any("sacctmgr is not on" in sentence for sentence in checks(fake, tmp_path).run().unknown)
    fake.answers["sacctmgr"] = said(timed_out=True, rc=124)
    fake.answers["scontrol"] = [config, said("")]
    assert "accounts of nobody: sacctmgr gave no answer" in checks(fake, tmp_path).run().unknown


CLOSED = said(stderr="slurm_load_node: Access/permission denied\n", rc=1)


def test_a_site_that_hides_its_nodes_is_judged_by_what_it_shows(tmp_path: Path) -> None:
    """PrivateData=nodes closes sinfo, PrivateData=partitions scontrol's partitions too."""
    answer = said(stderr="allocation failure: Requested node configuration is not available\n", rc=1)
    asked = {"partition": "gated", "time_minutes": 20.0, "nodes": 2, "account": "physics", "cpus_per_node": 99}
    made = checks(cluster(sinfo=CLOSED, sbatch=answer), tmp_path, **asked)
    assert made.run("#!/bin/sh\n").problems == [
        "resources.qos: normal, but partition gated takes only high.",
        "resources.nodes: 2 asked, partition gated has 1.",
        "resources.time: 00:20:00 asked, partition gated allows at most 00:10:00.",
    ]
    assert "nodes: " in made.slurm.notes[0] and "Access/permission denied" in made.slurm.notes[0]
    # What the site's own scheduler has judged is not unknown.
    made = checks(cluster(sinfo=CLOSED, sbatch=answer), tmp_path)
    (problem,) = made.run("#!/bin/sh\n").problems
    assert problem.startswith("Slurm says (sbatch --test-only): allocation failure: Requested node configuration")
    assert made.slurm.notes == []
    config = said("AccountingStorageEnforce = limits\nAccountingStorageType = accounting_storage/slurmdbd\n")
    start = said(stderr="sbatch: Job 7 to start at 2000 using 1 processors on nodes node01 in partition short\n")
    nothing = cluster(sinfo=CLOSED, scontrol=[config, CLOSED], sbatch=start)
    checked = checks(nothing, tmp_path, partition=None, time_minutes=31.0, account="physics").run("#!/bin/sh\n")
    assert checked.problems == [
        "resources.time: 00:31:00 asked, the association of account physics allows at most 00:30:00."
    ]  # fmt: skip
    assert [sentence.split(":")[0] for sentence in checked.unknown] == ["who may use a partition", "nodes"]
    with pytest.raises(SlurmUnavailable):
        checks(cluster(sinfo=NO_CONTROLLER), tmp_path).run()


START = "sbatch: Job 7 to start at {} using 1 processors on nodes node[01-02] in partition short\n"


@pytest.mark.parametrize(
    ("answer", "fact", "note", "problem"),
    [
        (said(stderr=START.format(2000)), "on node[01-02] (sbatch --test-only)", "", ""),
        (said(stderr=START.format(7163526220)), "", "gives no start time", ""),
        (
            said(stderr="allocation failure: Invalid feature specification\n", rc=1),
            "",
            "",
            "Slurm says (sbatch --test-only): allocation failure: Invalid feature specification.",
        ),
        (NO_CONTROLLER, "", "not checked before the submission: Slurm's answer", ""),
    ],
)
def test_under_check_mode_slurm_has_the_last_word(
    tmp_path: Path, answer: Any, fact: str, note: str, problem: str
) -> None:
    fake = cluster(sbatch=answer)
    made = checks(fake, tmp_path, check_mode=True)
    checked = made.run("#!/bin/sh\n")
    assert fake.asked[-1] == ["/usr/bin/sbatch", "--test-only"]
    assert checked.problems == ([problem] if problem else [])
    assert any(fact in one for one in checked.facts)
    assert not note or any(note in one for one in [*made.slurm.notes, *checked.notes])
    # What arithmetic refuses is not asked once more.
    fake = cluster(sbatch=answer)
    assert checks(fake, tmp_path, check_mode=True, nodes=9).run("#!/bin/sh\n").problems
    assert "sbatch" not in fake.programs
