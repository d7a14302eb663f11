# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stages of a pipeline come to together: what must be built, and which of them were not possible."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.action.job_pipeline import ActionModule

CODE = {"kind": "code", "key": "c0de", "path": "/store/code/c0de"}
DONE = {"changed": False, "submission": "unchanged", "missing": []}
LACKS = {"changed": False, "submission": "missing", "missing": [CODE], "snapshots": "/tmp/kept"}
OF_THE_STORE = {"store_root": "/store", "store_group_writable": False, "snapshots": None}
FAILED = {"changed": False, "failed": True, "msg": "no such partition"}


def together(*results: dict[str, Any]) -> dict[str, Any]:
    """The result of stages of which none follows another."""
    stages: list[Any] = [
        SimpleNamespace(is_sweep=False, stage=SimpleNamespace(path=f"item {number}", after=()))
        for number, _result in enumerate(results, 1)
    ]
    given = [dict(result) if result is FAILED else {**OF_THE_STORE, **result} for result in results]
    return object.__new__(ActionModule)._result(stages, given)


def test_what_only_a_later_stage_lacks_is_to_be_built() -> None:
    whole = together(DONE, LACKS, LACKS)
    assert (whole["missing"], whole["snapshots"], whole["store_root"]) == ([CODE], "/tmp/kept", "/store")
    assert not whole.get("failed")


def test_stages_that_were_not_possible_are_named_once_nothing_is_missing() -> None:
    assert not together(FAILED, LACKS).get("failed"), "it is tried again after what is missing has been built"
    whole = together(DONE, FAILED, FAILED)
    assert whole["failed"] and whole["msg"] == "item 2: no such partition\nitem 3: no such partition"
