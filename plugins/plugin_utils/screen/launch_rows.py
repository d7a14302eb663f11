# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of one launch: what is launched, the wait for it, and its end. Pure but for reading fetched logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.progress import Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Event, Watch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.layout import whole
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import (
    FAILED,
    HEAD,
    NOTE,
    OK,
    RUNNING,
    WARNING,
    Row,
)

KEY_DIGITS = 8
# What a step is called on the screen.
STEPS = {"environment": "env", "packages": "packages", "image": "image", "code": "code", "dataset": "dataset"}
# So many nodes are named.
MOST_NODES = 8


def head(host: str, plan: Plan) -> Row:
    """The launch in one line: its name, its key, its shape, where it runs and for how long at most."""
    shape, ask = plan.topology, plan.spec.resources
    nodes = f"{shape.nodes} node{'' if shape.nodes == 1 else 's'}"
    ranks = f"{shape.ranks_per_node} rank{'' if shape.ranks_per_node == 1 else 's'}"
    inside = plan.spec.launcher.inside_job
    where = (
        f"inside job {inside}" if inside else ", ".join(part for part in (ask.partition, limit(str(ask.time))) if part)
    )
    return Row(host, HEAD, text=f"{plan.name}  {plan.key[:KEY_DIGITS]}  {nodes} x {ranks}, {where}", right=host)


def limit(time: str) -> str:
    """A time limit as people say it: `10 min`, `2 h 30 min`, `1 d 4 h`; as it is where it is written in another way."""
    _days, dash, rest = time.rpartition("-")
    parts = rest.split(":")
    if dash or len(parts) != 3 or not all(part.isdigit() for part in parts):
        return time
    hours, minutes, seconds = map(int, parts)
    named = ((hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in named if number) or time


def job_name(job_id: object) -> str:
    """The name of the row of a job."""
    return f"job {job_id}"


def launched(host: str, result: Parameters, facts: Mapping[str, str]) -> list[Row]:
    """What the submission did. `facts`: the kind of a part of the launch -> what is known of it, in words."""
    state, job = result.get("launch_state"), job_name(result.get("job_id"))
    missing = {reference["kind"] for reference in result.get("missing", [])}
    rows = [
        Row(host, OK, STEPS[kind], f"{text} (cached)" if state == "missing" else text, once=True)
        for kind, text in facts.items()
        if kind not in missing and state in ("missing", "submitted")
    ]
    if state == "submitted":
        rows.append(Row(host, RUNNING, job, "submitted", news=True))
    elif state == "adopted":
        rows.append(Row(host, RUNNING, job, f"already active, generation {result.get('generation')}", news=True))
    elif state == "unchanged":
        text = f"has {result.get('standing')} already (-e rerun=true runs it again)"
        rows.append(Row(host, OK, job, text))
    elif state == "absent":
        rows.append(Row(host, OK, job, "cancelled") if result.get("changed") else Row(host, NOTE, text="no active job"))
    return rows


class Waiting:
    """The rows of a wait for one launch: its job in the queue, its set-up on the nodes, its steps.

    `show` takes each row. `clock`: seconds that only grow, time.monotonic but in tests. `attached`: the job has started
    before the wait, so nobody knows here how long it was queued.
    """

    def __init__(
        self, show: Callable[[Row], None], host: str, job_id: str, clock: Callable[[], float], *, attached: bool = False
    ) -> None:
        self._show = show
        self._host = host
        self._clock = clock
        self._began = clock()
        self.job_id = job_id
        self._step: Row | None = None
        self._setup = False
        self._attached = attached

    def say(self, text: str, color: str | None = None) -> None:
        """A line by itself."""
        self._show(Row(self._host, WARNING if color else NOTE, text=text, news=True))

    def begin(self) -> None:
        """The wait begins: the job is in the queue, or further."""
        self._began = self._clock()
        self._show(Row(self._host, RUNNING, job_name(self.job_id), "queued"))

    def events(self, events: Iterable[Event]) -> None:
        """Show what a poll brought."""
        for event in events:
            self._event(event)

    def _event(self, event: Event) -> None:
        if event.kind in ("pending", "stuck"):
            text, stands = ("", event.text) if event.kind == "stuck" else (event.text, "")
            self._show(Row(self._host, RUNNING, job_name(self.job_id), text, stands=stands, news=True))
        elif event.kind == "queued":
            self._granted(named(event.nodes) or event.text)
        elif event.kind == "started":
            self._started(event)
        elif event.kind == "requeued":
            self._step, self._setup, self._began = None, False, self._clock()
            self._show(Row(self._host, FAILED, "step", "the attempt ended"))
            self.say(event.text, "yellow")
            self.begin()
        elif event.kind == "stalled":
            self.say(event.text, "yellow")
        elif event.kind != "metrics":
            self.say(event.text, "yellow" if event.kind in ("silent", "followed") else None)

    def _granted(self, text: str) -> None:
        """Slurm has given it nodes: what comes is its set-up, the preflight among it."""
        if self._setup:
            return
        self._setup = True
        queued = "" if self._attached else f"queued {whole(self._clock() - self._began)} -> "
        self._show(Row(self._host, OK, job_name(self.job_id), queued + text, timed=False))
        self._show(Row(self._host, RUNNING, "preflight", "setting up"))

    def _started(self, event: Event) -> None:
        # Where it was over before the first look, nobody knows how long it took.
        seen = self._setup
        self._granted(named(event.nodes) or event.text)
        if self._step is None:
            self._show(Row(self._host, OK, "preflight", looked_at(len(event.nodes), len(event.nodes)), timed=seen))
        self._step = Row(self._host, RUNNING, "step", "waiting for the first step")
        self._show(self._step)

    def look(self, watch: Watch) -> None:
        """What the watch knows now, on the row of its preflight or of its steps."""
        if self._step is None:
            nodes = watch.record.nodes if watch.record is not None else None
            if self._setup and watch.preflight is not None and nodes:
                self._show(Row(self._host, RUNNING, "preflight", looked_at(min(watch.preflight, nodes), nodes)))
            return
        known = watch.metrics
        pace = watch.pace
        step = replace(self._step, heard=pace.heard, ends=pace.ends, stands="")
        if watch.stands:
            step = replace(step, heard=pace.stepped or pace.heard, stands="stands still")
        if known is not None:
            step = replace(step, text=steps(known), detail=numbers(known), fraction=watch.fraction)
        if step != self._step:
            self._step = step
            self._show(step)

    def end(self, ok: bool, text: str) -> None:
        """The wait is over: the last step stays on the screen. `text`: what became of it, for a job without steps."""
        state = OK if ok else FAILED
        if self._step is not None:
            shown = self._step.text if self._step.detail or self._step.fraction is not None else "no steps in its log"
            self._show(replace(self._step, state=state, text=shown, ends=None, heard=None, fraction=None, stands=""))
        elif self._setup:
            self._show(Row(self._host, state, "preflight", text))
        else:
            self._show(Row(self._host, state, job_name(self.job_id), text, timed=False))


def looked_at(done: int, nodes: int) -> str:
    """How far the preflight is."""
    return f"{done} of {nodes} node{'' if nodes == 1 else 's'}"


def steps(known: Metrics) -> str:
    """`120/200`, or as much of it as the line says."""
    if known.step is None:
        return ""
    return f"{known.step}/{known.total}" if known.total else str(known.step)


def numbers(known: Metrics) -> str:
    """`loss 0.3065  51k tok/s`."""
    rate = known.tokens_per_second
    parts = [f"loss {known.loss:.4g}" if known.loss is not None else "", f"{short(rate)} tok/s" if rate else ""]
    return "  ".join(part for part in parts if part)


def short(number: float) -> str:
    """A rate in three digits: `812`, `8.1k`, `51k`, `1.2M`."""
    for unit in ("", "k", "M"):
        if number < 1000:
            return f"{number:.1f}{unit}" if unit and number < 10 else f"{number:.0f}{unit}"
        number /= 1000
    return f"{number:.3g}G"


def named(nodes: Sequence[str]) -> str:
    """Nodes for a line."""
    more = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
    return " ".join(nodes[:MOST_NODES]) + more
