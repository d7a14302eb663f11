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


def test_ends_in_words() -> None:
    assert states.describe_end("FAILED", 3, 0, "NonZeroExitCode") == (
        "FAILED: the batch script failed, exit code 3 (NonZeroExitCode)"
    )
    assert states.describe_end("FAILED", 0, 11) == "FAILED: the batch script failed, signal 11"
    # Slurm marks out-of-memory as 0:125; 125 is no signal, and the pending reason explains no end.
    text = states.describe_end("OUT_OF_MEMORY", 0, 125, "Resources")
    assert "125" not in text and "Resources" not in text and "more memory" in text
    assert states.describe_end("NEWSTATE").startswith("NEWSTATE: ")
