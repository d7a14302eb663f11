# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger of a launch from its run directory, its logs and, where a caller asks for it, accounting. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_files import step_times
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import Span
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import STALL_FACTOR, STALL_SECONDS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Allocation, LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.steps import is_step
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.accounting import accounted
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_spans import AttemptSpan, attempt_spans
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import AttemptTimes, Limits
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import Ledger, ledger
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.step_times import (
    MOST_BYTES,
    StepTimes,
    read_step_times,
)

# The steps of at most this many attempts are read, the newest ones.
MOST_ATTEMPTS = 32


@dataclass(frozen=True)
class Reading:
    """From when on a step is a stall, how many bytes of the logs of all attempts are read, and who is told why logs
    cannot be read.
    """

    limits: Limits = Limits(STALL_FACTOR, STALL_SECONDS)
    most: int = MOST_BYTES
    told: Callable[[str], object] = lambda _why: None


USUAL = Reading()


def ledger_of(run: RunDirectory, launch: LaunchReport, now: float, slurm: Slurm, reading: Reading = USUAL) -> Ledger:
    """The ledger of a launch. Accounting is asked with one command. `now`: the end of a launch that runs.

    Raises `Untrusted` for files that another user could have written.
    """
    rows = accounted(slurm, job_ids(launch), submitted(launch.journal))
    return ledger_with(run, launch, now, rows, reading)


def ledger_with(
    run: RunDirectory,
    launch: LaunchReport,
    now: float,
    rows: Mapping[str, Sequence[Allocation]] | None,
    reading: Reading = USUAL,
) -> Ledger:
    """The ledger of a launch with the allocations that accounting has told, by job id; None: it did not answer."""
    known = [allocation for job_id in job_ids(launch) for allocation in (rows or {}).get(job_id, ())]
    return ledger(
        _ended(known or launch.allocations, (launch.finished_at if launch.completed else None) or now),
        with_steps(run.shown("logs"), attempt_spans(run, launch, now), reading, run.shown("work")),
        limits=reading.limits,
        submitted=submitted(launch.journal),
        accounted=bool(known),
    )


def ledger_of_result(result: Parameters, logs: Beneath) -> Ledger:
    """The ledger of a launch that has ended, on the controller. `result`: that of module job_wait; `logs`: its logs."""
    return ledger(
        _ended([Allocation(**row) for row in result["allocations"]], result["finished_at"] or 0.0),
        with_steps(logs, [AttemptSpan(**span) for span in result["spans"]], USUAL),
        limits=USUAL.limits,
        submitted=submitted(result["journal"]),
    )


def job_ids(launch: LaunchReport) -> list[str]:
    """The jobs of a launch, which are accounted by themselves. A step in another job is not."""
    ids = [launch.job_id, *(row.job_id for row in launch.attempts)]
    ids += [event.get("job_id") for event in launch.journal if event["event"] in ("submitted", "adopted")]
    return list(dict.fromkeys(job_id for job_id in ids if job_id and not is_step(job_id)))


def submitted(journal: Sequence[Mapping[str, object]]) -> float | None:
    """When a launch was first submitted (epoch seconds), from its journal."""
    times = [event.get("time") for event in journal if event["event"] in ("submitted", "intent")]
    return min((float(moment) for moment in times if isinstance(moment, (int, float))), default=None)


def with_steps(
    logs: Beneath, spans: Sequence[AttemptSpan], reading: Reading, work: Beneath | None = None
) -> list[AttemptTimes]:
    """The attempts with their steps, which are read for the newest MOST_ATTEMPTS of them, `reading.most` bytes in all.

    `work`: where the program may have written metrics, for attempts whose logs do not tell the times of steps.
    """
    resumed: int | None = None
    most = reading.most
    result: list[AttemptTimes] = []
    rows: list[tuple[int, float, bool]] | None = None
    for span in reversed(spans):
        attempt = AttemptTimes(**vars(span), resumed=resumed)
        if len(result) < MOST_ATTEMPTS:
            root = logs.below(str(span.attempt))
            about = Span(span.attempt, span.began, span.ended)
            steps = StepTimes()
            # The hours are known without them.
            with one_alone(reading.told):
                steps = read_step_times(root, about, most // min(len(spans), MOST_ATTEMPTS))
                if not steps.steps and work is not None:
                    rows = step_times(work, most) if rows is None else rows
                    steps = replace(steps, steps=[row for row in rows if span.began <= row[1] <= span.ended])
            attempt = replace(attempt, times=steps)
            resumed = steps.steps[0][0] if steps.steps else resumed
        result.append(attempt)
    return result[::-1]


def _ended(allocations: Sequence[Allocation], end: float) -> list[Allocation]:
    """The allocations of jobs, not of steps in other jobs. `end`: that of an allocation that has none yet."""
    own = [allocation for allocation in allocations if not is_step(allocation.job_id)]
    return [replace(held, ended=max(end, held.began), elapsed=None) if held.ended is None else held for held in own]
