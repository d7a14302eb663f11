# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of format `json`: one object, NaN and Infinity refused. Standard library only."""

from __future__ import annotations

import json
import math

from artifact.values import DIGITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def finite(text: str) -> float:
    """A JSON number. One too large for a float would become infinite, and prove as little as NaN."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def whole(text: str) -> int:
    """A whole number of JSON. The time to read one grows with the square of its digits."""
    if len(text) > DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)


def of_json(content: bytes) -> dict[str, Any]:
    try:
        # NaN and Infinity are Python's own extension: a NaN loss would pass as a number and prove nothing.
        document = json.loads(
            content.decode("utf-8"), parse_constant=refuse_constant, parse_float=finite, parse_int=whole
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"must be a JSON object, not a {type(document).__name__}")
    return document
