# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_sweep_info`: query until the sweep is over, show the table, write CSV and JSON here."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import answer_of, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import (
    ACTION_ARGUMENTS,
    ARGUMENTS,
    SweepOutcome,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.bounded import bounded
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.sweep_table import screen, tally, write
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reconnect import ConnectionLost, retried

FIRST_DELAY = 1.0


@dataclass(frozen=True)
class Options:
    """The options that the module does not read. Times are in seconds; a `wait_timeout` of 0 is none."""

    wait: bool
    wait_timeout: int
    poll_max: float
    reconnect_timeout: int
    dest: str | None


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(ACTION_ARGUMENTS)
        result = self._results(record_of(Options, options))
        elements = result.get("elements")
        # The table and the files were made of all values.
        return result if elements is None else {**result, "elements": bounded(elements)}

    def _results(self, options: Options) -> dict[str, Any]:
        began = time.monotonic()
        result, polls = self._ask(), 1
        delay, last_tally = FIRST_DELAY, ""
        waiting = options.wait and not self._task.check_mode
        while waiting and not answer_of(result).failed:
            sweep = SweepOutcome.of(result)
            left = options.wait_timeout - (time.monotonic() - began) if options.wait_timeout else delay
            if sweep.completed or left <= 0:
                break
            if tally(sweep) != last_tally:
                last_tally = tally(sweep)
                self._say(f"{sweep.name}: {last_tally}")
            time.sleep(min(delay, left))
            # Each round costs Slurm one query, however many elements there are.
            delay = min(delay * 1.3, max(options.poll_max, FIRST_DELAY))
            try:
                result = retried(
                    self._ask,
                    self._say,
                    options.reconnect_timeout,
                    self._connection,
                    lost=(AnsibleConnectionFailure,),
                )
            except ConnectionLost as error:
                return {**result, "failed": True, "msg": _lost(self.host, sweep, str(error))}
            polls += 1
        if answer_of(result).failed:
            return result
        sweep = SweepOutcome.of(result)
        table, files = screen(sweep), {}
        for line in table:
            self._say(line)
        if options.dest and not self._task.check_mode:
            try:
                files = write(sweep, options.dest)
            except RankzeroError as error:
                return {**result, "failed": True, "msg": error.message}
            self._say(f"results: {', '.join(map(os.path.relpath, files.values()))}")
        return {**result, "polls": polls, "waited": time.monotonic() - began, "table": table, "files": files}

    def _say(self, text: str, color: str | None = None) -> None:
        display.display(f"{self.host}: {text}", color=color)

    def _ask(self) -> dict[str, Any]:
        given = {name: value for name, value in self._task.args.items() if name in ARGUMENTS}
        return call_module(self, "rankzero.slurm.job_sweep_info", given, self._task_vars, ACTION_ARGUMENTS)


def _lost(host: str, sweep: SweepOutcome, reason: str) -> str:
    return (
        f"the connection to {host} was lost: {reason}. The sweep {sweep.name} is not affected. Attach to it again "
        f"by running the same command, or with: ansible {host} -m rankzero.slurm.job_sweep_info "
        f'-a "sweep_dir={sweep.sweep_dir} wait=true"'
    )
