# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format numbers as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median


def spread(values: Sequence[float], digits: int = 2) -> str:
    """`median (least - most)`; a dash if there are no values."""
    if not values:
        return "-"
    return f"**{median(values):.{digits}f}** ({min(values):.{digits}f} - {max(values):.{digits}f})"


def ratio(values: Sequence[float], base: Sequence[float]) -> str:
    """The median of `values` as a multiple of the median of `base`."""
    if not values or not base or median(base) == 0:
        return "-"
    times = median(values) / median(base)
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}"


def more(values: Sequence[float], base: Sequence[float]) -> str:
    """The difference between the medians of `values` and `base`."""
    return f"{median(values) - median(base):+.2f}" if values and base else "-"


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table. None becomes a dash."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join("-" if cell is None else str(cell) for cell in line) + " |\n" for line in lines)
