# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format rows as lines of text, for any width, with and without colours. Pure."""

from __future__ import annotations

import textwrap
import unicodedata
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import (
    BAD,
    FAILED,
    GOOD,
    HEAD,
    OK,
    RUNNING,
    WARNING,
    Row,
)

MARKS = {RUNNING: ">  ", OK: "ok ", FAILED: "!! ", WARNING: "!  "}
COLOURS = {RUNNING: "36", OK: "32", FAILED: "31", WARNING: "33", GOOD: "32", BAD: "31", HEAD: "1"}
STANDS = "33"
FAINT = "2"
# Width of a step's name, and the column of the right edge on a wide terminal.
NAME = 9
EDGE = 100
# Without a terminal, lines may have any length, and the right edge is here.
PLAIN_EDGE = 79
BAR = 10
# From this age (seconds) of its last line on, a running row shows it before anything else.
OLD = 30
# Minimum width of a line, even if the terminal reports less.
NARROWEST = 20


def columns(text: str) -> int:
    """The number of terminal columns that a text occupies."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The beginning of a text that fits into `width` columns."""
    if columns(text) <= width:
        return text
    shown, taken = "", 3
    for character in text:
        taken += _columns(character)
        if taken > width:
            break
        shown += character
    return shown + "..."


def clock(seconds: float) -> str:
    """The elapsed time of something that still runs: `0:14`, `1:02:05`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def span(seconds: float) -> str:
    """A duration, past or expected: `0.8 s`, `14 s`, `3 min 05 s`, `2 h 07 min`."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else duration(seconds)


@dataclass(frozen=True)
class Layout:
    """How rows become lines. `width`: of the terminal; None without one. `hosts`: the length of the longest host name
    if there are several hosts, whose rows then begin with their names.
    """

    width: int | None = None
    colour: bool = False
    hosts: int = 0

    def lines(self, row: Row) -> list[str]:
        """The lines of a finished row. A terminal's lines are wrapped between words; a pipe's keep their length."""
        mark, body, indent = self._parts(row, [row.text, row.detail])
        right = row.right or (span(row.seconds) if row.seconds is not None and row.name and row.timed else "")
        right = printable(right)
        edge = PLAIN_EDGE if self.width is None else min(self._room, EDGE)
        gap = edge - columns(mark + body) - columns(right)
        if right and gap >= 2:
            return [self._painted(row, mark, body, " " * gap + right)]
        room = None if self.width is None else self._room
        right = f"  {right}" if right else ""
        if room is None or columns(mark + body + right) <= room:
            return [self._painted(row, mark, body, right)]
        pieces = textwrap.wrap(
            body + right,
            max(NARROWEST, room - columns(mark)),
            subsequent_indent=" " * (indent - columns(mark)),
            break_long_words=False,
            break_on_hyphens=False,
        )
        first, *rest = pieces or [""]
        return [
            self._painted(row, mark, first, ""),
            *(self._painted(row, " " * columns(mark), line, "") for line in rest),
        ]

    def running(self, row: Row, elapsed: float, now: float) -> str:
        """A running row as one line. If it does not fit, the least important parts are left out first."""
        detail = "  ".join(part for part in (row.detail, row.stands) if part)
        left = _left(row, now)
        heard = (
            ""
            if row.heard is None
            else f"last {'step' if row.stands else 'line'} {duration(max(0.0, now - row.heard))} ago"
        )
        times = [clock(elapsed) if elapsed >= 1 else "", left, heard]
        progress = "" if row.fraction is None else _bar(row.fraction)
        tries = [
            [_joined(row.text, progress), detail, _listed(times)],
            [row.text, detail, _listed(times)],
        ]
        if row.heard is not None and (row.stands or now - row.heard >= OLD):
            # How old it is matters more than the rest.
            ages = ([times[0], heard], [heard])
            tries += [[row.text, row.stands, _listed(each)] for each in (times, *ages)] + [[row.text, heard]]
        tries += [
            [row.text, detail, _listed(times[:2])],
            [row.text, detail, _listed(times[:1])],
            [row.text, row.stands, _listed(times[:1])],
            [row.text, _listed(times[:1])],
        ]
        for parts in tries:
            mark, body, _indent = self._parts(row, parts)
            if self.width is None or columns(mark + body) <= self._room:
                return self._painted(row, mark, body, "")
        return self._painted(row, mark, cut(body, self._room - columns(mark)), "")

    @property
    def _room(self) -> int:
        # The last column stays empty: a terminal may move to the next line after writing it.
        return max(NARROWEST, (self.width or PLAIN_EDGE) - 1)

    def _parts(self, row: Row, parts: list[str]) -> tuple[str, str, int]:
        """(what precedes the row's text, the text, the column where the text of a step begins)."""
        mark = MARKS.get(row.state, "")
        mark = f" {mark}" if mark else ""
        mark = (printable(row.host).ljust(self.hosts) + "  " if self.hosts else "") + mark
        name = printable(row.name, 40)
        text = printable("  ".join(part for part in parts if part))
        # The further lines of a step begin below its text, and those of an indented line a little to the right of it.
        blanks = len(text) - len(text.lstrip())
        indent = columns(mark) + (NAME + 1 if name else blanks + 4 if blanks else 0)
        return mark, f"{name.ljust(NAME)} {text}" if name else text, indent

    def _painted(self, row: Row, mark: str, body: str, right: str) -> str:
        line = (mark + body + right).rstrip()
        if not self.colour:
            return line
        code = STANDS if row.stands else COLOURS.get(row.state)
        if code is None:
            return line
        if mark.strip() and not row.stands and row.state in (OK, RUNNING):
            return f"\x1b[{code}m{mark}\x1b[0m{body}" + (f"\x1b[{FAINT}m{right}\x1b[0m" if right.strip() else "")
        return f"\x1b[{code}m{mark}{body}\x1b[0m{right}"


def _left(row: Row, now: float) -> str:
    """The time until the row should be done, or until the time limit."""
    if row.ends is not None and row.ends > now and not row.stands:
        return f"about {duration(row.ends - now)} left"
    return f"limit in {duration(row.limit - now)}" if row.limit is not None and row.limit > now else ""


def _bar(fraction: float) -> str:
    filled = round(min(1.0, max(0.0, fraction)) * BAR)
    return "#" * filled + "." * (BAR - filled)


def _joined(text: str, progress: str) -> str:
    return f"{text} {progress}".strip()


def _listed(times: list[str]) -> str:
    return ", ".join(part for part in times if part)
