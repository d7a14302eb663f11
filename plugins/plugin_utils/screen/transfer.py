# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of transfers on the screen: lines with the host, or a bar if one host has the terminal to itself."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount, duration
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Reading
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import NOTE, RUNNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.progress import Progress

#: Seconds between two lines.
PACE = 5.0
# Workers of newer versions of ansible-core have no terminal. This line runs in the process that has one.
AT_TERMINAL = sys.stdout is not None and sys.stdout.isatty()
# Bytes that a program has written are shown from this number on.
LEAST_SHOWN = 1_000_000
WIDTH = shutil.get_terminal_size().columns


class Moving:
    """The row of a transfer, if a callback draws rows. `subject`: the step, and what is transferred."""

    def __init__(self, host: str, subject: str) -> None:
        self._host = host
        self._name, _blank, self._what = subject.partition(" ")

    def show_line(self, text: str) -> None:
        """Show a separate line."""
        display.row(Row(self._host, NOTE, text=f"{self._name} {self._what}: {text}", news=True))

    def events(self, events: Iterable[Event]) -> None:
        """Show the progress."""
        for event in events:
            display.row(Row(self._host, RUNNING, self._name, self._what, detail=event.text, fraction=event.fraction))

    def flush(self) -> None:
        """Does nothing: no events are kept, and the task's result ends the row."""


def screen(host: str, subject: str, alone: bool) -> Progress | Moving:
    """The display of a transfer. `alone`: no other host writes lines in between."""
    if display.draws:
        return Moving(host, subject)
    made = Progress(
        display.display,
        host,
        time.monotonic,
        pace=1.0 if alone and AT_TERMINAL else PACE,
        bar=display.progress if alone and AT_TERMINAL else None,
        width=WIDTH,
    )
    made.subject = subject
    return made


def event(known: Reading) -> Event:
    """The state of a meter as an event."""
    size, there, seconds = known.size, known.bytes, known.seconds
    text = [known.phase]
    if size:
        text.append(f"{amount(there)} of {amount(size)}")
    elif there:
        text.append(amount(there))
    if seconds > 1 and known.done:
        rate = known.done / seconds
        text.append(f"{amount(rate)}/s")
        if size > there:
            text.append(f"{duration((size - there) / rate)} left")
    if not there and known.written >= LEAST_SHOWN:
        text.append(f"{amount(known.written)} written")
        text += [f"{amount(known.written / seconds)}/s"] if seconds > 1 else []
    done, files = known.files_done, known.files
    if files > 1:
        text.append(f"{done} of {files} {known.unit}")
    fraction = there / size if size else done / files if files > 1 else None
    return Event("metrics", ", ".join(text).replace(", ", " ", 1), None if fraction is None else min(1.0, fraction))
