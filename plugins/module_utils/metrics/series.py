# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A metric over the steps of a launch in bounded memory, and quantiles of many values. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult

# A metric keeps at most twice as many points, the quantiles of a rank twice as many values.
POINTS, SAMPLES = 600, 1024
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass
class Point:
    """Neighbouring values of one attempt: the last of them, and the lowest and the highest. None: not a number."""

    step: int
    time: float | None
    value: float | None
    low: float | None
    high: float | None
    attempt: int

    def join(self, step: int, time: float | None, value: float | None, low: float | None, high: float | None) -> None:
        """Add the next point to this one. A value that is not a number stays visible."""
        self.step, self.time = step, time
        self.value = None if self.value is None else value
        if low is not None and (self.low is None or low < self.low):
            self.low = low
        if high is not None and (self.high is None or high > self.high):
            self.high = high


@dataclass
class Series:
    """A metric. `width`: how many values a point stands for; it doubles whenever there are too many points."""

    points: list[Point] = field(default_factory=list)
    width: int = 1
    count: int = 0
    not_numbers: int = 0
    first_not_a_number: int | None = None
    _open: int = 0

    def add(self, step: int, time: float | None, value: float, attempt: int) -> None:
        """Add the next value."""
        self.count += 1
        number = value if math.isfinite(value) else None
        if number is None:
            self.not_numbers += 1
            if self.first_not_a_number is None:
                self.first_not_a_number = step
        if self._open and self._open < self.width and self.points[-1].attempt == attempt:
            self.points[-1].join(step, time, number, number, number)
            self._open += 1
            return
        self.points.append(Point(step, time, number, number, number, attempt))
        self._open = 1
        if len(self.points) > 2 * POINTS:
            self.halve()

    def extend(self, later: Series) -> None:
        """Append the points of a later attempt, whose points stand for as many values or fewer."""
        self.points += later.points
        self.count += later.count
        self.not_numbers += later.not_numbers
        if self.first_not_a_number is None:
            self.first_not_a_number = later.first_not_a_number
        self._open = 0
        while len(self.points) > 2 * POINTS and self.width < 1 << 40:
            self.halve()

    def halve(self) -> None:
        """Join neighbouring points of an attempt, so that half of them remain."""
        halved: list[Point] = []
        index = 0
        while index < len(self.points):
            point = self.points[index]
            after = self.points[index + 1] if index + 1 < len(self.points) else None
            joins = after is not None and after.attempt == point.attempt
            if after is not None and joins:
                point.join(after.step, after.time, after.value, after.low, after.high)
            halved.append(point)
            index += 2 if joins else 1
        self.points, self.width, self._open = halved, 2 * self.width, self._open and 2 * self.width

    def as_dict(self) -> ModuleResult:
        """The columns as modules return them."""
        return {
            "steps": [point.step for point in self.points],
            "times": [None if point.time is None else round(point.time, 2) for point in self.points],
            "values": [_short(point.value) for point in self.points],
            "low": [_short(point.low) for point in self.points] if self.width > 1 else [],
            "high": [_short(point.high) for point in self.points] if self.width > 1 else [],
            "attempts": [point.attempt for point in self.points],
            "count": self.count,
            "not_numbers": self.not_numbers,
            "first_not_a_number": self.first_not_a_number,
        }


@dataclass
class Spread:
    """The distribution of many values: of too many, every second one is kept, then every fourth, and so on."""

    values: list[float] = field(default_factory=list)
    count: int = 0
    highest: float = -math.inf
    _every: int = 1

    def add(self, value: float) -> None:
        """Add a value. What is not a number is left out."""
        if not math.isfinite(value):
            return
        self.highest = max(self.highest, value)
        if self.count % self._every == 0:
            self.values.append(value)
            if len(self.values) > 2 * SAMPLES:
                self.values, self._every = self.values[::2], 2 * self._every
        self.count += 1

    def quantiles(self) -> list[float]:
        """The quantiles, and the highest value at the end; empty without values."""
        if not self.values:
            return []
        ordered = sorted(self.values)
        return [*(ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in QUANTILES), self.highest]


def _short(value: float | None) -> float | None:
    """Six significant digits, which are enough for a chart."""
    return None if value is None else float(f"{value:.6g}")
