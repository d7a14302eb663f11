# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only way to the screen: all output of plugins passes through here, so control characters never reach a terminal.

A repository test checks that no other file uses Ansible's display, and that every action is an `Action`.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleFailed, TaskVariables, play_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable_result
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import start_thread
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.messages import Screen

# Ansible leaves line ends to a buffer, so a reader of a pipe or file would see nothing until the end. The process that
# owns the screen imports this file too.
if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(line_buffering=True)

# How often (seconds) a process looks for its parent.
_LOOK_SECONDS = 1.0

display = Screen(Display())


class Action(ActionBase):  # type: ignore[misc]  # ansible-core ships no types
    """Base of our actions. Makes all text of a result printable, because Ansible and the playbooks print it.

    A module that failed ends its action, whose result is the module's (`succeeded`). Where the host asks for a second
    factor, the message says what to do. An action ends with the playbook, also if that is killed: a wait would go on
    for nobody otherwise.
    """

    #: The play of the task, its host, and the variables.
    play = play_of(None)
    host = play.host
    _task_vars: TaskVariables = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "run" in cls.__dict__:
            cls.run = _printing(cls.__dict__["run"])


def _printing(run: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(run)
    def wrapped(self: Action, tmp: str | None = None, task_vars: TaskVariables | None = None) -> dict[str, Any]:
        _end_with_playbook()
        self._task_vars = task_vars or {}
        self.play = play_of(task_vars)
        self.host = self.play.host
        try:
            return printable_result(run(self, tmp, task_vars))
        except ModuleFailed as error:
            return printable_result(error.result)
        except AnsibleConnectionFailure as error:
            from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.login import advice

            raise AnsibleConnectionFailure(f"{error}{advice(self._connection, str(error))}") from None

    return wrapped


@functools.cache
def _end_with_playbook() -> None:
    """End this worker if ansible-playbook, which has forked it, is killed."""
    playbook = multiprocessing.parent_process()
    if playbook is not None and playbook.pid is not None:
        end_with(playbook.pid, lambda: os._exit(1))


def end_with(parent: int, end: Callable[[], object]) -> None:
    """Call `end`, in a thread, once the process `parent` is no longer the parent of this one. Nothing else tells it."""

    def check_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        end()

    start_thread(threading.Thread(target=check_parent, daemon=True))
