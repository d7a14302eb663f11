# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the screen shows, as data: one row a step of a launch, and which rows are still running. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import Parameters

#: States of a row. The running ones change in place at a terminal; every other one is printed once and stays.
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
# Without a terminal: a running row gets its first line after so many seconds, a line with news no sooner than so many
# seconds after the one before, and a line although nothing is new after so many.
FIRST_LINE = 2.0
NEXT_LINE = 10.0
SILENCE = 60.0
# A task that says nothing itself appears after so many seconds.
TASK_SECONDS = 1.0


@dataclass(frozen=True)
class Row:
    """One line of the screen. `name`: of the step, such as `code`; rows of one host and name follow each other.

    `text` comes first, `detail` after the bar. `right`: at the right edge. `seconds`: how long it took; the screen
    counts itself where that is not given. `timed`: its time is shown. `fraction`: the part that is done. `ends`,
    `heard`: when it should be done, and when the last line came (time.monotonic, one clock for all processes).
    `stands`: that it stands still; `heard` is then of the last step. `news`: worth a line of its own in a pipe at once.
    `once`: nothing new where its step was shown since the last head; a head that is shown already is not repeated.
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
    stands: str = ""
    timed: bool = True
    news: bool = False
    once: bool = False


_FIELDS = frozenset(field.name for field in fields(Row))


def row_of(document: Parameters) -> Row | None:
    """A row from its JSON; None where that is no row."""
    if not {"host", "state"} <= document.keys() <= _FIELDS:
        return None
    return Row(**document)


@dataclass
class Running:
    """A row that has not ended: since when, and when a line about it was last printed where there is no terminal."""

    row: Row
    began: float
    printed: float
    shown: str = ""


@dataclass(frozen=True)
class Task:
    """A task that runs on a host, for the time in which it says nothing itself."""

    row: Row
    began: float


class Board:
    """Which rows run on which hosts. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], Running] = {}
        self._tasks: dict[str, Task] = {}
        self._heads: dict[str, Row] = {}
        self._heard: dict[str, float] = {}
        self._shown: dict[str, set[str]] = {}

    def begin_task(self, row: Row, now: float) -> None:
        """A task begins on the row's host."""
        self._tasks[row.host] = Task(row, now)

    def end_task(self, host: str, now: float) -> float | None:
        """It has ended; how many seconds it took."""
        task = self._tasks.pop(host, None)
        return None if task is None else now - task.began

    def take(self, row: Row, now: float) -> Row | None:
        """Take in a row. One that is to be printed for good comes back."""
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
        """Forget what runs on a host: it failed, and said so."""
        for place in [place for place in self._running if place[0] == host]:
            del self._running[place]

    def running(self, now: float) -> list[Running]:
        """What a terminal shows below the lines that stay: the rows, and tasks that have said nothing for a moment."""
        busy = {host for host, _name in self._running}
        quiet = [
            Running(task.row, task.began, task.began)
            for host, task in self._tasks.items()
            if host not in busy and now - task.began >= TASK_SECONDS
        ]
        return [*self._running.values(), *quiet]

    def due(self, now: float) -> list[Running]:
        """The running rows that deserve a line of their own where there is no terminal."""
        found = []
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
                found.append(running)
        return found

    def rest(self) -> list[Row]:
        """The rows that run, at the end of everything."""
        rows = [running.row for running in self._running.values()]
        self._running.clear()
        self._tasks.clear()
        return rows


def settings(environment: Mapping[str, str], terminal: bool) -> tuple[bool, bool]:
    """(live, colours): whether rows may change in place, and whether the terminal's own way allows colours.

    `terminal`: whether the output is one. Colours that Ansible forces or forbids are its own setting.
    """
    capable = terminal and environment.get("TERM", "") not in ("", "dumb")
    # CI systems have terminals whose lines nobody can overwrite.
    live = capable and environment.get("CI", "").lower() in ("", "0", "false")
    return live, capable and not environment.get("NO_COLOR")
