# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch key, computed again from the record of a launch that ran on a lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.course.key import Unknowable, code_of, key_of

RECORDED = (Path(__file__).parent / "launch.json").read_text(encoding="utf-8")


def test_a_recorded_launch_has_its_key() -> None:
    record = json.loads(RECORDED)
    assert key_of(record) == record["key"]
    assert code_of(record) == record["code"]["digest"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"nodes": "3"', '"nodes": "5"'),
        ('"ranks_per_node": "2"', '"ranks_per_node": "1"'),
        ('"lt": "0.3"', '"lt": "9"'),
        ('"30"', '"1"'),
        ("c00e4e39effb", "c00e4e39effc"),
    ],
)
def test_an_edited_one_has_another(old: str, new: str) -> None:
    assert old in RECORDED
    record = json.loads(RECORDED.replace(old, new))
    assert key_of(record) != record["key"]


def test_what_is_not_in_the_key_may_differ() -> None:
    record = json.loads(RECORDED.replace('"time": "00:20:00"', '"time": "00:10:00"').replace("/home/ada", "/home/ben"))
    assert key_of(record) == record["key"]


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": None},
        {"spec": {"name": 7, "unknown": 1}},
        {"refs": [{}]},
        {"refs": "c0de"},
        {"after": [7]},
        {"spec": {"name": "a", "command": ["b"], "resources": {"nodes": "none"}}},
    ],
)
def test_what_is_no_record_has_none(changes: dict[str, Any]) -> None:
    with pytest.raises(Unknowable) as error:
        key_of({**json.loads(RECORDED), **changes})
    assert not error.value.fair


def test_an_environment_of_the_site_is_nobodys_fault() -> None:
    record = json.loads(RECORDED)
    record["spec"]["environment"] = {"mode": "path", "path": "/opt/env"}
    with pytest.raises(Unknowable) as error:
        key_of(record)
    assert error.value.fair
