# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits under faults: a real ansible-playbook that makes launches and waits for them, and when each wait ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.faults import ledger, playing
from benchmarks.faults.ground import ROOT, Case, Ground

#: Seconds after the fact within which a wait must end, and after its program within which a proven job must end.
LATE, ALIVE = 60.0, 10.0
_CALLBACKS = ROOT / "tests" / "cluster" / "callback_plugins"
_WAIT = "rankzero.slurm.job_wait"


@dataclass(frozen=True)
class Wait:
    """A wait that began. `at`: when it ended, in epoch seconds; None if it had to be killed."""

    name: str
    at: float | None
    result: dict[str, Any]

    def late(self, faults: Sequence[tuple[float, float]]) -> str:
        """Why the wait ended too late; "" if it did not. `faults`: when each began and was mended.

        While something is broken, the end may be unknown: that time does not count.
        """
        if self.at is None:
            return "it did not end"
        end = self.result.get("finished_at")
        if not self.result.get("completed") or end is None:
            # It said that it cannot tell, or that there is nothing to wait for.
            return ""
        over = self.at - float(end) - covered(faults, float(end), self.at)
        return f"{over:.0f} s after the fact" if over > LATE else ""


def covered(spans: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """The seconds between `begin` and `end` that lie in at least one span."""
    seconds, last = 0.0, begin
    for first, until in sorted(spans):
        first, until = max(first, last), min(until, end)
        seconds += max(0.0, until - first)
        last = max(last, until)
    return seconds


class Waiting:
    """One playbook that makes launches at their times, and waits for each of them."""

    def __init__(self, ground: Ground, cases: Sequence[Case], starts: Sequence[float]) -> None:
        self.cases = cases
        begun = time.time()
        tasks = [
            {
                "ansible.builtin.debug": {"msg": "now"},
                "until": "now().timestamp() >= start",
                "retries": 1000,
                "delay": 1,
            },
            # As a user who is refused while something is broken.
            {**playing.TASKS[0], "until": "launch is not failed", "retries": 15, "delay": 2},
            *playing.TASKS[1:],
        ]
        each = {case.name: {"start": begun + start} for case, start in zip(cases, starts)}
        self.playbook, inventory = playing.files(ground, cases, tasks=tasks, each=each)
        self.record = self.playbook.with_name("record")
        environment = {
            **playing.environment(self.playbook.parent),
            "ANSIBLE_FORKS": str(len(cases)),
            "ANSIBLE_CALLBACK_PLUGINS": str(_CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "rankzero_record",
            "RANKZERO_TEST_RECORD": str(self.record),
        }
        with self.playbook.with_name("log").open("wb") as stream:
            self.process = subprocess.Popen(
                ["ansible-playbook", "-i", str(inventory), str(self.playbook)],
                env=environment, cwd=self.playbook.parent, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True,
            )  # fmt: skip

    def launched(self, patience: float) -> None:
        """Wait until every launch has been made or refused."""
        deadline = time.monotonic() + patience
        while self.process.poll() is None and time.monotonic() < deadline:
            if len(self._told("rankzero.slurm.job")) == len(self.cases):
                return
            time.sleep(0.5)

    def refused(self) -> str:
        """Why no launch was made at all; "" if one was: the playbook itself may be wrong."""
        told = list(self._told("rankzero.slurm.job").values())
        if any(line["outcome"] == "ok" for line in told):
            return ""
        return f"no launch by the playbook: {told[0]['result'].get('msg') if told else 'see its log'}"

    def end(self, patience: float) -> list[Wait]:
        """Wait for the playbook, kill it after `patience` seconds, and return all waits that began."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        if self.process.poll() is None:
            for pid in [self.process.pid, *playing.descendants(self.process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        ended = self._told(_WAIT)
        waits = []
        for name, line in self._told("rankzero.slurm.job").items():
            if line["outcome"] == "ok":
                last = ended.get(name, {})
                waits.append(Wait(name, last.get("at"), last.get("result", {})))
        return waits

    def _told(self, action: str) -> dict[str, Any]:
        """Host -> the last line of the record about its task of this kind."""
        try:
            lines = self.record.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        told = [json.loads(line) for line in lines if line.endswith("}")]
        return {line["host"]: line for line in told if line["action"] == action}


def alive(case: Case, ends: Mapping[str, tuple[float | None, str]], faults: Sequence[tuple[float, float]]) -> str:
    """Whether a job lived too long after its program had ended with a proof; "" if it did not.

    `ends`: job -> when it ended, and its state. `faults`: as in `Wait.late`; a job may end while something is broken.
    """
    for part in case.parts():
        if not part.proofs():
            continue
        files = {path.name: path.stat().st_mtime for path in part.ledger.glob("run.*.ended")}
        begun = {path.name: path.stat().st_mtime for path in part.ledger.glob("run.*.begun")}
        whole = {run.job: run.alive for run in ledger.parse({**begun, **files}) if run.alive > run.begun}
        for job, ended in whole.items():
            end, state = ends.get(job, (None, ""))
            if end is not None and end - ended - covered(faults, ended, end) > ALIVE:
                return f"job {job} ({state}) ended {end - ended:.0f} s after its program"
    return ""
