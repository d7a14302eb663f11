# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of the screen as data: one row for each step of a launch, and which rows are still running. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters

#: States of a row. Running rows change in place on a terminal; all others are printed once and stay.
HEAD, RUNNING, OK, FAILED, WARNING, NOTE, GOOD, BAD = (
    "head",
    "running",
    "ok",
    "failed",
    "warning",
    "note",
    "good",
    "bad",
)
#: The text for a step that still runs when the command ends.
LEFT = "no longer watched"
# Without a terminal, in seconds: when a running row gets its first line, the shortest time between lines with news, and
# the time after which a line is printed even without news.
FIRST_LINE = 2.0
NEXT_LINE = 10.0
SILENCE = 60.0
# A task that reports nothing itself is shown after this many seconds.
TASK_SECONDS = 1.0


@dataclass(frozen=True)
class Row:
    """One line of the screen. `name`: the step, such as `code`. Rows with the same host and name replace each other.

    `text` comes first, `detail` after the bar. `right`: text at the right edge. `seconds`: the duration; measured by
    the screen if not given. `timed`: whether its duration is shown. `fraction`: the part that is done. `ends`, `heard`:
    when it should be done, and when the last line arrived (time.monotonic, the same clock for all processes).
    `limit`: when the job's time limit ends it, shown while `ends` is not known. `stands`: text that says that it makes
    no progress; `heard` then refers to the last step. `news`: in a pipe, print a line at once. `once`: print nothing if
    its step was shown since the last head; a head that was shown already is not repeated.
    """

    host: str
    state: str
    name: str = ""
    text: str = ""
    detail: str = ""
    right: str = ""
    seconds: float | None = None
    fraction: float | None = None
    ends: float | None = None
    heard: float | None = None
    limit: float | None = None
    stands: str = ""
    timed: bool = True
    news: bool = False
    once: bool = False


_FIELDS = frozenset(field.name for field in fields(Row))


def row_of(document: Parameters) -> Row | None:
    """A row from its JSON; None if it is not a valid row."""
    if not {"host", "state"} <= document.keys() <= _FIELDS:
        return None
    return Row(**document)


@dataclass
class Running:
    """A running row: its start, and when a line about it was last printed without a terminal."""

    row: Row
    began: float
    printed: float
    shown: str = ""


@dataclass(frozen=True)
class Task:
    """A task that runs on a host, shown while it reports nothing itself."""

    row: Row
    began: float


class Board:
    """The running rows of each host. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], Running] = {}
        self._tasks: dict[str, Task] = {}
        self._heads: dict[str, Row] = {}
        self._heard: dict[str, float] = {}
        self._shown: dict[str, set[str]] = {}

    def begin_task(self, row: Row, now: float) -> None:
        """A task has started on the row's host."""
        self._tasks[row.host] = Task(row, now)

    def end_task(self, host: str, now: float) -> float | None:
        """The host's task has ended. Returns its duration in seconds."""
        task = self._tasks.pop(host, None)
        if task is None:
            return None
        place = host, task.row.name
        if place in self._running and self._running[place].row is task.row:
            # Only its duration made it a row: the result decides whether the task is worth a line.
            del self._running[place]
        return now - task.began

    def end_item(self, host: str, now: float) -> float | None:
        """An item of the host's task has ended, and the next one begins. Returns its duration in seconds."""
        task = self._tasks.get(host)
        if task is None:
            return None
        self._tasks[host] = Task(task.row, now)
        return now - task.began

    def add(self, row: Row, now: float) -> Row | None:
        """Add a row. Returns the row if it is finished and must be printed."""
        place = row.host, row.name
        before = self._running.get(place)
        if row.state == RUNNING:
            if before is None:
                self._running[place] = Running(row, now, now)
            else:
                before.row = row
            return None
        self._heard[row.host] = now
        if row.name and before is not None:
            del self._running[place]
            if row.seconds is None:
                row = replace(row, seconds=now - before.began)
        return row if self._new(row) else None

    def _new(self, row: Row) -> bool:
        shown = self._shown.setdefault(row.host, set())
        if row.state == HEAD:
            if self._heads.get(row.host) == row:
                return False
            self._heads[row.host] = row
            shown.clear()
        elif row.name:
            if row.once and row.name in shown:
                return False
            shown.add(row.name)
        return True

    def drop(self, host: str) -> None:
        """Remove a host's running rows after a failure that was already reported."""
        for place in [place for place in self._running if place[0] == host]:
            del self._running[place]

    def running(self, now: float) -> list[Running]:
        """What a terminal shows below the finished lines: running rows, and tasks that were silent for a moment."""
        busy = {host for host, _name in self._running}
        quiet = [
            Running(task.row, task.began, task.began)
            for host, task in self._tasks.items()
            if host not in busy and now - task.began >= TASK_SECONDS
        ]
        return [*self._running.values(), *quiet]

    def due(self, now: float) -> list[Running]:
        """The running rows for which a line must be printed now, without a terminal."""
        due = []
        busy = {host for host, _name in self._running}
        for host, task in self._tasks.items():
            if host not in busy and now - max(task.began, self._heard.get(host, 0.0)) >= NEXT_LINE:
                place = host, task.row.name
                self._running[place] = Running(task.row, task.began, task.began)
        for running in self._running.values():
            shown = f"{running.row.text} {running.row.detail} {running.row.stands}"
            changed = shown != running.shown
            silent = now - running.printed
            nothing = now - max(running.printed, self._heard.get(running.row.host, 0.0))
            wanted = (running.row.news and changed) or nothing >= SILENCE
            if wanted or (changed and silent >= (NEXT_LINE if running.shown else FIRST_LINE)):
                running.printed, running.shown = now, shown
                due.append(running)
        return due

    def rest(self) -> list[Row]:
        """Remove and return the rows that still run at the end."""
        rows = [running.row for running in self._running.values()]
        self._running.clear()
        self._tasks.clear()
        return rows


def settings(environment: Mapping[str, str], terminal: bool) -> tuple[bool, bool]:
    """(live, colours): whether rows may change in place, and whether the terminal may show colours.

    `terminal`: whether the output is a terminal. Ansible's own colour settings are handled by the caller.
    """
    capable = terminal and environment.get("TERM", "") not in ("", "dumb")
    # CI systems have terminals whose lines cannot be overwritten.
    live = capable and environment.get("CI", "").lower() in ("", "0", "false")
    return live, capable and not environment.get("NO_COLOR")
