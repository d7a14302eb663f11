# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger of a launch: what the time of its nodes went to, over all attempts. Pure.

The nodes that Slurm gave the launch are divided into parts that add up to the whole, because each allocation is covered
from its begin to its end by segments that follow each other. Waiting in the queue holds no nodes and is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration, significant
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Allocation
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import (
    CHECKPOINTS,
    IDLE,
    LOST,
    PARTS,
    ROLES,
    SETUP,
    STALLS,
    STARTUP,
    STEPS,
    UNKNOWN,
    AttemptTimes,
    Limits,
    Segment,
    divided,
)

# The batch script begins at most this many seconds before or after what Slurm records.
SLACK = 15.0
# The names of the parts in a sentence. Of an attempt, what is not known is where the steps are in the time it ran.
WORDS = {LOST: "lost to a restart", STALLS: "stalled", IDLE: "idle at the end"}
UNTIMED = {UNKNOWN: "running (no times of steps)"}
# The columns of the ledger as CSV.
COLUMNS = ("part", "node_seconds", "node_hours", "gpu_hours", "share")


def held_seconds(allocation: Allocation) -> float:
    """For how many seconds an allocation held its nodes."""
    length = max(0.0, (allocation.ended or allocation.began) - allocation.began)
    return length if allocation.elapsed is None else min(length, allocation.elapsed)


@dataclass(frozen=True)
class Ledger:
    """What the time of a launch's nodes went to.

    `parts`: node-seconds by part (PARTS), None for a part that is not known; then its time is in another part, or
    under "not known". `queue`: seconds in the queue, with no nodes. `accounted`: the allocations are those of Slurm's
    accounting. `segments`: the time of each allocation, divided. `attempts`: what they were divided by.
    """

    node_seconds: float
    parts: Mapping[str, float | None]
    queue: float | None = None
    gpu_seconds: float | None = None
    joules: int | None = None
    user: str = ""
    account: str = ""
    accounted: bool = False
    allocations: Sequence[Allocation] = ()
    segments: Sequence[Segment] = field(default=(), repr=False)
    attempts: Sequence[AttemptTimes] = field(default=(), repr=False)

    def share(self, part: str) -> float | None:
        """A part's share of the whole; None if it is not known."""
        seconds = self.parts[part]
        return seconds / self.node_seconds if seconds is not None and self.node_seconds else None

    @property
    def sentence(self) -> str:
        """The ledger in one line; empty where no nodes were held."""
        if not self.node_seconds:
            return ""
        unit, digits, factor = ("hours", 3, 3600) if self.node_seconds >= 3600 else ("minutes", 2, 60)
        amount = f"{significant(self.node_seconds / factor, digits)} node-{unit}"
        shares = sorted(((self.share(part) or 0.0, part) for part in PARTS), key=lambda pair: -pair[0])
        words = {**WORDS, **UNTIMED} if self.attempts else WORDS
        gates = dict.fromkeys(name for attempt in self.attempts for name in attempt.waited_for)
        words = {**words, ROLES: f"waiting for {' and '.join(gates)}"} if gates else words
        shown = [f"{100 * share:.0f} % {words.get(part, part)}" for share, part in shares if share >= 0.005]
        of_roles = self.of_roles()
        roles = ", ".join(f"{row['role']} {significant(row['node_seconds'] / factor, digits)}" for row in of_roles)
        roles = f"; node-{unit} of roles: {roles}" if len(of_roles) > 1 else ""
        queue = f"; queue {duration(self.queue)}" if self.queue is not None and self.queue >= 1 else ""
        return f"{amount}: {', '.join(shown)}{roles}{queue}"

    def of_roles(self) -> list[ModuleResult]:
        """The node-seconds of each role over all attempts. Roles on the same nodes each count their time there."""
        names = dict.fromkeys(name for attempt in self.attempts for name in attempt.of_roles)
        sums = {name: sum(attempt.of_roles.get(name, 0.0) for attempt in self.attempts) for name in names}
        return [{"role": name, "node_seconds": round(seconds, 3)} for name, seconds in sums.items()]

    def rows(self) -> list[ModuleResult]:
        """A row for each part, with the columns COLUMNS. The shares add up to 1."""
        rows = []
        for part in PARTS:
            seconds, share = self.parts[part], self.share(part)
            gpus = None if self.gpu_seconds is None or share is None else self.gpu_seconds * share / 3600
            hours = None if seconds is None else seconds / 3600
            rows.append(dict(zip(COLUMNS, (part, seconds, hours, gpus, share))))
        return rows

    def as_dict(self) -> ModuleResult:
        """The ledger as modules return it."""
        return {
            "node_seconds": round(self.node_seconds, 3),
            "node_hours": self.node_seconds / 3600,
            "gpu_hours": None if self.gpu_seconds is None else self.gpu_seconds / 3600,
            "energy_joules": self.joules,
            "queue_seconds": self.queue,
            "user": self.user,
            "account": self.account,
            "accounted": self.accounted,
            "parts": self.rows(),
            "roles": self.of_roles(),
            "allocations": [asdict(allocation) for allocation in self.allocations],
            "sentence": self.sentence,
        }


def ledger(
    allocations: Sequence[Allocation],
    attempts: Sequence[AttemptTimes],
    *,
    limits: Limits,
    submitted: float | None = None,
    accounted: bool = False,
) -> Ledger:
    """The ledger of a launch. Each allocation has an end. `submitted`: when it was first submitted.

    `accounted`: the allocations are those of Slurm's accounting.
    """
    allocations = with_missing(allocations, attempts, complete=accounted)
    sums = dict.fromkeys(PARTS, 0.0)
    segments: list[Segment] = []
    for index, allocation in enumerate(allocations):
        own = [attempt for attempt in attempts if _place(attempt, allocations, complete=True) == index]
        covered = shortened(covering(allocation, own, limits), held_seconds(allocation))
        for segment in covered:
            sums[segment.part] += (segment.ended - segment.began) * allocation.nodes
        segments += covered
    gpus = [allocation.gpus for allocation in allocations]
    joules = [allocation.joules for allocation in allocations]
    return Ledger(
        node_seconds=sum(sums.values()),
        parts=_known(sums, attempts),
        queue=_queue(allocations, submitted),
        gpu_seconds=None if None in gpus else sum(held_seconds(a) * (a.gpus or 0) for a in allocations),
        joules=None if None in joules or not joules else sum(count or 0 for count in joules),
        user=next((allocation.user for allocation in allocations if allocation.user), ""),
        account=next((allocation.account for allocation in allocations if allocation.account), ""),
        accounted=accounted,
        allocations=allocations,
        segments=segments,
        attempts=attempts,
    )


def with_missing(
    allocations: Sequence[Allocation], attempts: Sequence[AttemptTimes], *, complete: bool
) -> list[Allocation]:
    """The allocations in the order of time, with those of attempts that Slurm no longer knows, from the attempts.

    `complete`: Slurm knows all allocations of each job that it knows.
    """
    known = sorted(allocations, key=lambda allocation: allocation.began)
    made: list[Allocation] = []
    for attempt in attempts:
        if _place(attempt, known, complete=complete) is not None:
            continue
        began, ended = attempt.began, max(attempt.began, attempt.ended)
        if attempt.same_job and made and made[-1].job_id == (attempt.job_id or ""):
            made[-1] = replace(made[-1], ended=ended, nodes=max(made[-1].nodes, attempt.nodes))
        else:
            made.append(Allocation(attempt.job_id or "", began, ended, attempt.nodes))
    return sorted([*known, *made], key=lambda allocation: allocation.began)


def covering(allocation: Allocation, attempts: Iterable[AttemptTimes], limits: Limits) -> list[Segment]:
    """Segments that cover an allocation from its begin to its end. Before an attempt, the job is set up for it."""
    at, end = allocation.began, max(allocation.began, allocation.ended or 0.0)
    segments: list[Segment] = []
    for attempt in sorted(attempts, key=lambda attempt: attempt.attempt):
        for segment in divided(attempt, limits):
            began, ended = min(max(segment.began, at), end), min(max(segment.ended, at), end)
            if began > at:
                segments.append(Segment(SETUP, at, began, attempt.attempt))
            if ended > began:
                segments.append(replace(segment, began=began, ended=ended))
            at = max(at, ended)
    if end > at:
        # The end of the script, or nothing is known of the allocation.
        last = segments[-1].part if segments else UNKNOWN
        rest = last if last in (UNKNOWN, LOST, STALLS) else IDLE
        segments.append(Segment(rest, at, end, segments[-1].attempt if segments else None))
    return segments


def shortened(segments: Sequence[Segment], seconds: float) -> list[Segment]:
    """The segments without the time for which the job was suspended: it looks like a stall, else like a long step."""
    over = sum(segment.ended - segment.began for segment in segments) - seconds
    result = list(segments)
    for part in (STALLS, UNKNOWN, STEPS, LOST, IDLE, CHECKPOINTS, STARTUP, ROLES, SETUP):
        for index, segment in enumerate(result):
            if segment.part == part and over > 0:
                cut = min(over, segment.ended - segment.began)
                result[index] = replace(segment, ended=segment.ended - cut)
                over -= cut
    return result


def _place(attempt: AttemptTimes, allocations: Sequence[Allocation], *, complete: bool) -> int | None:
    """Which allocation an attempt belongs to: the newest one that had begun and was not over.

    `complete`: all allocations of its job are known, so it belongs to the nearest one of them in any case.
    """
    for index in reversed(range(len(allocations))):
        allocation = allocations[index]
        if allocation.began - SLACK <= attempt.began < max(allocation.ended or 0.0, allocation.began + 1.0):
            return index
    same = [index for index, allocation in enumerate(allocations) if allocation.job_id == attempt.job_id]
    return (
        min(same, key=lambda index: abs(allocations[index].began - attempt.began), default=None) if complete else None
    )


def _known(sums: Mapping[str, float], attempts: Sequence[AttemptTimes]) -> dict[str, float | None]:
    """The sums, with None for what the logs do not tell."""
    parts: dict[str, float | None] = dict(sums)
    steps = any(attempt.times.steps for attempt in attempts)
    unknown = [] if steps else [STARTUP, STEPS, LOST, CHECKPOINTS, STALLS, IDLE]
    if not any(attempt.waited_for for attempt in attempts):
        unknown.append(ROLES)
    if not any(attempt.ranks is not None and attempt.began <= attempt.ranks <= attempt.ended for attempt in attempts):
        unknown.append(SETUP)
    if not any(attempt.times.saves for attempt in attempts):
        unknown.append(CHECKPOINTS)
    if any(attempt.followed and (attempt.resumed is None or not attempt.times.steps) for attempt in attempts):
        unknown.append(LOST)
    # What has been counted all the same is known at least that much.
    return {part: None if part in unknown and not parts[part] else parts[part] for part in PARTS}


def _queue(allocations: Sequence[Allocation], submitted: float | None) -> float | None:
    """Seconds in the queue before the first allocation, and between two of them."""
    if not allocations:
        return None
    first = submitted if submitted is not None else allocations[0].submitted
    waited = 0.0 if first is None else max(0.0, allocations[0].began - first)
    ends = allocations[0].ended or 0.0
    for allocation in allocations[1:]:
        waited += max(0.0, allocation.began - ends)
        ends = max(ends, allocation.ended or 0.0)
    return waited
