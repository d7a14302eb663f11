# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The traceback of a Python program in the fetched logs of its ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_HEAD = "Traceback (most recent call last):"
#: Between an exception and the one that it has led to.
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
#: Bytes from the end of a log that are looked at, and characters of a traceback that are kept.
_TAIL, MOST = 1 << 20, 1 << 16


def traceback_of(logs: Sequence[Path], ranks: Sequence[int] = ()) -> str:
    """The last traceback in the log of one of these ranks, or else of any, with those that have led to it; else ""."""
    wanted = [log for rank in ranks for log in logs if re.fullmatch(rf"rank-0*{rank}\.log", log.name)]
    # The newest attempt is in the folder with the highest number.
    by_attempt = sorted(logs, key=lambda log: (not log.name.startswith("rank-"), -_number(log.parent.name), log.name))
    for log in [*sorted(wanted, key=lambda log: -_number(log.parent.name)), *by_attempt]:
        if found := _last(log):
            return found
    return ""


def _number(name: str) -> int:
    return int(name) if name.isdecimal() else -1


def _last(log: Path) -> str:
    with log.open("rb") as stream:
        stream.seek(0, 2)
        stream.seek(max(0, stream.tell() - _TAIL))
        lines = stream.read().decode("utf-8", "replace").splitlines()
    heads = [number for number, line in enumerate(lines) if line == _HEAD]
    if not heads:
        return ""
    first = last = heads[-1]
    while first >= 2 and (before := [head for head in heads if head < first]):
        if not any(line in _CHAINED for line in lines[before[-1] : first]):
            break
        first = before[-1]
    # Frames are indented, the exception is not; the rest of its message has no mark of its own.
    end = next((number for number in range(last + 1, len(lines)) if not lines[number].startswith(" ")), last)
    return "\n".join(lines[first : end + 1])[-MOST:]
