# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what the tasks of a playbook returned to a file, for the program that started the playbook."""

from __future__ import annotations

DOCUMENTATION = r"""
name: records
type: notification
short_description: Write the results of this collection's tasks to a file
version_added: 0.1.0
description:
  - Appends one JSON object per task to a file, with C(host), C(action), C(outcome) and C(result). The outcome is V(ok),
    V(failed), V(ignored) (a failure that the playbook ignores) or V(unreachable).
  - Records the tasks of this collection, and the failures of all tasks.
  - The command C(rankzero) and the Python module of the same name read their results from it.
  - Results appear as Ansible would show them. Those of tasks with C(no_log) are hidden.
  - If that program is killed, the playbook is interrupted as by Ctrl-C. Jobs on the cluster are not affected.
requirements:
  - Enable it with C(ANSIBLE_CALLBACKS_ENABLED=rankzero.slurm.records).
options:
  path:
    description: The file to append to. Without it nothing is written.
    type: path
    env:
      - name: RANKZERO_RECORDS
"""

import json
import os
import signal
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import end_with

COLLECTION = "rankzero.slurm."
#: How long (seconds) an interrupted playbook may take to end.
PATIENCE = 10.0


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core ships no types
    """Writes one line of JSON for each task that may interest the caller."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "rankzero.slurm.records"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Any) -> None:
        if self.get_option("path"):
            end_with(os.getppid(), _interrupt)

    def _append(self, outcome: str, result: Any) -> None:
        path = self.get_option("path")
        action = str(result._task.action)
        if not path or (outcome == "ok" and not action.startswith(COLLECTION)):
            return
        line = {
            "host": result._host.get_name(),
            "action": action,
            "outcome": outcome,
            # The result as Ansible itself would show it: censored, and without internal values.
            "result": json.loads(self._dump_results(result._result, indent=0)),
        }
        # Each line is a single write, so lines of several hosts never mix. The caller created the file with private
        # access.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, (json.dumps(line) + "\n").encode())
        finally:
            os.close(descriptor)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._append("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._append("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._append("unreachable", result)


def _interrupt() -> None:
    """End the playbook as Ctrl-C does. Between two tasks it may miss that."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(PATIENCE)
    os._exit(128 + signal.SIGINT)
