# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Determine the status of launches before a submission: the look-up of run/answers.py, with waiting.

A submission whose job id was never recorded is looked up by its job name before anything is submitted again. The
look-up waits for a submitter that may still be running, and for an outcome that a network file system does not show
yet.
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

# Seconds within which a job that sbatch queued while reporting a time-out appears in the queue.
APPEAR_SECONDS = 10.0
# Seconds after its intent within which a live submitter records its job id or gives up on sbatch.
INTENT_SECONDS = DEFAULT_TIMEOUT + APPEAR_SECONDS + 5.0
LOOK_SECONDS = 1.0
# Seconds after a job's end within which its outcome becomes visible on this host.
OUTCOME_SECONDS = 60.0


@dataclass(frozen=True)
class Patience(Policy):
    """How a submitter asks Slurm. `sleep` and `clock` are injectable for tests."""

    slurm: Slurm
    sleep: Callable[[float], None]
    clock: Callable[[], float]

    def adopt(self, owner: RunDirectory, job_id: str) -> None:
        """Record the job, so that the next look-up knows its id."""
        try:
            owner.record("adopted", job_id=job_id)
        except OSError as error:
            # The job can be found again later.
            self.slurm.note(f"{owner.path}: that job {job_id} was adopted cannot be recorded there ({error.strerror})")

    def waits_for_job(self, events: Sequence[Event], since: float) -> bool:
        """Return whether the submitter may still record a job.

        A journal that a network file system does not show yet does not mean that the submitter is dead.
        """
        last = max((float(event["time"]) for event in events), default=since)
        return submitter_may_live(events) and self._passed(last, since) <= INTENT_SECONDS

    def waits_for_outcome(self, record: JobRecord, since: float) -> bool:
        """Return whether an outcome must appear: the script ends with exit code 0 only after a success."""
        return record.state == "COMPLETED" and self._passed(record.end or 0.0, since) <= OUTCOME_SECONDS

    def _passed(self, moment: float, since: float) -> float:
        """Return how many seconds ago something happened elsewhere: where a clock there is ahead of ours, how long it
        has been waited for (`since`).
        """
        now = self.clock()
        return now - (moment if moment <= now else since)

    def close(self, run: RunDirectory) -> None:
        """Remove the secrets, because there may be no script left to remove them."""
        run.forget_secrets()

    def now(self) -> float:
        """Return the current time in epoch seconds."""
        return self.clock()

    def pause(self) -> None:
        """Wait until the next query."""
        self.sleep(LOOK_SECONDS)


def submitting(slurm: Slurm, check_mode: bool, sleep: Callable[[float], None], clock: Callable[[], float]) -> Policy:
    """Return the policy of a submitter. In check mode it writes nothing and does not wait."""
    return Policy(decided=False) if check_mode else Patience(False, slurm, sleep, clock)


def statuses(slurm: Slurm, runs: Sequence[RunDirectory], policy: Policy) -> list[LaunchStatus]:
    """Return the status of each run. Raises `SlurmUnavailable` if one depends on a slurmctld that does not answer."""
    answer = ask_slurm(slurm, runs, policy)
    if answer.silence:
        raise answer.silence
    known = [answer.status(run) for run in runs]
    for status in known:
        if status.over:
            policy.close(status.run)
    return known


def submitter_may_live(events: Sequence[Event]) -> bool:
    """Return whether the submitter of a journal's newest intent may still be about to submit.

    A journal without an intent is one that a network file system does not show yet, so the answer is yes.
    """
    submitters = [str(event.get("submitter", "")) for event in events if event["event"] == "intent"]
    if not submitters:
        return True
    host, _colon, pid = submitters[-1].partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return bool(host)
    return lives(pid)
