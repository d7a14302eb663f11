# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import states

NOT_FINAL = [
    *("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
    *("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"),
]
FINAL = ["CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"]
UNSETTLED = ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED"]


@pytest.mark.parametrize("state", NOT_FINAL)
def test_not_final(state: str) -> None:
    assert not states.is_final(state)
    assert states.is_pending(state) != states.is_running(state)


@pytest.mark.parametrize("state", [*FINAL, "CANCELLED by 1000", "CANCELLED+", "completed"])
def test_final(state: str) -> None:
    assert states.is_final(state)
    assert states.is_final(state, settled=False)
    assert not states.is_pending(state)
    assert not states.is_running(state)


@pytest.mark.parametrize("state", UNSETTLED)
def test_final_only_when_it_stays(state: str) -> None:
    assert states.is_final(state)
    assert not states.is_final(state, settled=False)


def test_an_unknown_state_is_not_the_end() -> None:
    for state in ("", "UNKNOWN", "A_STATE_OF_NEXT_YEAR"):
        assert not states.is_final(state)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (["RUNNING"], "RUNNING"),
        (["COMPLETED", "COMPLETING"], "COMPLETING"),
        (["PENDING", "REQUEUED", "COMPLETING"], "REQUEUED"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["PENDING", "REVOKED"], "REVOKED"),
        ([], "UNKNOWN"),
        ("CANCELLED by 1000", "CANCELLED"),
        ("RUNNING,CONFIGURING", "RUNNING"),
    ],
)
def test_words_and_lists(value: str | list[str], state: str) -> None:
    assert states.state_of(value) == state


@pytest.mark.parametrize(
    ("code", "stuck", "words"),
    [
        ("Resources", False, "free nodes"),
        ("(Priority)", False, "higher priority"),
        ("Dependency", False, "another job"),
        ("DependencyNeverSatisfied", True, "never satisfy"),
        ("QOSMaxCpuPerUserLimit", False, "cores allowed"),
        ("QOSMaxNodePerJobLimit", True, "more nodes than the QOS allows one job"),
        ("QOSMinGRES", True, "fewer GPUs"),
        ("QOSUsageThreshold", False, "usage factor"),
        ("AssocGrpGRES", False, "GPUs"),
        ("AssocGrpCPUMinutesLimit", False, "budget of cores"),
        ("AssocMaxJobsLimit", False, "jobs allowed"),
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
        ("launch failed requeued held", True, "could not be started"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", False, "down"),
        ("", False, "not looked"),
        ("SomethingNew", False, "SomethingNew"),
    ],
)
def test_reasons_in_words(code: str, stuck: bool, words: str) -> None:
    reason = states.explain(code)
    assert reason.stuck is stuck
    assert words in reason.sentence


def test_only_what_nobody_will_change_is_hopeless() -> None:
    assert states.explain("DependencyNeverSatisfied").hopeless
    assert states.explain("PartitionTimeLimit").hopeless
    for code in ("JobHeldUser", "PartitionNodeLimit", "BadConstraints", "Resources", "QOSMaxNodePerJobLimit"):
        assert not states.explain(code).hopeless, code


def test_ends_in_words() -> None:
    assert states.describe_end("FAILED", 3, 0, "NonZeroExitCode") == (
        "FAILED: the batch script failed, exit code 3 (NonZeroExitCode)"
    )
    assert states.describe_end("FAILED", 0, 11) == "FAILED: the batch script failed, signal 11"
    # Slurm marks out-of-memory as 0:125; 125 is no signal, and the pending reason explains no end.
    text = states.describe_end("OUT_OF_MEMORY", 0, 125, "Resources")
    assert "125" not in text and "Resources" not in text and "more memory" in text
    assert states.describe_end("NEWSTATE").startswith("NEWSTATE: ")
