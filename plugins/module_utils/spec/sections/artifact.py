# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract of an artifact: its formats, and the comparisons that a job may require. The check runs in the job."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t


@dataclass(frozen=True)
class Format:
    """A value of `artifact.format`: when the file is complete (`whole`), and what `require` refers to (`values`, or
    "").

    The reader with the same name is in plugins/runtime/artifact/formats.py. It runs in the job, where this file is
    missing.
    """

    name: str
    whole: str
    values: str


FORMATS: tuple[Format, ...] = (
    Format("json", "it is one JSON object", "its values"),
    Format("yaml", "it is one map, and its last line is complete", "its values"),
    Format(
        "csv",
        "its last line is complete and has as many values as the header",
        "the last row, and `rows`",
    ),
    Format(
        "safetensors",
        "it has every byte that its header announces",
        "its metadata, `tensors` (how many) and each tensor's shape",
    ),
    Format(
        "directory",
        "it contains `artifact.complete`, the file that is written last",
        "that file, if it is a JSON object",
    ),
    Format("any", "it is not empty and no longer grows", ""),
)

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_ORDERED = ("lt", "le", "gt", "ge")
# A larger integer is not a finite float.
_LARGEST = 10**300


def _number(value: object) -> float | int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < _LARGEST else math.inf
    if isinstance(value, float):
        return value
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,300}", value):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
        return float(value)
    return None


def _operand(name: str, value: object) -> object:
    number = _number(value)
    if number is not None and not math.isfinite(number):
        raise t.Invalid(f"{name} must be a finite number, not {t.shown(value)}")
    if number is not None:
        # 4 and 4.0 are the same requirement, so they must have the same key.
        return int(number) if number == int(number) else number
    if name in _ORDERED:
        raise t.Invalid(f"{name} must be a number, not {t.shown(value)}")
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    return t.to_text(value)


def _parse(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise t.Invalid(f"must be a map such as {{lt: 4.0}}, not {t.shown(value)}")
    result = {}
    for name, operand in value.items():
        if name not in COMPARISONS:
            raise t.Invalid(
                f"{name}: unknown comparison{t.suggestion(str(name), COMPARISONS)}; known: {', '.join(COMPARISONS)}"
            )
        result[str(name)] = _operand(str(name), operand)
    return result


CONDITIONS = t.Type(
    "comparisons",
    _parse,
    {
        "type": "object",
        "properties": {
            name: {"type": ["number", "string"] if name in _ORDERED else ["number", "string", "boolean"]}
            for name in COMPARISONS
        },
        "additionalProperties": False,
    },
)
