# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show a launch's result card, and fail unless its result is proven. Runs on the controller only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED, SUCCEEDED
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card, last_words, standing_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.log_facts import FetchedLogs
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import hints, report


@dataclass(frozen=True)
class _Options:
    """The results of the role's tasks: of the launch, the wait, the logs and the diagnosis."""

    launch: Parameters
    result: Parameters
    logs: Parameters
    diagnosis: Parameters


class ActionModule(Action):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {
                "launch": {"type": "dict", "required": True},
                "result": {"type": "dict", "required": True},
                "logs": {"type": "dict", "default": {}},
                "diagnosis": {"type": "dict", "default": {}},
            }
        )
        given = record_of(_Options, plain(options))
        launch, logs, why = given.launch, given.logs, given.diagnosis
        fetched = record_of(FetchedLogs, logs)
        host = (task_vars or {}).get("inventory_hostname", "localhost")
        ledger = self._ledger(given.result, fetched, why)
        result = {**given.result, "ledger": ledger}
        lines = card(launch, result, logs, why)
        if result.get("completed") and not result.get("success"):
            reasons = why.get("lines") or (last_words(fetched.dest) if fetched.dest else [])
            lines += [f"  {line}" for line in reasons]
        if display.draws:
            for row in report(task_vars or {}, launch, result, logs, why):
                display.row(row)
        else:
            for line in lines:
                display.display(f"{host}: {line}", color="green" if result.get("success") else None)
        standing = standing_of(result)
        # Ansible's own callback prints a failed result as JSON, so it does not contain the card that was just shown.
        report_result = {"changed": False, "standing": standing, "ledger": ledger}
        if standing == SUCCEEDED:
            lost = fetched.connection_lost or fetched.unreachable
            # A lost connection says nothing about the launch; any other reason for missing logs is an error.
            if fetched.msg and not fetched.dest and not lost:
                return {**report_result, "failed": True, "msg": f"{launch.get('name')}: its logs: {fetched.msg}"}
            return {**report_result, "card": lines}
        if standing == FAILED:
            message = f"{launch.get('name')} failed: {result.get('message') or result.get('msg') or 'see the card'}"
            return {**report_result, "failed": True, "msg": message}
        message = (
            f"{launch.get('name')}: the wait ended before job {launch.get('job_id')}; the job continues. "
            f"{result.get('msg') or ''} {hints(launch, task_vars or {})}"
        )
        return {**report_result, "failed": True, "msg": message}

    @staticmethod
    def _ledger(result: Parameters, logs: FetchedLogs, why: Parameters) -> ModuleResult | None:
        """What the hours of a launch that has ended went to; None where that is not known."""
        told = (why.get("diagnosis") or {}).get("ledger")
        if told or not result.get("completed") or not logs.dest:
            return told or None
        # Imported only where a launch has ended.
        from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hours import hours

        return hours(result, logs.dest)
