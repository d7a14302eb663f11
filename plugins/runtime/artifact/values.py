# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as artifacts have them, and the limits of what is read. Standard library only."""

from __future__ import annotations

import math
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# What is read whole has at most so many bytes: objects take a multiple of it of the job's memory.
MOST_BYTES = 8 << 20
# A whole number has at most so many digits.
DIGITS = 40


def scalar(text: str) -> str | float | bool | None:
    """A plain value as YAML 1.2 reads it."""
    if re.fullmatch(r"[-+]?[0-9]+", text) and len(text) <= DIGITS:
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return {"true": True, "false": False, "null": None, "~": None, "": None}.get(text.lower(), text)


def checked_numbers(document: dict[str, Any]) -> dict[str, Any]:
    """The same document. A number that is not finite proves nothing."""
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"contains {value}, which is not a finite number")
    return document
