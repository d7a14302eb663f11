# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch a launch: a pure state machine that turns polls into events and decides when to poll again.

When that is, schedule.py says.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import about, duration, moment, short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics, progress_in
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import own
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import SUCCEEDED
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    QUEUE,
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.steps import is_step
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import reasons, states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.ends import End, Since, never_ran, wait_until
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.pace import Pace
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import LOG_BYTES, Poll, Staging, Target, View
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.requeues import Requeues
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.role_news import RoleNews
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.schedule import ENDS, LAST, RUNS, Schedule

# How long (seconds) a pending reason that never clears must be seen before the wait gives up. Slurm does not say since
# when a job has its reason.
HOPELESS_AFTER = 10
# How long (seconds) an end state that Slurm may turn into a requeue must be seen. It decides that when the job has
# completed, which may be long after its end, and does not say when.
SETTLE = 5
# The job writes its outcome while it still runs: how long (seconds) after that Slurm may take to report its end.
# That is minutes where it has lost a node; with the looks before and after, the wait then ends within a minute.
CLOSING = 35
# How long (seconds) the job must be missing from a queue that answers, which does not say since when.
ABSENT = 3
LINE_WIDTH = 200
# How long (seconds) after its start a running job may leave no trace in its run directory before the wait says so: on a
# network file system, and on a disk of the host.
UNSEEN, UNSEEN_LOCAL = 30.0, 10.0
# A new expected start is reported when it moved by at least this much (seconds), or a quarter of the time left if that
# is more.
MOVED = 300.0


@dataclass
class Watch:
    """The state of one wait. Feed it polls; it returns events, the time of the next poll and whether the wait is over.

    Times are seconds of the caller's monotonic clock. `until`: started, artifact (the check of the artifact succeeds),
    pattern (a line of `log` matches) or finished. `outcome_grace`: how long after the end of a job its outcome may
    become visible through a network file system. `silent_in`: in how many seconds its silence is looked at (Pace.due).
    """

    run_dir: str
    job_id: str
    until: str = "finished"
    poll_min: float = 0.5
    poll_max: float = 10.0
    outcome_grace: float = 40.0
    pattern: re.Pattern[str] | None = None
    log: str = ""
    artifact: str = ""
    done: bool = False
    ended: bool = False
    matched: str | None = None
    proven: bool = False
    hopeless: reasons.Reason | None = None
    record: JobRecord | None = None
    metrics: Metrics | None = None
    fraction: float | None = None
    pace: Pace = field(default_factory=Pace)
    silent_in: float = math.inf
    stands: str = ""
    preflight: int | None = None
    launched: int = 0
    staging: Staging | None = None
    gate: str = ""
    _role_news: RoleNews = field(default_factory=RoleNews)
    _attempt: int | None = None
    _log_attempt: int | None = None
    _offset: int = 0
    _torn: str = ""
    _pending_reason: str = ""
    _requeues: Requeues = field(default_factory=Requeues)
    _end: End = field(default_factory=End)
    _expected: float | None = None
    _view: View = View()
    _hopeless_since: float | None = None
    _unseen: Since = field(default_factory=Since)
    _unseen_told: bool = False
    _silent: bool = False
    _ended: Since = field(default_factory=Since)
    _outcome: Since = field(default_factory=Since)
    _absent_since: float | None = None
    _schedule: Schedule = field(default_factory=Schedule)

    def target(self) -> Target:
        """What the next poll should read."""
        all_lines, looked_for = self.pattern is not None, "" if self.proven else self.artifact
        place = self.run_dir, self.job_id, self._log_attempt, self._offset, self.log
        return Target(*place, all_lines, looked_for, self._view.state)

    @property
    def rank(self) -> int:
        """How urgent a look at the run directory is: 0 the job may be over, 1 it runs, 2 it waits in the queue."""
        if self._outcome.seen is not None or self._ended.seen is not None or self._absent_since is not None:
            return 0
        return 2 if self._attempt is None and self.record is not None and self.record.pending else 1

    def ask_queue(self, when: float) -> bool:
        """True if squeue should be called by then."""
        return self._schedule.queue_at is None or when >= self._schedule.queue_at

    def delay(self, round_trip: float = 0.0) -> float:
        """Seconds until the next poll. `round_trip`: seconds of the last poll; a slow connection is polled less."""
        return max(self._schedule.delay, 4 * round_trip)

    def feed(self, poll: Poll, now: float, index: int | None = 0, wall: float | None = None) -> list[Event]:
        """Process one poll and return its events, oldest first.

        `index`: the position of this launch's view in the poll; None where only the queue was queried for it.
        `wall`: epoch seconds; None takes the time of the host that answered, with which Slurm's times are compared.
        """
        if not poll.whole:
            return []
        view = poll.views[index] if index is not None else replace(self._view, log=None)
        self._view = view
        self.preflight, self.staging, self.launched, self.gate = view.preflight, view.staging, view.launched, view.gate
        clock = poll.clock if wall is None else wall
        events = self._follow(view) + self._queue(poll, view, now, clock) + self._files(view, now, clock)
        events += self._role_news.events(view.started)
        with one_alone(lambda why: events.append(Event("silent", why))):
            events += self._log(view, now)
        events += self._still(now, clock) + self._tell_no_trace(view, now, clock)
        if view.proven and not self.proven:
            self.proven = True
            events.append(Event("proven", "the artifact is there and valid"))
        self._decide(view, poll, now, clock)
        if self.done and self.pattern is not None and self.matched is None and view.log and view.log.content:
            # The rest of the log of a finished launch may contain the line.
            self.done = False
        urgent = view.outcome is not None or self._ended.seen is not None or self._absent_since is not None
        completes = self.record is not None and self.record.state == "COMPLETING"
        self._schedule.plan(poll, now, (self.poll_min, self.poll_max), LAST if urgent else ENDS if completes else RUNS)
        self.silent_in = self.pace.due(now) if self._attempt is not None else math.inf
        return events

    def _follow(self, view: View) -> list[Event]:
        """Follow the owner when another job owns this generation (a duplicate lost the claim)."""
        if view.claim is None or view.claim.job_id == self.job_id:
            return []
        text = f"job {view.claim.job_id} owns this launch, not job {self.job_id}: following it"
        self.job_id, self.record, self._schedule.queue_at = view.claim.job_id, None, None
        self._requeues, self._end, self._outcome, self._ended = Requeues(), End(), Since(), Since()
        self._absent_since = None
        return [Event("followed", text)]

    def _queue(self, poll: Poll, view: View, now: float, wall: float) -> list[Event]:
        if not poll.asked:
            return []
        events: list[Event] = []
        if poll.silent:
            if not self._silent:
                text = f"Slurm does not answer ({poll.silent}); the job is not affected, and the wait continues"
                events.append(Event("silent", text))
            self._silent = True
            return events
        if self._silent:
            self._silent = False
            events.append(Event("answered", "Slurm answers again"))
        record = own(poll.queue.get(self.job_id), self.run_dir)
        if record is not None and is_step(self.job_id) and record.name != identity(self.run_dir).job_name:
            # The enclosing job was requeued and numbers its steps from the start again.
            record = None
        self._end.hear(record, now, wall)
        if record is None:
            self._absent_since = now if self._absent_since is None else self._absent_since
            return events
        before, self.record, self._absent_since = self.record, record, None
        told = view.started is not None and int(view.started.get("attempt") or 0) == self._attempt
        if self._requeues.news(record, before, attempt_told=told):
            events.append(Event("requeued", "Slurm put the job back into the queue"))
        if record.pending:
            events += self._pending(record, before, now, wall)
        else:
            self._hopeless_since, self._pending_reason, self._expected = None, "", None
            begun = self._attempt is not None or view.started is not None
            if record.running and not begun and (before is None or not before.running):
                events.append(Event("queued", _setting_up(record), nodes=(record.node_list,)))
        return events

    def _pending(self, record: JobRecord, before: JobRecord | None, now: float, wall: float) -> list[Event]:
        events: list[Event] = []
        reason = reasons.explain(record.reason).of_job(self.job_id)
        if before is None and record.reason == "None":
            # A job that was just submitted has no reason yet: that is no news.
            pass
        elif record.reason != self._pending_reason:
            self._pending_reason = record.reason
            kind = "stuck" if reason.stuck else "pending"
            note = "; it will not start by itself" if reason.stuck else self._expectation(record, wall)
            events.append(Event(kind, f"pending: {reason.sentence}{note}"))
        elif not reason.stuck and (expected := self._expectation(record, wall)):
            events.append(Event("pending", f"pending{expected}"))
        if not reason.hopeless:
            self._hopeless_since = None
        elif self._hopeless_since is None:
            self._hopeless_since = now
        elif now - self._hopeless_since >= HOPELESS_AFTER:
            self.hopeless = reason
        return events

    def _expectation(self, record: JobRecord, wall: float) -> str:
        """When Slurm expects the job to start, if that changed. For a pending job, squeue's StartTime gives it."""
        expected = record.start
        if expected is None or expected <= wall:
            return ""
        if self._expected is not None and abs(expected - self._expected) < max(MOVED, (self._expected - wall) / 4):
            return ""
        self._expected = expected
        return f"; Slurm expects it to start at {moment(expected, wall)}, in {about(expected - wall)}"

    def _files(self, view: View, now: float, wall: float) -> list[Event]:
        """Report a new attempt, as started.json of the job shows it."""
        if view.started is None:
            return []
        attempt = int(view.started.get("attempt") or 0)
        if self._attempt is not None and attempt <= self._attempt:
            return []
        self._attempt = attempt
        began = view.started.get("time")
        self.pace.begin(now, max(0.0, wall - began) if isinstance(began, (int, float)) else 0.0)
        self.metrics = self.fraction = None
        nodes = [str(node) for node in view.started.get("nodes") or []]
        again = f"attempt {attempt + 1} " if attempt else ""
        ranks = view.started.get("world_size")
        text = f"{again}started on {len(nodes)} node{'' if len(nodes) == 1 else 's'} ({short_list(nodes)})"
        return [Event("started", f"{text}, {ranks} ranks" if ranks else text, nodes=tuple(nodes))]

    def _still(self, now: float, wall: float) -> list[Event]:
        """Report a stalled or slow job, which a log without new lines does not show."""
        if self.gate:
            # The job itself ends the wait for other roles in time, and says why.
            self.pace.heard, self.stands = now, ""
            return []
        runs = self._attempt is not None and self._outcome.seen is None
        self.stands = self.pace.stands(now) if runs else ""
        end = self.record.limit if self.record is not None else None
        limit = f"; its time limit ends it in {duration(end - wall)}" if end is not None and end > wall else ""
        return self.pace.events(now, limit) if runs else []

    def _tell_no_trace(self, view: View, now: float, wall: float) -> list[Event]:
        """Report once that a running job leaves no trace here: its nodes may write to a folder of their own."""
        traces = self._attempt is not None or view.claim is not None or view.outcome is not None
        if traces or self.record is None or self.record.state != "RUNNING":
            self._unseen.hear_whether(False, now, None)
            return []
        self._unseen.hear_whether(True, now, None if self.record.start is None else wall - self.record.start)
        began = self._unseen.at
        if began is None or self._unseen_told or not self._unseen.lasts(now, UNSEEN_LOCAL if view.local else UNSEEN):
            return []
        self._unseen_told = True
        passed = duration(now - began)
        text = (
            f"job {self.job_id} has run for {passed} on {self.record.node_list}, and nothing of it can be seen in "
            f"{self.run_dir}. If the nodes do not share that folder with the login node, the job "
            "cannot end well: set launch_cluster.state_root to a folder on shared storage, and cancel this job"
        )
        return [Event("silent", text)]

    def _log(self, view: View, now: float) -> list[Event]:
        """Report the newest line with progress in the log's new bytes, and the first line that matches the pattern."""
        chunk = view.log
        if chunk is None:
            return []
        continues = chunk.attempt == self._log_attempt and chunk.start == self._offset
        attached = self._log_attempt is None
        # The look before did not see what is new, whatever the clocks say.
        written = now - chunk.age
        grew = max(written, self.pace.slowing.looked or written)
        if chunk.content:
            self.pace.heard = grew
        # Progress bars overwrite their line with a carriage return.
        pieces = re.split(r"[\r\n]", (self._torn if continues else "") + chunk.content)
        if not continues and chunk.start > 0:
            pieces = pieces[1:]
        self._torn = pieces.pop()[-LOG_BYTES:] if pieces else ""
        self._log_attempt, self._offset = chunk.attempt, chunk.size
        events = self._match([*pieces, self._torn])
        newest, steps, self.metrics = progress_in(pieces, self.metrics)
        self.pace.slowing.add_look(steps, written, now)
        if newest is None or self.metrics is None:
            return events
        left, fraction = self._progress(self.metrics, grew)
        if attached:
            self.pace.attach(written, [step for step, _line in steps])
        return [Event("metrics", printable(newest.strip(), LINE_WIDTH) + left, fraction), *events]

    def _match(self, lines: list[str]) -> list[Event]:
        if self.pattern is None or self.matched is not None:
            return []
        hit = next((line for line in lines if self.pattern.search(line)), None)
        if hit is None:
            return []
        self.matched = printable(hit.strip(), LINE_WIDTH)
        return [Event("matched", f"the log says: {self.matched}")]

    def _progress(self, metrics: Metrics, now: float) -> tuple[str, float | None]:
        """(" (about 3 min left)" where the pace so far allows an estimate, the fraction done)."""
        step, total = metrics.step, metrics.total
        self.fraction = None
        if step is None:
            return "", None
        left = self.pace.step(step, total, now)
        if total:
            self.fraction = min(1.0, step / total)
        return (f" ({about(left)} left)" if left is not None else ""), self.fraction

    def _decide(self, view: View, poll: Poll, now: float, wall: float) -> None:
        """Decide whether the wait is over. A success ends it at once; a failure may still become a requeue."""
        status = self._status(view)
        proven = status.standing == SUCCEEDED
        milestone = (
            (self.until == "started" and self._attempt is not None)
            or (self.until == "artifact" and self.proven)
            or (self.until == "pattern" and self.matched is not None)
        )
        self.ended = proven
        if self.hopeless is not None or proven or milestone:
            self.done = True
            return
        written = view.outcome.get("time") if view.outcome else None
        self._outcome.hear_whether(status.outcome is not None, now, None if written is None else wall - written)
        if poll.asked and not poll.silent:
            ended = self.record is not None and self._absent_since is None and states.is_final(self.record.state)
            self._ended.hear_whether(ended, now, None)
        self.ended = self.done = self._over(status, now)

    def _status(self, view: View) -> LaunchStatus:
        """The status of the launch from all polls so far, without accounting."""
        run = RunDirectory(self.run_dir)
        facts = RunFacts(run, self.job_id, outcome=view.outcome, started={"attempt": self._attempt or 0})
        return status_of(facts, JobAnswer(self.record if self._absent_since is None else None, QUEUE))

    def _over(self, status: LaunchStatus, now: float) -> bool:
        """True when Slurm and the job's outcome (or its absence for long enough) make the end certain."""
        record, gone = self.record, self._absent_since is not None
        if self._ended.seen is None and not gone:
            # The batch script wrote its outcome, but Slurm still shows the job as completing or does not answer.
            return status.over and self._outcome.lasts(now, CLOSING)
        seen = min(moment for moment in (self._ended.seen, self._absent_since) if moment is not None)
        settle: float = ABSENT if gone else 0
        if record is not None and not states.is_final(record.state, settled=False):
            settle = max(settle, SETTLE)
        if now - seen < settle:
            return False
        hopeless = self._attempt is None and never_ran(record, self._view.claim is not None)
        # On a disk of the host, an ended job without a claim has left nothing, and nothing can appear later.
        traceless = self._view.local and self._attempt is None and now - seen >= SETTLE
        late = now >= wait_until(self._end.at, seen, self.outcome_grace)
        return status.outcome is not None or hopeless or traceless or late


def _setting_up(record: JobRecord) -> str:
    words = "nodes are being prepared: {}" if record.state == "CONFIGURING" else "running on {}, setting up"
    return words.format(record.node_list)
