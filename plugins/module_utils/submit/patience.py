# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of launches, for those who submit: the look-up of run/answers.py, with patience.

A submission whose job id was never recorded is looked up by its job name before anything is submitted again. A
submitter that may still be at work, and an outcome that a network file system does not show yet, are waited for.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import Policy, ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import DEFAULT_TIMEOUT, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import lives

# A job that sbatch enqueued while reporting a time-out shows up in the queue within this many seconds.
APPEAR_SECONDS = 10.0
# A submitter that is alive records its job id within this many seconds of its intent, or has given up on sbatch.
INTENT_SECONDS = DEFAULT_TIMEOUT + APPEAR_SECONDS + 5.0
LOOK_SECONDS = 1.0
# How long after a job's end its verdict may take to be seen on this host.
OUTCOME_SECONDS = 60.0


@dataclass(frozen=True)
class Patience(Policy):
    """How a submitter asks. `sleep` and `clock` are injectable for tests."""

    slurm: Slurm
    sleep: Callable[[float], None]
    clock: Callable[[], float]

    def adopt(self, owner: RunDirectory, job_id: str) -> None:
        """Record the job, so that the next look-up knows its id."""
        try:
            owner.record("adopted", job_id=job_id)
        except OSError as error:
            # It can be found out again.
            self.slurm.note(f"{owner.path}: that job {job_id} was adopted cannot be recorded there ({error.strerror})")

    def waits_for_job(self, events: Sequence[Event], since: float) -> bool:
        """A journal that a network file system does not show yet is not a dead submitter."""
        last = max((float(event["time"]) for event in events), default=since)
        return submitter_may_live(events) and self.clock() - last <= INTENT_SECONDS

    def waits_for_outcome(self, record: JobRecord) -> bool:
        """The script ends with 0 only after a success."""
        return record.state == "COMPLETED" and self.clock() - (record.end or 0.0) <= OUTCOME_SECONDS

    def close(self, run: RunDirectory) -> None:
        """No script may run any more that would remove the secrets."""
        run.forget_secrets()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.clock()

    def pause(self) -> None:
        """Wait until the next look."""
        self.sleep(LOOK_SECONDS)


def submitting(slurm: Slurm, check_mode: bool, sleep: Callable[[float], None], clock: Callable[[], float]) -> Policy:
    """The policy of a submitter. In check mode nothing is written and nobody is waited for."""
    return Policy(decided=False) if check_mode else Patience(False, slurm, sleep, clock)


def statuses(slurm: Slurm, runs: Sequence[RunDirectory], policy: Policy) -> list[LaunchStatus]:
    """What became of each. Raises `SlurmUnavailable` where slurmctld is silent and one of them depends on it."""
    answer = ask_slurm(slurm, runs, policy)
    if answer.silence:
        raise answer.silence
    known = [answer.status(run) for run in runs]
    for status in known:
        if status.over:
            policy.close(status.run)
    return known


def submitter_may_live(events: Sequence[Event]) -> bool:
    """Whether whoever wrote the newest intent of a journal may still be about to submit. A journal without an intent is
    one that a network file system does not show yet.
    """
    submitters = [str(event.get("submitter", "")) for event in events if event["event"] == "intent"]
    if not submitters:
        return True
    host, _colon, pid = submitters[-1].partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return bool(host)
    return lives(pid)
