# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows a launch as one row for each step, live; Ansible's own output with -v."""

from __future__ import annotations

DOCUMENTATION = r"""
name: screen
type: stdout
short_description: Show one row for each step of a launch, live at a terminal, plain lines in a pipe
version_added: 0.1.0
description:
  - Shows a launch. Each step (code, environment, job, preflight, training) is one row with its duration. Running steps
    are shown live with their progress. The last rows show the proven result, or the cause of the failure.
  - In a pipe or a file, with the environment variable E(CI) set, or with E(TERM) being V(dumb), every line is printed
    once, as soon as it is known.
  - Colours are Ansible's setting (C(NO_COLOR), C(ANSIBLE_NOCOLOR), C(ANSIBLE_FORCE_COLOR)). Without a terminal
    there are none, unless they are forced.
  - With C(-v) the output is that of P(ansible.builtin.default#callback).
  - Tasks of other collections are shown if they change something, take longer than five seconds, or fail.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - Set it as stdout callback, C(stdout_callback = rankzero.slurm.screen) in section C([defaults]) of C(ansible.cfg).
"""

EXAMPLES = r"""
# ansible.cfg
# [defaults]
# stdout_callback = rankzero.slurm.screen
"""

import atexit
import os
from typing import Any

from ansible import constants as C
from ansible.plugins.callback.default import CallbackModule as Default

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import results
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import LEFT, NOTE, WARNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.session import Session

# Seconds between two looks of Ansible's main process at its workers, and while one waits for a job: that takes minutes
# to days, and a thousand looks a second are most of what it costs.
INTERVAL = C.DEFAULT_INTERNAL_POLL_INTERVAL
PATIENT_INTERVAL = 0.02


class CallbackModule(Default):  # type: ignore[misc]  # ansible-core ships no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "rankzero.slurm.screen"

    def __init__(self) -> None:
        super().__init__()
        self._session: Session | None = None
        self._planned = False
        if self._display.verbosity == 0:
            forced = True if C.ANSIBLE_FORCE_COLOR else False if C.ANSIBLE_NOCOLOR else None
            self._session = Session(os.environ, forced, self._kept)
            atexit.register(self._session.close, LEFT)

    def _kept(self, line: str) -> None:
        """Write a printed line to Ansible's log file, if there is one."""
        self._display.display(line, log_only=True)

    def _show(self, rows: list[Row]) -> None:
        if self._session is None:
            return
        for row in rows:
            self._session.add(row)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        if self._session is None:
            super().v2_playbook_on_play_start(play)
            return
        self._play = play
        variables = play.get_variable_manager().get_vars(play=play, include_hostvars=False)
        self._session.of_hosts([str(host) for host in variables.get("ansible_play_hosts_all") or []])

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if self._session is None:
            super().v2_playbook_on_task_start(task, is_conditional)

    def v2_playbook_on_cleanup_task_start(self, task: Any) -> None:
        if self._session is None:
            super().v2_playbook_on_cleanup_task_start(task)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        if self._session is None:
            super().v2_playbook_on_handler_task_start(task)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        if self._session is None:
            super().v2_runner_on_start(host, task)
            return
        if results.own_action(task.action) == "job_wait":
            C.DEFAULT_INTERNAL_POLL_INTERVAL = max(INTERVAL, PATIENT_INTERVAL)
        if task.action not in results.AT_TERMINAL:
            self._session.painter.begin_task(results.running(host.get_name(), task.action, _title(task)))

    def v2_runner_on_ok(self, result: Any) -> None:
        if self._session is None:
            super().v2_runner_on_ok(result)
            return
        seconds = self._ended(result)
        # The items of a loop have already been shown one by one.
        if "results" not in result._result or not result._task.loop:
            self._done(result, seconds)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if self._session is None:
            super().v2_runner_item_on_ok(result)
            return
        self._session.drain()
        self._done(result, self._session.painter.end_item(result._host.get_name()))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if self._session is None:
            super().v2_runner_on_failed(result, ignore_errors)
            return
        self._ended(result)
        if "results" not in result._result or not result._task.loop:
            self._failed(result, ignore_errors)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        if self._session is None:
            super().v2_runner_item_on_failed(result)
            return
        self._failed(result, bool(result._task.ignore_errors))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self._session is None:
            super().v2_runner_on_unreachable(result)
            return
        self._ended(result)
        host = result._host.get_name()
        self._show(results.failed(host, "", "not reached", result._result))
        self._session.painter.board.drop(host)

    def v2_runner_on_skipped(self, result: Any) -> None:
        if self._session is None:
            super().v2_runner_on_skipped(result)
            return
        self._ended(result)

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        if self._session is None:
            super().v2_runner_item_on_skipped(result)

    def v2_runner_retry(self, result: Any) -> None:
        if self._session is None:
            super().v2_runner_retry(result)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if self._session is None:
            super().v2_playbook_on_include(included_file)

    def v2_on_file_diff(self, result: Any) -> None:
        if self._session is None:
            super().v2_on_file_diff(result)
            return
        parts = result._result.get("results") or [result._result] if result._task.loop else [result._result]
        for part in parts:
            shown = self._get_diff(part["diff"]) if part.get("diff") and part.get("changed") else ""
            self._show([Row(result._host.get_name(), NOTE, text=line) for line in shown.splitlines()])

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if self._session is None:
            super().v2_playbook_on_stats(stats)
            return
        self._session.close()

    def _ended(self, result: Any) -> float | None:
        """Show what the task has sent before its result. Returns the task's duration in seconds."""
        if self._session is None:
            return None
        C.DEFAULT_INTERNAL_POLL_INTERVAL = INTERVAL
        self._session.drain()
        return self._session.painter.end_task(result._host.get_name())

    def _done(self, result: Any, seconds: float | None) -> None:
        host, task = result._host.get_name(), result._task
        self._warned(host, result._result)
        self._planned |= results.own_action(task.action) in results.PLANS
        if not (task.check_mode and results.is_step(task.action)):
            self._show(results.done(host, task.action, _title(task), result._result, seconds))
        elif not self._planned:
            self._show(results.foretold(host, task.action, result._result))

    def _failed(self, result: Any, ignored: bool) -> None:
        if self._session is None:
            return
        host, task = result._host.get_name(), result._task
        self._warned(host, result._result)
        rows = results.failed(host, task.action, _title(task), result._result)
        if ignored:
            rows = [Row(host, WARNING, text=f"{row.text} (ignored)") for row in rows[:1]]
        self._session.painter.board.drop(host)
        self._show(rows)

    def _warned(self, host: str, result: Any) -> None:
        self._show(results.warned(host, result))


def _title(task: Any) -> str:
    """A task's name without its role's name."""
    return str(task.name or task.action)
