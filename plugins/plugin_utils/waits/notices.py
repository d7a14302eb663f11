# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages that a wait sends (module job_notify). Imported only for launches that notify somebody.

Nothing here imports Ansible.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleAnswer,
    ModuleResult,
    Parameters,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch

PREFIX = "RANKZERO_NOTIFY_"
# Seconds until a message that was not delivered is tried again.
AGAIN = 60.0


@dataclass(frozen=True)
class _Message:
    """What became of a message, as module job_notify says it."""

    run_dir: str
    event: str
    receiver: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class _Sent(ModuleAnswer):
    """What module job_notify answers."""

    messages: Sequence[Parameters] = ()


class Notices:
    """Calls the module when a launch has something to tell.

    `call`: runs the module with these options; `say`: shows a line; `failing`: what a call raises that
    cannot be made. Times are seconds of the caller's monotonic clock.
    """

    def __init__(
        self,
        run_dirs: Iterable[str],
        call: Callable[[Parameters], ModuleResult],
        say: Callable[[str], None],
        environ: Mapping[str, str] | None = None,
        *,
        failing: tuple[type[Exception], ...] = (),
    ) -> None:
        self._failing: tuple[type[Exception], ...] = (*failing, OSError)
        self._run_dirs = list(run_dirs)
        self._call, self._say = call, say
        self._urls = {name: value for name, value in (environ or os.environ).items() if name.startswith(PREFIX)}
        self._due: dict[str, None] = {}
        self._stalled: dict[str, str] = {}
        self._stepping: set[str] = set()
        self._again: dict[str, float] = {}
        self._told: set[str] = set()

    def see(self, watch: Watch, event: Event) -> None:
        """Take note of an event of a launch."""
        run_dir, step = watch.run_dir, watch.metrics.step if watch.metrics else None
        if run_dir not in self._run_dirs:
            return
        if event.kind == "stalled":
            self._stalled[run_dir] = event.text
        first = event.kind == "metrics" and step is not None and run_dir not in self._stepping
        if first:
            self._stepping.add(run_dir)
        if first or event.kind in ("started", "stalled"):
            self._due[run_dir] = None

    def send(self, now: float) -> None:
        """Send what is due: after an event, and again for a while after a failure."""
        late = [run_dir for run_dir, moment in self._again.items() if now >= moment]
        run_dirs = list(dict.fromkeys([*self._due, *late]))
        if run_dirs:
            self._send(run_dirs, now)

    def end(self, now: float) -> None:
        """Send what there is to tell at the end of the wait."""
        self._send(self._run_dirs, now)

    def _send(self, run_dirs: list[str], now: float) -> None:
        self._due.clear()
        stalled = {run_dir: self._stalled.pop(run_dir) for run_dir in run_dirs if run_dir in self._stalled}
        try:
            result = self._call({"run_dirs": run_dirs, "urls": self._urls, "x_stalled": stalled})
        except self._failing as error:
            result = {"failed": True, "msg": str(error)}
        answer = record_of(_Sent, result)
        if answer.failed:
            # What is said of a lost connection is said by the wait itself.
            self._once("", f"notify: the messages could not be sent: {answer.msg}")
        for run_dir in run_dirs:
            self._again.pop(run_dir, None)
        for message in records_of(_Message, answer.messages):
            if message.state in ("failed", "waiting"):
                self._again[message.run_dir] = now + AGAIN
                if message.event == "stalled" and message.run_dir in stalled:
                    self._stalled[message.run_dir] = stalled[message.run_dir]
            if message.state in ("failed", "skipped"):
                self._once(
                    message.receiver, f"notify: {message.receiver} was not told `{message.event}`: {message.reason}"
                )

    def _once(self, receiver: str, text: str) -> None:
        if receiver not in self._told:
            self._told.add(receiver)
            self._say(text)
