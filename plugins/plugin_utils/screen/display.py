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

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import (
    printable,
    printable_lines,
    printable_result,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import start_thread
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.channel import channel
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import BAD, GOOD, NOTE, WARNING, Row

# Ansible leaves line ends to a buffer, so a reader of a pipe or file would see nothing until the end. The process that
# owns the screen imports this file too.
if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(line_buffering=True)

# Comes before each further line of a message, so that it is not mistaken for a line of ours, which begin with a host.
_FURTHER = "\n    "
# How often (seconds) a process looks for its parent.
_LOOK_SECONDS = 1.0
# Ansible's colours -> states of rows.
STATES = {"green": GOOD, "yellow": WARNING, "red": BAD}


class Screen:
    """Ansible's display, with everything made printable first."""

    def __init__(self, ansible: Display) -> None:
        self._ansible = ansible

    @property
    def draws(self) -> bool:
        """Whether one of our callbacks draws rows, so that `row` has an effect. Otherwise, lines of text are shown."""
        return channel() is not None

    def row(self, row: Row) -> None:
        """Show a row through this collection's callback; does nothing if another callback owns the screen."""
        there = channel()
        if there is not None:
            there.send(row)

    def display(self, text: str, color: str | None = None) -> None:
        """Show a message of one or more lines."""
        there = channel()
        if there is not None:
            for line in printable_lines(text).split("\n"):
                there.send(Row("", STATES.get(color or "", NOTE), text=line, news=True))
            return
        self._ansible.display(printable_lines(text).replace("\n", _FURTHER), color=color)

    def warning(self, text: str) -> None:
        """Show a warning through Ansible, without control characters."""
        self._ansible.warning(printable_lines(text))

    def command(self, line: str) -> None:
        """Print a line that a CI system is to take for a command of ours. What it quotes has no line ends."""
        self._ansible.display(line)

    def progress(self, text: str) -> None:
        """Write at the start of the terminal's current line without ending it. Trailing blanks erase old text."""
        shown = printable(text)
        self._ansible.display("\r" + shown + " " * (len(text) - len(text.rstrip())), newline=False)


display = Screen(Display())


class Action(ActionBase):  # type: ignore[misc]  # ansible-core ships no types
    """Base of our actions. Makes all text of a result printable, because Ansible and the playbooks print it.

    An action ends with the playbook, also if that is killed: otherwise a wait would go on for nobody.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "run" in cls.__dict__:
            cls.run = _printing(cls.__dict__["run"])


def _printing(run: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(run)
    def wrapped(*arguments: Any, **options: Any) -> dict[str, Any]:
        _end_with_playbook()
        return printable_result(run(*arguments, **options))

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
