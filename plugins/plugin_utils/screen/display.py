# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way to the screen. Whatever a plugin shows passes here, so nothing that a file holds reaches a terminal raw.

A repository test sees to it that nobody else has Ansible's own display, and that every action is an `Action`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import (
    printable,
    printable_lines,
    printable_result,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.channel import channel
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import BAD, GOOD, NOTE, WARNING, Row

# Ansible leaves the end of each line to a buffer: whoever reads a pipe or a file would see nothing before the end. The
# process that has the screen imports this file, too.
if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(line_buffering=True)

# What stands before a further line of one message: it cannot be taken for a line of ours, which begin with a host.
_FURTHER = "\n    "
# Ansible's colours as states of rows.
STATES = {"green": GOOD, "yellow": WARNING, "red": BAD}


class Screen:
    """Ansible's display, with all that it shows made printable."""

    def __init__(self, ansible: Display) -> None:
        self._ansible = ansible

    @property
    def draws(self) -> bool:
        """Whether a callback of ours draws rows: `row` is seen. Else lines of text are."""
        return channel() is not None

    def row(self, row: Row) -> None:
        """A row for the callback of this collection; nothing where another one has the screen."""
        there = channel()
        if there is not None:
            there.send(row)

    def display(self, text: str, color: str | None = None) -> None:
        """A line, or a message of some."""
        there = channel()
        if there is not None:
            for line in printable_lines(text).split("\n"):
                there.send(Row("", STATES.get(color or "", NOTE), text=line, news=True))
            return
        self._ansible.display(printable_lines(text).replace("\n", _FURTHER), color=color)

    def warning(self, text: str) -> None:
        """Show a warning in Ansible's way, without control characters."""
        self._ansible.warning(printable_lines(text))

    def progress(self, text: str) -> None:
        """Write at the beginning of the terminal's current line and do not end it. Blanks at its end wipe what was
        there."""
        shown = printable(text)
        self._ansible.display("\r" + shown + " " * (len(text) - len(text.rstrip())), newline=False)


display = Screen(Display())


class Action(ActionBase):  # type: ignore[misc]  # ansible-core ships no types
    """An action of ours: the texts of its result may be printed, as Ansible and the playbooks do."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "run" in cls.__dict__:
            cls.run = _printing(cls.__dict__["run"])


def _printing(run: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(run)
    def wrapped(*arguments: Any, **options: Any) -> dict[str, Any]:
        return printable_result(run(*arguments, **options))

    return wrapped
