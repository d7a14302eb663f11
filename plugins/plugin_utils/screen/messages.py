# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plugins say to the user. Control characters never reach a terminal. Nothing here imports Ansible."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable, printable_lines
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.channel import channel
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import BAD, GOOD, NOTE, WARNING, Row

# Comes before each further line of a message, so that it is not mistaken for a line of ours, which begin with a host.
_FURTHER = "\n    "
# Ansible's colours -> states of rows.
STATES = {"green": GOOD, "yellow": WARNING, "red": BAD}


class Screen:
    """Ansible's display, or what stands for it, with everything made printable first."""

    def __init__(self, ansible: Any) -> None:
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
