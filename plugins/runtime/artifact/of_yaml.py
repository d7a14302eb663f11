# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of format `yaml`: one map; with PyYAML where the job's Python has it, else nested `key: value` lines."""

from __future__ import annotations

import re

from artifact.values import checked_numbers, scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def of_yaml(content: bytes) -> dict[str, Any]:
    text = content.decode("utf-8")
    # A map that was cut off is often a map as well: the last line at least is whole.
    if not text.endswith("\n"):
        raise ValueError("is incomplete: its last line does not end")
    try:
        import yaml
    except ImportError:
        return checked_numbers(plain_yaml(text))
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise ValueError(f"must be a YAML map, not a {type(document).__name__}")
    return checked_numbers(document)


def plain_yaml(text: str) -> dict[str, Any]:
    """Nested maps of scalars. Lists and flow collections are kept as text: nothing is required of them."""
    result: dict[str, Any] = {}
    levels = [(-1, result)]
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or line in ("---", "..."):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if line.lstrip().startswith("- "):
            continue
        match = re.fullmatch(r" *(\"[^\"]*\"|'[^']*'|[^\s:#'\"\[{&*!|>%@`-][^:#]*|[^\s:]+) *:(?: +(.*))?", line)
        if match is None:
            raise ValueError(f"cannot be read without PyYAML: line {number} is not `key: value`")
        while levels[-1][0] >= indent:
            levels.pop()
        key, value = match[1].strip().strip("\"'"), (match[2] or "").strip()
        holder = levels[-1][1]
        if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
            holder[key] = value[1:-1]
        else:
            value = re.sub(r"(^|\s)#.*$", "", value).strip()
            holder[key] = scalar(value)
            if not value:
                holder[key] = {}
                levels.append((indent, holder[key]))
    return result
