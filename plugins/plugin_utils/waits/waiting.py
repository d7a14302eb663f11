# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait: poll through module job_wait, show what happens, then let it report again.

The action `job_wait` and the command `rankzero` both do this. How the host is reached is left to them. Nothing here
imports Ansible.
"""

from __future__ import annotations

import abc
import contextlib
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    TaskVariables,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import STALL_FACTOR, STALL_SECONDS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import NOTIFY_SPEC, WAIT_SPEC, WaitOptions
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import UNKNOWN
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.many import Waits
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll, Request
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.launch_rows import Waiting
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.looks import LOOKED_AT, at_work, culprit, why
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.messages import Screen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.progress import PACE, Progress
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import Spec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.answers import WaitAnswer, WaitedLaunch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.checker import checker
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.ends import ending, lost, together
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reconnect import ConnectionLost, retried

if TYPE_CHECKING:
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.final_logs import FinalLogs
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.notices import Notices

# After the outcome appears, Slurm needs a moment to close the job.
SETTLE = 3.0
# With many launches: the shortest time between two lines with totals, and a slow pace for step lines.
SUMMARY_SECONDS = 10.0
MANY_PACE = 30.0
# The longest sentence about why a job stands still, in characters.
WHY_WIDTH = 600
# Workers of newer versions of ansible-core have no terminal. This line runs in the process that has one.
AT_TERMINAL = sys.stdout is not None and sys.stdout.isatty()
WIDTH = shutil.get_terminal_size().columns

_MODULE = "rankzero.slurm.job_wait"

Screens = list[Progress | Waiting]
Counts = tuple[int, int, int]


class Wait(abc.ABC):
    """A wait on one host.

    `screen`: where it is shown; `check_mode`: whether it only looks; `alone`: whether no other host is waited for at
    the same time; `arguments`: the options of the module, as they were given; `inventory`: the variables for the
    commands that it names. `LOST`: what a broken connection raises; `FAILED`: what a call raises that was not made.
    """

    LOST: tuple[type[Exception], ...] = ()
    FAILED: tuple[type[Exception], ...] = ()
    screen: Screen
    check_mode = False
    host = "localhost"
    alone = True
    arguments: Parameters = {}
    inventory: TaskVariables = {}
    _same: Mapping[str, str] = MappingProxyType({})
    _last: ModuleResult | None = None

    @abc.abstractmethod
    def call(self, module: str, module_args: Parameters, spec: Spec | None) -> ModuleResult:
        """Run a module on the host. `spec`: its argument spec; None where Ansible calls it."""

    def connection(self) -> Any:
        """Ansible's connection, which may be one that was opened with a password."""
        return None

    def waited(self, options: WaitOptions) -> ModuleResult:
        """Wait as the options say. Returns the result, also of a failure."""
        self._options = options
        try:
            self._logs = self._final_logs(options.logs_dest, options.run_dir)
            return self._wait(options.compiled())
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        except ConnectionLost as error:
            # Before the first answer, nothing is known about the job, which is not affected.
            message = f"the connection to {self.host} was lost, and {error}. No job is affected; run the same command"
            return {"failed": True, "standing": UNKNOWN, "completed": False, "msg": f"{message} again."}

    def _wait(self, pattern: re.Pattern[str] | None) -> ModuleResult:
        began = time.monotonic()
        options = self._options
        first = self._retried(self._record, self._line)
        answer = record_of(WaitAnswer, first)
        if answer.failed:
            return first
        launches = self._launches(first)
        if answer.choice:
            self._line(answer.choice, None)
            # The launch stays the same, even if a newer one of its name appears in the meantime.
            self._same = {"run_dir": launches[0].report.run_dir}
        notices = self._notices(launches)
        open_ = [
            index for index, launch in enumerate(launches) if not _nothing_to_wait_for(launch, pattern is not None)
        ]
        wanted = min(options.first or len(launches), len(launches)) - (len(launches) - len(open_))
        if self.check_mode or wanted <= 0:
            if notices:
                notices.end(time.monotonic())
            return self._result(first, launches)
        waits = Waits([self._watch(launches[index], pattern) for index in open_], wanted)
        screens = [self._screen(launches[index].report, len(open_)) for index in open_]
        timeout = options.wait_timeout
        self._report(screens)
        try:
            polls, asked, lately = self._poll(waits, screens, began + timeout if timeout else None, notices)
            settle = SETTLE if any(watch.ended for watch in waits.watches) else 0.0
            last = self._last or self._retried(lambda: self._record(settle, lately), screens[0].show_line)
        except ConnectionLost as error:
            message = lost(self.host, waits, str(error), None if options.many else self.inventory)
            told = {"failed": True, "completed": False, "msg": message}
            return {**(together(first, _ends(launches)) if options.many else launches[0].result), **told}
        answer = record_of(WaitAnswer, last)
        if answer.failed:
            return last
        commands = answer.slurm_commands + asked
        counts = {"polls": polls, "waited": time.monotonic() - began, "slurm_commands": commands}
        ends = self._launches(last)
        for index, watch, screen in zip(open_, waits.watches, screens):
            ends[index].end(watch, timeout)
            report = ends[index].report
            if isinstance(screen, Waiting):
                goes_on = not report.completed and watch.hopeless is None
                screen.end(None if goes_on else report.success, ending(report, watch))
            else:
                screen.show_line(ending(report, watch))
        if notices:
            notices.end(time.monotonic())
        return {**self._result(last, ends), **counts}

    def _launches(self, answer: ModuleResult) -> list[WaitedLaunch]:
        """The launches of an answer of the module."""
        return [
            WaitedLaunch.of(each)
            for each in (record_of(WaitAnswer, answer).launches if self._options.many else [answer])
        ]

    def _result(self, answer: ModuleResult, launches: Sequence[WaitedLaunch]) -> ModuleResult:
        """The result of the action for an answer of the module, with the logs that came with it."""
        if self._options.many:
            return together(answer, _ends(launches))
        taken = self._logs.taken(answer.get("_logs")) if self._logs else None
        return {**launches[0].result, **({"logs": taken} if taken else {})}

    def _final_logs(self, dest: str | None, run_dir: str | None) -> FinalLogs | None:
        """What fetches the logs with a look. Imported only if a task asks for them."""
        if not dest or not run_dir or self.check_mode:
            return None
        from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.final_logs import FinalLogs

        return FinalLogs(dest, run_dir, self.screen)

    def _notices(self, launches: Sequence[WaitedLaunch]) -> Notices | None:
        """What sends messages; None if these launches notify nobody. Imported only for those that do."""
        run_dirs = [launch.report.run_dir for launch in launches if launch.notifies]
        if not run_dirs or self.check_mode:
            return None
        from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.notices import Notices

        def call(options: Mapping[str, Any]) -> ModuleResult:
            return self.call("rankzero.slurm.job_notify", options, NOTIFY_SPEC)

        return Notices(run_dirs, call, lambda text: self._line(text, "yellow"), failing=self.FAILED)

    def _record(self, settle: float = 0.0, asked: int | None = None) -> ModuleResult:
        """What the module knows now. `asked`: at the end of a wait, its queries to Slurm in the last minute."""
        return self.call(_MODULE, self._report_request(settle, asked), WAIT_SPEC)

    def _report_request(self, settle: float, asked: int | None) -> Parameters:
        given = {name: value for name, value in self.arguments.items() if name != "logs_dest"}
        logs = self._logs.request() if self._logs else None
        return {**given, **self._same, "x_settle": settle, "x_asked": asked, "x_logs": logs}

    def _line(self, text: str, color: str | None) -> None:
        """Show a line before a job is known."""
        self.screen.display(f"{self.host}: {text}", color)

    def _retried(self, command: Callable[[], ModuleResult], say: Callable[[str, str | None], None]) -> ModuleResult:
        timeout = self._options.reconnect_timeout
        return retried(command, say, timeout, self.connection(), lost=self.LOST, clock=time.monotonic, sleep=time.sleep)

    def _polled(self, request: Request, asked: int, say: Callable[[str, str | None], None]) -> tuple[Poll, float]:
        """(a poll, the seconds it took). An outage before the answer is not included: it says nothing about the speed
        of the connection. `asked`: queries to Slurm in the last minute. Raises RankzeroError.
        """
        began = 0.0

        def polled() -> ModuleResult:
            nonlocal began
            began = time.monotonic()
            # One that finds the proof of a single launch is the last: its answer has the report, too.
            single = not self._options.many and self._options.pattern is None
            light = self._logs is None or self._logs.none_here
            more = self._report_request(SETTLE, asked) if single and light else {}
            return self.call(_MODULE, {**more, "x_poll": request.as_dict()}, WAIT_SPEC)

        result = self._retried(polled, say)
        took = time.monotonic() - began
        # An answer that was cut short on its way is asked for again.
        answer = record_of(WaitAnswer, result)
        if answer.failed and "module_stdout" not in result:
            raise RankzeroError(str(answer.msg))
        self._last = answer.report
        return Poll.of(answer.poll), took

    def _watch(self, launch: WaitedLaunch, pattern: re.Pattern[str] | None) -> Watch:
        options = self._options
        return Watch(
            launch.report.run_dir,
            launch.report.job_id or "",
            until=options.until,
            poll_min=max(0.05, options.poll_min),
            poll_max=max(0.05, options.poll_max),
            outcome_grace=options.outcome_grace,
            pattern=pattern,
            log=options.log,
            artifact=launch.artifact,
        )

    def _look(self, watch: Watch, screen: Progress | Waiting, event: Event) -> bool:
        """Look at the ranks, and say which of them holds up a job or makes it slow. A diagnosis that fails is left out:
        the wait goes on. Whether the event is news: a job that evaluates or saves does not stand still.
        """
        # Imported only where a job stands still or is slow.
        from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC

        limits = {"stall_seconds": STALL_SECONDS / 2, "stall_factor": STALL_FACTOR / 2}
        arguments = {"run_dir": watch.run_dir, **limits, "x_paces": list(event.paces)}
        diagnosis = None
        with contextlib.suppress(*self.FAILED, OSError):
            diagnosis = self.call("rankzero.slurm.job_diagnosis", arguments, DIAGNOSIS_SPEC).get("diagnosis")
        if event.kind != "slow" and at_work(diagnosis, watch.pace.silence(time.monotonic()), watch.metrics):
            watch.pace.work(time.monotonic())
            watch.stands = ""
            return False
        screen.events([event] if event.text else [])
        told = why(event, diagnosis)
        if told:
            another = event.kind == "slow" or watch.pace.blame(time.monotonic(), culprit(diagnosis))
            if another or event.text:
                screen.show_line(printable(told, WHY_WIDTH), "yellow")
        elif event.kind == "slow":
            watch.pace.slowing.unproven()
        else:
            watch.pace.unnamed(time.monotonic())
        return True

    def _screen(self, report: LaunchReport, count: int) -> Progress | Waiting:
        if count == 1 and self.screen.draws:
            return Waiting(
                self.screen.row, self.host, report.job_id or "", time.monotonic, attached=bool(report.started_at)
            )
        alone = count == 1 and AT_TERMINAL and self.alone
        made = Progress(
            self.screen.display,
            self.host,
            time.monotonic,
            pace=PACE if count == 1 else MANY_PACE,
            bar=self.screen.progress if alone else None,
            width=WIDTH,
        )
        made.job_id = report.job_id or ""
        return made

    def _report(self, screens: Screens) -> None:
        if isinstance(screens[0], Waiting):
            screens[0].begin()
            return
        text = "waiting; Ctrl-C leaves the job alone, and the same command attaches to it again"
        if self._options.many:
            text = "Ctrl-C leaves the jobs alone, and the same command attaches again"
            self.screen.display(f"{self.host}: waiting for {len(screens)} launches; {text}")
        else:
            screens[0].show_line(text)

    def _poll(self, waits: Waits, screens: Screens, deadline: float | None, notices: Notices | None) -> Counts:
        """Poll until every watch is done or the deadline has passed. Returns the number of polls, of squeue calls, and
        of squeue calls in the last minute.
        """
        polls = asked = 0
        moments: list[float] = []
        summary_at = time.monotonic()
        summary = ""
        pause = 0.0
        while not waits.done:
            now = time.monotonic()
            ask = waits.ask_queue(now + pause)
            targets = tuple(waits.targets(now))
            request = Request(
                targets,
                jobs=tuple(waits.jobs()) if ask else (),
                budget=self._options.queue_budget,
                hold=pause,
                checker=checker() if any(target.artifact for target in targets) else (),
            )
            seen, round_trip = self._polled(request, _lately(moments), screens[0].show_line)
            polls += 1
            asked += seen.asked
            for view in seen.views:
                if view.untrusted:
                    raise RankzeroError(view.untrusted)
            now = time.monotonic()
            moments += [now] * (seen.asked or seen.spent)
            for index, event in waits.feed(seen, now):
                if event.kind not in LOOKED_AT:
                    screens[index].events([event] if event.text else [])
                elif not self._look(waits.watches[index], screens[index], event):
                    continue
                screens[index].job_id = waits.watches[index].job_id
                if notices:
                    notices.see(waits.watches[index], event)
            if notices:
                notices.send(now)
            _refresh(screens, waits.watches)
            if len(screens) > 1 and now - summary_at >= SUMMARY_SECONDS and waits.summary() != summary:
                summary_at, summary = now, waits.summary()
                self.screen.display(f"{self.host}: {summary}")
            left = None if deadline is None else deadline - time.monotonic()
            if waits.done or (left is not None and left <= 0):  # type: ignore[redundant-expr]  # feed has changed it
                break
            pause = waits.delay(max(0.0, round_trip - seen.held))
            pause = pause if left is None else min(pause, left)
            if not (waits.holds() and seen.whole):
                time.sleep(pause)
                pause = 0.0
        for screen in screens:
            if isinstance(screen, Progress):
                screen.flush()
        return polls, asked, _lately(moments)


def _lately(moments: Sequence[float]) -> int:
    """How many of the moments are of the last minute."""
    return sum(moment > time.monotonic() - 60 for moment in moments)


def _refresh(screens: Screens, watches: Sequence[Watch]) -> None:
    """Show what a single launch does now, with or without news."""
    for screen in screens if len(screens) == 1 else ():
        if isinstance(screen, Waiting):
            screen.update(watches[0])
        else:
            screen.events([])


def _nothing_to_wait_for(launch: WaitedLaunch, reads: bool) -> bool:
    """Whether the first look is already final. `reads`: a log is to be read, which may exist even after the end."""
    if launch.report.job_id is None:
        return True
    return launch.report.completed and not launch.hidden and not reads


def _ends(launches: Sequence[WaitedLaunch]) -> list[tuple[LaunchReport, ModuleResult]]:
    return [(launch.report, launch.result) for launch in launches]
