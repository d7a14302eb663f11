# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the end of a job's steps from accounting: state, exit codes, and the most memory that a task used.

Source: sacct(1). ExitCode is CODE:SIGNAL; DerivedExitCode is the highest exit code of any step. MaxRSS is sampled, so
it misses memory that grew and was freed by a kill between two samples. Without accounting nothing is known here. On a
busy site the record of a job's start may arrive after that of its end: until then the row of the job has the name
"allocation", and 2^64 MiB of requested memory.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse, states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import DEFAULT_REACH, Slurm, submitted_from

COLUMNS = (
    "JobID", "State", "ExitCode", "DerivedExitCode", "MaxRSS", "MaxRSSNode", "ReqMem", "NodeList", "JobName",
)  # fmt: skip
# From this fraction of the requested memory on, memory counts as used up.
FULL = 0.9
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)(?:[cn])?")
# What a row says in place of values that accounting does not know yet.
_NO_NAME, _NO_SIZE = "allocation", 1 << 60
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


@dataclass(frozen=True)
class StepEnd:
    """How one step of a job ended; the allocation is a row as well. Memory is in bytes, unknown values are None."""

    step: str
    name: str
    state: str
    exit_code: int | None = None
    signal: int | None = None
    derived: int | None = None
    max_rss: int | None = None
    max_rss_node: str = ""
    asked: int | None = None
    nodes: str = ""

    @property
    def code(self) -> int | None:
        """The exit code as a shell shows it: 128 + N for signal N."""
        return 128 + self.signal if self.signal and self.signal != 125 else self.exit_code

    @property
    def memory_is_used_up(self) -> bool:
        """Whether the largest resident size reached at least 90 % of the memory that the step requested."""
        return bool(self.max_rss and self.asked and self.max_rss >= FULL * self.asked)

    @property
    def sentence(self) -> str:
        """State, signal or exit code, and the largest resident size with its node, for people."""
        words = f"step {self.step}" + (f" ({self.name})" if self.name else "") + f" {self.state}"
        if self.signal and self.signal != 125:
            words += f", signal {self.signal}"
        elif self.exit_code:
            words += f", exit code {self.exit_code}"
        if self.derived:
            words += f", derived exit code {self.derived}"
        if self.max_rss:
            words += f", MaxRSS {in_words(self.max_rss)}"
            words += f" on {self.max_rss_node}" if self.max_rss_node else ""
            words += f" of {in_words(self.asked)} asked" if self.asked else ""
        return words

    def as_dict(self) -> ModuleResult:
        """Return the fields as modules return them."""
        return asdict(self)


def in_words(size: int) -> str:
    """Return bytes as text: 298.5 MiB."""
    value, unit = float(size), 0
    while value >= 1024 and unit < 5:
        value, unit = value / 1024, unit + 1
    return f"{value:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit]}"


def size_of(text: str) -> int | None:
    """Return the bytes in 305612K, 300M or 4Gn; None if nothing was sampled or is known. A bare number is in bytes."""
    match = _SIZE.fullmatch(text.strip())
    size = round(float(match[1]) * 1024 ** _POWERS[match[2]]) if match else 0
    return size if 0 < size < _NO_SIZE else None


def from_row(row: dict[str, str]) -> StepEnd:
    """Build a step from a row of `sacct --parsable2`, a dict with the columns as keys."""
    state = states.state_of(row["State"])
    exit_code, signal = parse.parse_exit(row["ExitCode"])
    derived, _signal = parse.parse_exit(row["DerivedExitCode"])
    return StepEnd(
        step=row["JobID"],
        name="" if row["JobName"] == _NO_NAME else row["JobName"],
        state=state,
        exit_code=exit_code,
        signal=signal,
        derived=derived,
        max_rss=size_of(row["MaxRSS"]),
        max_rss_node=row["MaxRSSNode"],
        asked=size_of(row["ReqMem"]),
        nodes=row["NodeList"],
    )


def step_ends(slurm: Slurm, job_id: str, *, since: float | None = None) -> list[StepEnd]:
    """Return the newest attempt of a job and its steps, in order; empty if accounting is absent, disabled or silent."""
    if slurm.accounting in ("disabled", "silent") or slurm.find("sacct") is None:
        return []
    reach = submitted_from(since) or time.time() - DEFAULT_REACH
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(max(reach, 0)))
    result = slurm.attempt(
        "sacct", "--noheader", "--noconvert", "--parsable2", f"--delimiter={parse.FIELD}", f"--starttime={start}",
        f"--format={','.join(COLUMNS)}", f"--jobs={job_id}",
    )  # fmt: skip
    if result.rc != 0:
        return []
    rows, warnings = parse.parse_lines(result.stdout, COLUMNS)
    for warning in warnings:
        slurm.note(f"sacct: {warning}")
    ends = [from_row(row) for row in rows]
    asked = next((end.asked for end in ends if end.asked), None)
    # ReqMem is given only for the allocation; each step may use that much.
    return [end if end.asked else _with_asked(end, asked) for end in ends]


def _with_asked(end: StepEnd, asked: int | None) -> StepEnd:
    return StepEnd(**{**asdict(end), "asked": asked})


def worst(ends: Sequence[StepEnd]) -> StepEnd | None:
    """Return the step that explains a failure best: killed for memory, then by a signal, then by an exit code.

    A step that was ended as a consequence of another failure (exit code 143 or 15) never wins over these.
    """
    failed = [end for end in ends if end.state not in ("COMPLETED", "RUNNING", "PENDING")]

    def rank(end: StepEnd) -> tuple[bool, bool, bool, int]:
        own = end.code not in (None, 0, 143, 15)
        return (end.state == "OUT_OF_MEMORY", own and bool(end.signal), own, end.max_rss or 0)

    return max(failed, key=rank, default=None)
