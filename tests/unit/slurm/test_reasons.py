# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a job waits: every code that the three releases of the lab know has words, and says what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import reasons, states

CODES = [
    line.split()[0]
    for line in (Path(__file__).parent / "data" / "reason_codes.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def test_every_code_of_every_release_says_what_to_change() -> None:
    assert len(CODES) > 200
    for code in CODES:
        reason = reasons.explain(code)
        assert reason.meaning and reason.meaning != "waiting", code
        assert reason.remedy, code


def test_a_limit_names_the_option_that_asks_for_it() -> None:
    for code, words in {
        "QOSMaxGRESPerUser": ("your jobs already use all the GPUs", "resources.gpus_per_node"),
        "MaxNodePerAccount": ("the jobs of your account already use all the nodes", "resources.nodes"),
        "MaxCpuRunMinsPerUser": ("budget of cores times minutes", "resources.time"),
        "AssocMaxWallDurationPerJobLimit": ("more wall time", "resources.time"),
        "QOSMaxMemoryPerNode": ("more memory than the QOS allows one node", "resources.memory"),
        "InvaildReason": ("no valid reason", "administrators"),
    }.items():
        reason = reasons.explain(code)
        assert words[0] in reason.meaning and words[1] in reason.remedy, reason


@pytest.mark.parametrize(
    ("code", "stuck", "words"),
    [
        ("Resources", False, "free nodes"),
        ("(Priority)", False, "higher priority"),
        ("Dependency", False, "another job"),
        ("DependencyNeverSatisfied", True, "never satisfy"),
        ("QOSMaxCpuPerUserLimit", False, "all the cores"),
        ("QOSMaxNodePerJobLimit", True, "more nodes than the QOS allows one job"),
        ("QOSMinGRES", True, "fewer GPUs"),
        ("QOSUsageThreshold", False, "usage factor"),
        ("AssocGrpGRES", False, "GPUs"),
        ("AssocGrpCPUMinutesLimit", False, "budget of cores"),
        ("AssocMaxJobsLimit", False, "all the jobs"),
        ("AssocMaxWallDurationPerJobLimit", True, "more wall time than the account"),
        ("ReqNodeNotAvail, UnavailableNodes:node07", False, "node07"),
        ("PartitionTimeLimit", True, "time limit"),
        ("PartitionNodeLimit", False, "more nodes"),
        ("BadConstraints", False, "constraints"),
        ("Licenses", False, "licence"),
        ("Reservation", False, "reservation"),
        ("BeginTime", False, "start time"),
        ("JobHeldUser", True, "scontrol release"),
        ("JobHeldAdmin", True, "administrator"),
        ("launch failed requeued held", True, "could not start"),
        ("user env retrieval failed requeued held", True, "scontrol release"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", False, "down"),
        ("", False, "not considered"),
        ("SomethingNew", False, "SomethingNew"),
    ],
)
def test_reasons_in_words(code: str, stuck: bool, words: str) -> None:
    reason = reasons.explain(code)
    assert reason.stuck is stuck
    assert words in reason.sentence


def test_only_what_nobody_will_change_is_hopeless() -> None:
    assert reasons.explain("DependencyNeverSatisfied").hopeless
    assert reasons.explain("PartitionTimeLimit").hopeless
    for code in ("JobHeldUser", "PartitionNodeLimit", "BadConstraints", "Resources", "QOSMaxNodePerJobLimit"):
        assert not reasons.explain(code).hopeless, code


def test_a_job_that_slurm_could_not_start_names_both_commands() -> None:
    reason = reasons.explain("launch_failed_requeued_held").of_job("12")
    assert states.launch_failed(reason.code) and reason.stuck and not reason.hopeless
    assert reason.remedy.endswith("scontrol release 12") and "NodeName=NODE State=RESUME" in reason.remedy
    assert not states.launch_failed("JobHeldUser")
    assert reasons.explain("JobHeldUser").of_job(None).remedy.endswith("JOBID")
