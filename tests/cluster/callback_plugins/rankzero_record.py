# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the result of every task to the file that RANKZERO_TEST_RECORD names, one JSON object a line.

So a test reads what a playbook returned, and counts its tasks, without a change to the playbook.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rankzero_record
type: notification
short_description: Record the results of a playbook for a test
description:
  - Records the results of a playbook for a test.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core ships no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "rankzero_record"

    def _record(self, outcome: str, result: Any) -> None:
        record = os.environ.get("RANKZERO_TEST_RECORD")
        if not record:
            return
        line = {
            "host": result._host.get_name(),
            "action": result._task.action,
            "outcome": outcome,
            "at": time.time(),
            # What Ansible itself would show: censored and without its internals.
            "result": json.loads(self._dump_results(result._result, indent=0)),
        }
        with open(record, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._record("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._record("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._record("unreachable", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._record("skipped", result)
