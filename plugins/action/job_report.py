# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show a launch's result card, and fail unless its result is proven. Runs on the controller only."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED, SUCCEEDED
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card, last_words, standing_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import hints, report


class ActionModule(Action):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec(
            {
                "launch": {"type": "dict", "required": True},
                "result": {"type": "dict", "required": True},
                "logs": {"type": "dict", "default": {}},
                "diagnosis": {"type": "dict", "default": {}},
            }
        )
        launch, result, logs, why = (plain(arguments[name]) for name in ("launch", "result", "logs", "diagnosis"))
        host = (task_vars or {}).get("inventory_hostname", "localhost")
        result = {**result, "ledger": self._ledger(result, logs, why)}
        lines = card(launch, result, logs, why)
        if result.get("completed") and not result.get("success") and why.get("lines"):
            lines += [f"  {line}" for line in why["lines"]]
        elif result.get("completed") and not result.get("success") and logs.get("dest"):
            lines += [f"  {line}" for line in last_words(logs["dest"])]
        if display.draws:
            for row in report(task_vars or {}, launch, result, logs, why):
                display.row(row)
        else:
            for line in lines:
                display.display(f"{host}: {line}", color="green" if result.get("success") else None)
        standing = standing_of(result)
        # Ansible's own callback prints a failed result as JSON, so it does not contain the card that was just shown.
        report_result = {"changed": False, "standing": standing, "ledger": result["ledger"]}
        if standing == SUCCEEDED:
            lost = logs.get("connection_lost") or logs.get("unreachable")
            # A lost connection says nothing about the launch; any other reason for missing logs is an error.
            if logs.get("msg") and not logs.get("dest") and not lost:
                return {**report_result, "failed": True, "msg": f"{launch.get('name')}: its logs: {logs['msg']}"}
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
    def _ledger(result: Parameters, logs: Parameters, why: Parameters) -> ModuleResult | None:
        """What the hours of a launch that has ended went to; None where that is not known."""
        told = (why.get("diagnosis") or {}).get("ledger")
        if told or not result.get("completed") or not logs.get("dest"):
            return told or None
        # Imported only where a launch has ended.
        from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hours import hours

        return hours(result, str(logs["dest"]))
