# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of one launch: what is launched, the wait for it, and its end. Pure except for reading fetched logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, records_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount, duration, node_list
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import BY_NAME
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import parse_duration
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import (
    FAILED,
    HEAD,
    LEFT,
    NOTE,
    OK,
    RUNNING,
    WARNING,
    Row,
)

if TYPE_CHECKING:  # at runtime, a wait does not need the planner, and a launch does not need the watch
    from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
    from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import LaunchResult
    from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
    from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Staging

KEY_DIGITS = 8
UNSTEPPED = "waiting for the first step"


def head(host: str, plan: Plan) -> Row:
    """The launch in one line: name, key, topology, where it runs, and its time limit."""
    shape, ask = plan.topology, plan.spec.resources
    nodes = f"{plan.job.nodes} node{'' if plan.job.nodes == 1 else 's'}"
    ranks = f" x {shape.ranks_per_node} rank{'' if shape.ranks_per_node == 1 else 's'}"
    if plan.spec.script is not None:
        ranks = ", a script"
    elif plan.roles:
        ranks = f", {' and '.join(plan.spec.roles)}"
    inside = plan.spec.launcher.inside_job
    where = (
        f"inside job {inside}" if inside else ", ".join(part for part in (ask.partition, limit(str(ask.time))) if part)
    )
    return Row(host, HEAD, text=f"{plan.name}  {plan.key[:KEY_DIGITS]}  {nodes}{ranks}, {where}", right=host)


def limit(time: str) -> str:
    """A time limit, in any form that Slurm takes, for people: `10 min`, `1 d 4 h`. Other text as it is."""
    minutes, seconds = divmod(parse_duration(time) or 0, 60)
    hours, minutes = divmod(minutes, 60)
    named = zip((*divmod(hours, 24), minutes, seconds), ("d", "h", "min", "s"))
    return " ".join(f"{number} {unit}" for number, unit in named if number) or time


def job_name(job_id: object) -> str:
    """The name of a job's row."""
    return f"job {job_id}"


@dataclass(frozen=True)
class Source:
    """An input of a launch, and the store that it comes from."""

    kind: str
    key: str
    store: str


def borrowed(sources: Iterable[Parameters], own: str) -> list[Source]:
    """The inputs of a launch that are in the store of another owner. `own`: the user's."""
    return [source for source in records_of(Source, sources) if source.store != own]


def launched(host: str, launch: LaunchResult, facts: Mapping[str, str], others: Sequence[Source]) -> list[Row]:
    """The rows about the submission. `facts`: kind of input -> what is known about it, as text. `others`: the inputs
    that are in the store of another owner.
    """
    state, job = launch.submission, job_name(launch.job_id)
    missing = {ref.kind for ref in launch.missing}
    stores = {source.kind: f"from {source.store}" for source in others}
    rows = [
        Row(host, OK, BY_NAME[kind].label, f"{text} ({stores.get(kind, 'cached')})", once=True)
        for kind, text in facts.items()
        if kind not in missing and state in ("missing", "submitted")
    ]
    if state == "submitted":
        rows.append(Row(host, RUNNING, job, "submitted", news=True))
    elif state == "adopted":
        rows.append(Row(host, RUNNING, job, f"already active, generation {launch.generation}", news=True))
    elif state == "unchanged":
        rows.append(Row(host, OK, job, f"has {launch.standing} already (-e rerun=true runs it again)"))
    elif state == "absent":
        if launch.changed:
            rows.append(Row(host, OK, job, "cancelled"))
        elif launch.job_id:
            rows.append(Row(host, OK, job, "was cancelled before and is still ending"))
        else:
            rows.append(Row(host, NOTE, text="no active job"))
    return rows


class Waiting:
    """The rows of a wait for one launch: its job in the queue, its set-up on the nodes, its steps.

    `show` receives each row. `clock`: monotonic seconds, `wall`: epoch seconds (those of `time`, except in tests).
    `attached`: the job started before the wait, so its time in the queue is unknown.
    """

    def __init__(
        self,
        show: Callable[[Row], None],
        host: str,
        job_id: str,
        clock: Callable[[], float],
        *,
        attached: bool = False,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._show = show
        self._host = host
        self._clock = clock
        self._wall = wall
        self._began = clock()
        self.job_id = job_id
        self._step: Row | None = None
        self._setup = False
        # Whether the wait saw the set-up begin.
        self._seen = False
        self._copying: Staging | None = None
        self._attached = attached
        self._limit: tuple[float, float] | None = None

    def show_line(self, text: str, color: str | None = None) -> None:
        """Show a separate line."""
        self._show(Row(self._host, WARNING if color else NOTE, text=text, news=True))

    def begin(self) -> None:
        """Start the wait: the job is queued, or has started."""
        self._began = self._clock()
        self._show(Row(self._host, RUNNING, job_name(self.job_id), "queued"))

    def events(self, events: Iterable[Event]) -> None:
        """Show the events of a poll."""
        for event in events:
            self._event(event)

    def _event(self, event: Event) -> None:
        if event.kind in ("pending", "stuck"):
            text, stands = ("", event.text) if event.kind == "stuck" else (event.text, "")
            self._show(Row(self._host, RUNNING, job_name(self.job_id), text, stands=stands, news=True))
        elif event.kind == "queued":
            self._granted(node_list(event.nodes) or event.text)
        elif event.kind == "started":
            self._started(event)
        elif event.kind == "requeued":
            self._copy(None)
            name = "preflight" if self._setup and self._step is None else "step"
            self._step, self._setup, self._began = None, False, self._clock()
            self._show(Row(self._host, FAILED, name, "the attempt ended"))
            self.show_line(event.text, "yellow")
            self.begin()
        elif event.kind == "followed":
            # The row of the job that was waited for; that of the other one begins with its next event.
            self._show(Row(self._host, OK, job_name(self.job_id), event.text, timed=False))
        elif event.kind == "stalled":
            self.show_line(event.text, "yellow")
        elif event.kind != "metrics":
            self.show_line(event.text, "yellow" if event.kind == "silent" else None)

    def _granted(self, text: str) -> None:
        """Slurm has allocated nodes to the job: its set-up follows, including the preflight."""
        if self._setup:
            return
        self._setup = True
        queued = "" if self._attached else f"queued {duration(self._clock() - self._began)} -> "
        self._show(Row(self._host, OK, job_name(self.job_id), queued + text, timed=False))
        self._show(Row(self._host, RUNNING, "preflight", "setting up"))

    def _started(self, event: Event) -> None:
        # If the job ended before the first poll, the duration of its set-up is unknown.
        self._seen = self._setup
        self._granted(node_list(event.nodes) or event.text)
        if self._step is not None:
            self._wait_for_steps()

    def _passed(self, nodes: int) -> None:
        """The ranks have been started on these nodes, so the preflight has let them pass."""
        self._copy(None)
        self._show(Row(self._host, OK, "preflight", looked_at(nodes, nodes), timed=self._seen))
        self._wait_for_steps()

    def _wait_for_steps(self) -> None:
        self._step = Row(self._host, RUNNING, "step", UNSTEPPED)
        self._show(self._step)

    def update(self, watch: Watch) -> None:
        """Update the row of the preflight or of the steps from the watch."""
        if self._step is None and self._setup and watch.launched:
            self._passed(watch.launched)
        if self._step is None:
            nodes = watch.record.nodes if watch.record is not None else None
            if self._setup and watch.staging is not None:
                self._copy(watch.staging)
            if self._setup and watch.preflight is not None and nodes:
                text = looked_at(min(watch.preflight, nodes), nodes)
                self._show(Row(self._host, RUNNING, "preflight", text, limit=self._ends(watch)))
            return
        known = watch.metrics
        pace = watch.pace
        ends = None if pace.late(self._clock()) else pace.ends
        step = replace(self._step, heard=pace.heard, ends=ends, limit=self._ends(watch), stands="")
        if watch.stands:
            step = replace(step, heard=pace.stepped or pace.heard, stands="stands still")
        if known is None:
            step = replace(step, text=f"waiting for {printable(watch.gate)}" if watch.gate else UNSTEPPED)
        else:
            step = replace(step, text=steps(known), detail=numbers(known), fraction=watch.fraction)
        if step != self._step:
            self._step = step
            self._show(step)

    def _copy(self, staging: Staging | None) -> None:
        """Show the copying to nodes that lack code or environment. None, or another kind: the copy before is done."""
        before = self._copying
        if before is not None and (staging is None or staging.kind != before.kind):
            self._show(copied(self._host, before, OK))
        if staging is not None and staging != before:
            self._show(copied(self._host, staging, RUNNING))
        self._copying = staging

    def _ends(self, watch: Watch) -> float | None:
        """When the time limit ends the job, on this object's clock. Slurm gives it as epoch seconds."""
        end = watch.record.limit if watch.record is not None else None
        if end is None:
            return None
        if self._limit is None or self._limit[0] != end:
            self._limit = end, self._clock() + end - self._wall()
        return self._limit[1]

    def end(self, ok: bool | None, text: str) -> None:
        """End the wait. The last step stays on the screen. `ok`: whether the launch succeeded, None if its job
        continues. `text`: the outcome, for a job without steps.
        """
        state = WARNING if ok is None else OK if ok else FAILED
        if self._step is not None:
            step = replace(self._step, state=state, ends=None, heard=None, limit=None, fraction=None, stands="")
            if ok is None:
                step = replace(step, detail="  ".join(part for part in (step.detail, LEFT) if part))
            elif not self._step.detail and self._step.fraction is None:
                step = replace(step, text="no steps in its log")
            self._show(step)
        elif self._setup:
            if self._copying is not None:
                self._show(copied(self._host, self._copying, state))
            self._show(Row(self._host, state, "preflight", text))
        else:
            self._show(Row(self._host, state, job_name(self.job_id), text, timed=False))


def copied(host: str, staging: Staging, state: str) -> Row:
    """The copying of code or environment to nodes that do not see the store: `2 of 3 nodes ###.  1.2 GB each`."""
    name = BY_NAME[staging.kind].label if staging.kind in BY_NAME else staging.kind
    size = f"{amount(staging.size)} each" if staging.size else ""
    done = staging.nodes if state == OK else staging.done
    part = staging.done / staging.nodes if state == RUNNING else None
    return Row(host, state, f"copy {name}", looked_at(done, staging.nodes), detail=size, fraction=part)


def looked_at(done: int, nodes: int) -> str:
    """The progress of the preflight."""
    return f"{done} of {nodes} node{'' if nodes == 1 else 's'}"


def steps(known: Metrics) -> str:
    """`120/200`, or as much of it as the metrics contain."""
    if known.step is None:
        return ""
    return f"{known.step}/{known.total}" if known.total else str(known.step)


def numbers(known: Metrics) -> str:
    """`loss 0.3065  51k tok/s`."""
    rate = known.tokens_per_second
    parts = [f"loss {known.loss:.4g}" if known.loss is not None else "", f"{short(rate)} tok/s" if rate else ""]
    return "  ".join(part for part in parts if part)


def short(number: float) -> str:
    """A rate with up to three digits: `812`, `8.1k`, `51k`, `1.2M`."""
    for unit in ("", "k", "M"):
        if number < 1000:
            return f"{number:.1f}{unit}" if unit and number < 10 else f"{number:.0f}{unit}"
        number /= 1000
    return f"{number:.3g}G"
