# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of the tasks of a playbook, written down by a callback plugin of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CALLBACKS = Path(__file__).resolve().parent / "cluster" / "callback_plugins"


def settings(record: Path) -> dict[str, str]:
    """Environment variables with which ansible-playbook appends the result of every task to the file `record`."""
    return {"ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS), "RANKZERO_TEST_RECORD": str(record)}


def lines(record: Path) -> list[dict[str, Any]]:
    """Host, action, outcome and result of every task so far, oldest first."""
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()] if record.exists() else []


def results(record: Path, action: str) -> list[dict[str, Any]]:
    """The results of an action, each with `failed`."""
    return [
        {**line["result"], "failed": line["outcome"] != "ok"}
        for line in lines(record)
        if line["action"] == action and line["outcome"] != "skipped"
    ]
