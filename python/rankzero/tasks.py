# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tasks of a command without ansible-playbook: each on the screen and with its record, as a playbook's are.

Nothing here imports Ansible.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable_result
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import results
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.session import Session
from rankzero import errors
from rankzero.host import Host
from rankzero.known_inventory import NotPlain
from rankzero.playbook import COLLECTION, Record

#: The exit codes of ansible-playbook.
FAILED, UNREACHABLE = 2, 4

Result = dict[str, Any]


class Ended(Exception):
    """A task has failed: none follows."""

    def __init__(self, rc: int) -> None:
        super().__init__(f"exit code {rc}")
        self.rc = rc


class Lost(Exception):
    """The answer to what may change something did not arrive: it is not asked again. The message says why."""


class Tasks:
    """The tasks of one command, one after another. `differences`: whether to show what they change.

    `records`: of those that are over.
    """

    def __init__(self, host: Host, session: Session, *, differences: bool) -> None:
        self.host, self.records = host, list[Record]()
        self._name, self._session, self._differences = host.login.name, session, differences

    def done(self, module: str, title: str, do: Callable[[], Result], *, tolerant: bool = False) -> Result:
        """Carry out a task, and return its result. `tolerant`: a failure is a result like any other.

        Raises Ended, and in the first task NotPlain: a playbook does all of it then.
        """
        action = f"{COLLECTION}.{module}"
        self._session.painter.begin_task(results.running(self._name, action, title))
        try:
            answer = do()
        except RankzeroError as error:
            answer = {"failed": True, "msg": error.message, **error.partial}
        except Lost as error:
            answer = {"unreachable": True, "msg": str(error)}
        except (NotPlain, errors.RankzeroError, OSError) as error:
            # A playbook would begin with the first task: what has been done would be done once more.
            if not self.records:
                raise
            answer = {"failed": True, "msg": str(error)}
        if told := self.host.warnings.taken():
            answer = {**answer, "warnings": told}
        if tolerant and answer.get("failed"):
            answer = {**answer, "failed": False}
        result: Result = printable_result(answer)
        self._session.drain()
        self._show(results.differences(self._name, result) if self._differences else [])
        seconds = self._session.painter.end_task(self._name)
        failed, unreachable = bool(result.get("failed")), bool(result.get("unreachable"))
        outcome = "unreachable" if unreachable else "failed" if failed else "ok"
        # In the order of the callback that records a playbook's results.
        kept = json.loads(json.dumps(result, sort_keys=True))
        self.records.append(Record(self._name, action, outcome, kept))
        if unreachable:
            self._show(results.failed(self._name, "", "not reached", result))
            self._session.painter.board.drop(self._name)
            raise Ended(UNREACHABLE)
        self._show(results.warned(self._name, result))
        if failed:
            self._session.painter.board.drop(self._name)
            self._show(results.failed(self._name, action, title, result))
            raise Ended(FAILED)
        self._show(results.done(self._name, action, title, result, seconds))
        return result

    def show_lines(self, lines: str | list[str]) -> None:
        """Show lines, as a task of debug does."""
        self._show(results.done(self._name, "ansible.builtin.debug", "", {"msg": lines}, None))

    def _show(self, rows: list[Row]) -> None:
        for row in rows:
            self._session.add(row)
