# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and bandwidths as text for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, thing: str) -> str:
    """A number with its noun, in the plural except for 1."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def shown_size(size: int) -> str:
    """Bytes as 64K or 16M; a size that is not a multiple of 1K is shown as it is."""
    for unit, bits in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << bits and not size % (1 << bits):
            return f"{size >> bits}{unit}"
    return str(size)


def shown_speed(speed: float) -> str:
    """Bytes per second as GB/s (10^9, the unit of nccl-tests) or MB/s (10^6)."""
    if speed >= 1e9:
        return f"{speed / 1e9:.1f} GB/s"
    return f"{speed / 1e6:.0f} MB/s" if speed >= 1e7 else f"{speed / 1e6:.2f} MB/s"


def shown_time(seconds: float) -> str:
    """Seconds as us, ms or s."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns. The last cell of a line is not padded."""
    wide = [max(len(row[place]) for row in rows if len(row) > place) for place in range(max(map(len, rows)))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, wide)).rstrip() for row in rows]
