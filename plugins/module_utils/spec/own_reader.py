# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster declares about diagnoses: a program of its own that reads failures which no family knows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t


def _nothing(_fields: Mapping[str, Any]) -> list[str]:
    return []


#: `command`: the words of the program on the controller, without a shell; `seconds`: how long it may take.
READER = t.record(
    "reader",
    {"command": t.listed(t.text(r"[^\0]+", "a word"), filled=True), "seconds": t.integer(1, 120, seconds=True)},
    ("command",),
    _nothing,
)
OWN_DIAGNOSIS = t.record("settings of the diagnosis", {"reader": READER}, (), _nothing)
