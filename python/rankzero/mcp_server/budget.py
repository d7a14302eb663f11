# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the launches of a server may use in all. It outlives the server: one that was killed goes on where it was.

The file has a line for each reservation; of several for a launch the last one counts. A reservation is written before
its launch is asked for, and stays, whatever becomes of the launch: how much a job has used is known only at its end.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from rankzero.errors import Refused, UsageError


@dataclass
class Hold:
    """A reservation during its call. `unused`: the call has submitted nothing, and could not have."""

    unused: bool = False


class Budget:
    """The node-minutes that launches may use. `most`: all of them together; `file`: their reservations."""

    def __init__(self, file: str, most: int) -> None:
        self.file, self.most = file, most

    @contextmanager
    def held(self, launch: str, minutes: int) -> Iterator[Hold]:
        """Reserve what a launch may use, during a call for it and after it. Each call waits for the one before.

        Raises Refused if that is more than is left.
        """
        os.makedirs(os.path.dirname(self.file), mode=0o700, exist_ok=True)
        with open(os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            reserved = _read(stream)
            before = reserved.get(launch, 0)
            left = self.most - sum(reserved.values()) + before
            if minutes > left:
                raise Refused(
                    f"budget: this launch may use {minutes} node-minutes, and {left} of {self.most} are left for it. "
                    f"Ask for fewer nodes or a shorter time, or let a person raise --budget or remove {self.file}."
                )
            hold = Hold()
            if minutes > before:
                _write(stream, launch, minutes)
            yield hold
            if hold.unused and minutes > before:
                _write(stream, launch, before)


def _read(stream: IO[str]) -> dict[str, int]:
    stream.seek(0)
    reserved: dict[str, int] = {}
    for line in stream:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the writer was killed: it had not asked for the launch
        reserved[row["launch"]] = row["minutes"]
    return reserved


def _write(stream: IO[str], launch: str, minutes: int) -> None:
    # The line before may lack its end.
    stream.write("\n" + json.dumps({"launch": launch, "minutes": minutes}) + "\n")
    stream.flush()
    os.fsync(stream.fileno())


def budget_of(given: str | None, jobs: str) -> Budget | None:
    """The budget that --budget gives, such as node_hours=4, for the jobs of a folder. Raises UsageError."""
    if given is None:
        return None
    name, _equals, hours = given.partition("=")
    try:
        minutes = int(round(float(hours) * 60, 6))
    except (ValueError, OverflowError):
        minutes = -1
    if name != "node_hours" or minutes < 0:
        raise UsageError(f"--budget {given}: expected node_hours=NUMBER, for example --budget node_hours=4")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    digest = hashlib.sha256(os.path.realpath(jobs).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Budget(os.path.join(state, "rankzero", "budgets", f"{digest}.jsonl"), minutes)
