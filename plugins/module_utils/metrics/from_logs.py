# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a launch from the logs of its ranks, attempt by attempt, in bounded time and memory.

Of a log that is larger than its share, evenly spaced parts are read. Times come from the lines' time stamps. A clock or
time zone that does not fit the attempt's own times is corrected; without time stamps, times are spread evenly over the
attempt.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import LINE_CHARACTERS
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import mark_of
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics, parse_metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.series import Series, Spread
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import seconds_in, time_in, values_in

# At most this many bytes are read: of all logs together, of one log with metrics, and of one for the times of its steps
# only. A log is read in parts of this size.
MOST_BYTES, MOST_OF_A_LOG, MOST_OF_A_RANK, PART = 96 << 20, 12 << 20, 4 << 20, 256 << 10
# The longest line of a log that the ranks of a node share (runtime/rank/collector.py).
SHARED_CHARACTERS = 1 << 20
# A launch has at most this many metrics; a name is cut.
MOST_METRICS, NAME_CHARACTERS = 40, 80
# The clocks of two hosts may differ by this much (seconds) without a correction.
CLOCK_SLACK = 120.0
# Time zones differ by a multiple of the first number, and at most by the second one (seconds).
ZONE, MOST_ZONES = 1800.0, 26 * 3600.0


@dataclass(frozen=True)
class Span:
    """An attempt: its number, and when it began and ended (epoch seconds; None: unknown)."""

    attempt: int
    began: float | None
    ended: float | None


@dataclass
class MetricSet:
    """The metrics of a launch by name. `dropped`: further names; `estimated`: times without a time stamp."""

    series: dict[str, Series] = field(default_factory=dict)
    dropped: int = 0
    estimated: bool = False
    shifted: float = 0.0
    sampled: bool = False

    def add(self, name: str, step: int, time: float | None, value: float, attempt: int) -> None:
        """Add a value of a metric."""
        name = name[:NAME_CHARACTERS]
        if name not in self.series:
            if len(self.series) >= MOST_METRICS:
                self.dropped += 1
                return
            self.series[name] = Series()
        self.series[name].add(step, time, value, attempt)


@dataclass
class RankSteps:
    """One rank in one attempt: how many lines with steps, the first and the last step, the times of steps, and the
    tokens per second that it has printed.
    """

    rank: int
    lines: int = 0
    first: int | None = None
    last: int | None = None
    seconds: Spread = field(default_factory=Spread)
    throughput: Spread = field(default_factory=Spread)


def parts(root: Beneath, name: str, most: int, rank: int = 0) -> Iterator[tuple[str, bool]]:
    """The lines of a log and whether a line continues the one before; of a large log, those of evenly spaced parts.

    `rank`: the one whose lines are wanted, where the ranks of a node share the log.
    """
    mark = mark_of(name, rank)
    separator, longest = (b"\n", SHARED_CHARACTERS) if mark else (b"[\r\n]", LINE_CHARACTERS)
    try:
        with root.stream(name) as stream:
            size = os.fstat(stream.fileno()).st_size
            count = max(2, most // PART)
            offsets = [0] if size <= most else [index * (size - PART) // (count - 1) for index in range(count)]
            for offset in offsets:
                stream.seek(offset)
                left, rest = (size if len(offsets) == 1 else PART), b""
                follows = offset == 0
                if offset:
                    left -= len(stream.readline(PART))
                while left > 0:
                    block = stream.read(min(PART, left))
                    if not block:
                        break
                    left -= len(block)
                    pieces = re.split(separator, rest + block)
                    rest = pieces.pop()[-longest:]
                    for piece in filter(None, _unmarked(pieces, mark)):
                        yield piece[:LINE_CHARACTERS].decode("utf-8", "replace"), follows
                        follows = True
                if len(offsets) == 1:
                    for piece in filter(None, _unmarked([rest], mark)):
                        yield piece.decode("utf-8", "replace"), follows
    except (OSError, Untrusted):
        return


def _unmarked(pieces: Sequence[bytes], mark: bytes) -> Iterator[bytes]:
    """The lines of one rank without its mark; of a line with carriage returns, each part."""
    if not mark:
        yield from pieces
        return
    for piece in pieces:
        if piece.startswith(mark):
            yield from piece[len(mark) :].split(b"\r")


def read_rank(root: Beneath, name: str, rank: int, most: int) -> RankSteps:
    """The steps of one rank, and the times that they took."""
    steps = RankSteps(rank)
    before: tuple[int, float] | None = None
    for line, follows in parts(root, name, most, rank):
        metrics = parse_metrics(line)
        if metrics is None or metrics.step is None:
            continue
        steps.lines += 1
        steps.first = metrics.step if steps.first is None else steps.first
        steps.last = metrics.step
        if metrics.tokens_per_second is not None:
            steps.throughput.add(metrics.tokens_per_second)
        seconds = seconds_in(line)
        stamp = time_in(line)
        if seconds is None and stamp is not None and before is not None and follows and metrics.step > before[0]:
            seconds = (stamp - before[1]) / (metrics.step - before[0])
        before = (metrics.step, stamp) if stamp is not None else None
        if seconds is not None and seconds >= 0:
            steps.seconds.add(seconds)
    return steps


def read_metrics(into: MetricSet, root: Beneath, name: str, span: Span, rank: int = 0) -> None:
    """Add the metrics in the log of one rank. A step that the log repeats is a restart of the program."""
    known: Metrics | None = None
    own = MetricSet()
    shift: float | None = None
    for line, _follows in parts(root, name, MOST_OF_A_LOG, rank):
        metrics = parse_metrics(line)
        if metrics is None:
            continue
        known = metrics.after(known)
        if known.step is None:
            continue
        stamp = time_in(line)
        if stamp is not None and shift is None:
            shift = clock_shift(stamp, span)
            into.shifted = into.shifted or shift
        moment = None if stamp is None else stamp + (shift or 0.0)
        for key, value in values_in(line, metrics).items():
            own.add(key, known.step, moment, value, span.attempt)
    _merge(into, own, span)


def _merge(into: MetricSet, own: MetricSet, span: Span) -> None:
    into.dropped += own.dropped
    for name, series in own.series.items():
        if all(point.time is None for point in series.points):
            into.estimated = spread_times(series, span) or into.estimated
        if name not in into.series and len(into.series) >= MOST_METRICS:
            into.dropped += series.count
            continue
        kept = into.series.setdefault(name, Series(width=series.width))
        while kept.width < series.width:
            kept.halve()
        kept.extend(series)


def clock_shift(stamp: float, span: Span) -> float:
    """What to add to the time stamps of a log whose first one does not lie within its attempt.

    Another time zone differs by a multiple of half an hour, so the time since the attempt began remains.
    """
    if span.began is None:
        return 0.0
    late = span.ended is not None and stamp > span.ended + CLOCK_SLACK
    if stamp >= span.began - CLOCK_SLACK and not late:
        return 0.0
    zone = math.ceil((span.began - CLOCK_SLACK - stamp) / ZONE) * ZONE
    if abs(zone) <= MOST_ZONES and (span.ended is None or stamp + zone <= span.ended + CLOCK_SLACK):
        return zone
    return span.began - stamp


def spread_times(series: Series, span: Span) -> bool:
    """Spread the points evenly over the attempt; False where its times are not known."""
    if span.began is None or span.ended is None:
        return False
    length, count = span.ended - span.began, len(series.points)
    for index, point in enumerate(series.points, 1):
        point.time = span.began + length * index / count
    return True
