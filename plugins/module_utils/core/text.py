# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format times and names for people, and read the numbers in texts that a job writes. Pure.

A log holds whatever a program prints: hex dumps, ids of thousands of digits, lines of gigabytes. All readers of such
texts use the limits of this file. So the work on a line is bounded, and no number is too large to be computed with.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters

# How many characters of a line are looked at.
LINE_CHARACTERS = 4000
# The digits of a whole number, and of a number before and after its point. What is longer is no number.
DIGITS, DECIMALS = 15, 24
# Parts of regular expressions: a whole number as one group.
WHOLE = rf"(\d{{1,{DIGITS}}})(?!\d)"
# A number with commas, a point and an exponent, or nan or inf, as one group.
NUMBER = (
    rf"([-+]?(?:\d[\d,]{{0,{DECIMALS}}}(?![\d,])(?:\.\d{{0,{DECIMALS}}}(?!\d))?|\.\d{{1,{DECIMALS}}}(?!\d))"
    r"(?:[eE][-+]?\d{1,4}(?!\d))?|nan|inf)"
)
# Before a number that a search may find anywhere: it does not begin within another one.
OUTSIDE = r"(?<![\d.,])"

# The beginning of the line that tells of `code.in_place`, in the plan and on the card.
IN_PLACE = "code in place:"


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is; None for another text, and for more than DIGITS digits."""
    return int(text) if 0 < len(text) <= DIGITS and text.isascii() and text.isdigit() else None


def real_number(text: str) -> float | None:
    """Return the number that a text is, with commas between its digits, nan or inf; None for another text."""
    try:
        return float(text.replace(",", "")) if len(text) <= 3 * DECIMALS else None
    except ValueError:
        return None


def duration(seconds: float | None) -> str:
    """Return seconds as text: `42 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds is None:
        return "unknown"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"


def about(seconds: float) -> str:
    """Return a rounded duration, for estimates: `about 40 s`, `about 12 min`, `about 2 h 07 min`."""
    if seconds < 90:
        return f"about {max(1, round(seconds / 10)) * 10} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {duration(seconds)}"


def amount(size: float) -> str:
    """Return bytes as text: `812 bytes`, `25 kB`, `1.2 GB`."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 1000 else f"{size / 1000:.1f} TB"


def moment(epoch: float, now: float) -> str:
    """Return an epoch time as local time, with the date if it is twelve hours or more from `now`."""
    return time.strftime("%H:%M" if abs(epoch - now) < 12 * 3600 else "%Y-%m-%d %H:%M", time.localtime(epoch))


def difference(header: str, before: str, after: str, after_header: str = "") -> dict[str, str]:
    """Return two texts in the form of Ansible's diff. `header`: what both are, or the first if they differ in that."""
    return {"before_header": header, "after_header": after_header or header, "before": before, "after": after}


def short_list(names: Sequence[str], most: int = 4) -> str:
    """Return a few names, then how many more there are."""
    if len(names) <= most:
        return ", ".join(names) or "none"
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


#: Names, or lines, that a message shows of many.
MOST_LISTED = 8


def node_list(nodes: Sequence[str]) -> str:
    """Return the names of a few nodes for one line, then how many more there are."""
    more = f" and {len(nodes) - MOST_LISTED} more" if len(nodes) > MOST_LISTED else ""
    return " ".join(nodes[:MOST_LISTED]) + more


def last_lines(text: str) -> str:
    """Return the last non-empty lines of a program's output, indented. They usually state the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-MOST_LISTED:])


def significant(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits, and without an exponent for large ones: `1230`, `0.0123`."""
    return f"{float(f'{value:.{digits}g}'):.15g}"


def own_verdict(outcome: Parameters | None) -> str:
    """Return what the job itself said of its end, for people who see a cause from the logs; "" if it said nothing.

    Why nodes were not fit is left out: that is shown in lines of its own.
    """
    told = outcome or {}
    message = str(told.get("message") or "")
    reasons = [f"{node}: {why}" for node, why in (told.get("unfit_nodes") or {}).items()]
    for reason in sorted(reasons, key=len, reverse=True):
        message = message.replace(f"{reason}; ", "").replace(reason, "")
    return "" if message.strip() == "preflight:" else message.strip(" ;")


class Verdict(NamedTuple):
    """The end of a launch: what it said of it itself, and the cause that its logs show. Empty where there is none."""

    own: str
    cause: str

    @property
    def sentence(self) -> str:
        """Both in one sentence, the launch's own words first."""
        return "; ".join(filter(None, self))


def verdict_of(outcome: Parameters | None, cause: str = "", message: str = "") -> Verdict:
    """Return the end of a launch as every place shows it: screen, lists, pages, messages, documents.

    `cause`: what a diagnosis found, or "". `message`: how the launch ended, where neither it nor its logs say more.
    """
    own = own_verdict(outcome) or ("" if cause else message)
    return Verdict(own, "" if cause in own else cause)
