# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands about 16,400 jobs: few commands, and none that Linux refuses with "Argument list too long"."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm, batches
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    SQUEUE_COLUMNS,
    find_by_id,
    find_by_name,
)

COUNT = 16_400
#: Linux's limit for one argument, MAX_ARG_STRLEN.
ARGUMENT = 128 * 1024
IDS = [str(10_000_000 + number) for number in range(COUNT)]


class Recorded:
    """Slurm's commands with their real command lines: each is given to /bin/true, which Linux must start."""

    def __init__(self, waiting: Mapping[str, str]) -> None:
        #: The jobs in the queue: id -> name.
        self.waiting = waiting
        self.lines: list[list[str]] = []
        self.slurm = Slurm(self.run, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")

    def run(
        self,
        argv: Sequence[str],
        timeout: float,
        environment: Mapping[str, str],
        stdin: str | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        subprocess.run(["/bin/true", *argv[1:]], check=True, timeout=timeout)
        self.lines.append(list(argv))
        chosen = {word.partition("=")[0]: word.partition("=")[2].split(",") for word in argv}
        ids, names = chosen.get("--jobs"), set(chosen.get("--name", ()))
        rows = ""
        if argv[0].endswith("squeue"):
            shown = [
                (job_id, name)
                for job_id, name in (
                    [(each, self.waiting[each]) for each in ids if each in self.waiting]
                    if ids is not None
                    else self.waiting.items()
                )
                if ids is not None or name in names
            ]
            values = {"State": "PENDING", "TimeUsed": "0:00", "restartcnt": "0", "SubmitTime": "4000000000"}
            rows = "".join(
                parse.FIELD.join({**values, "JobArrayID": job_id, "Name": name}.get(key, "") for key in SQUEUE_COLUMNS)
                + parse.RECORD
                for job_id, name in shown
            )
        return CommandResult(tuple(argv), 0, rows, "")

    def counts(self) -> dict[str, int]:
        """How often each command ran."""
        names = [line[0].rpartition("/")[2] for line in self.lines]
        return {name: names.count(name) for name in names}

    def longest(self) -> int:
        """The bytes of the longest argument."""
        return max(len(word.encode()) + 1 for line in self.lines for word in line)


def test_jobs_by_id() -> None:
    half = Recorded(dict.fromkeys(IDS[::2], "job"))
    found = find_by_id(half.slurm, IDS)
    assert set(found) == set(IDS[::2])
    # Those that are gone are looked up in accounting, not one by one.
    assert half.counts() == {"squeue": 2, "sacct": 1} and half.longest() < ARGUMENT
    half.lines.clear()
    assert steps.find(half.slurm, dict.fromkeys(IDS, "job"), since=None).keys() == found.keys()
    assert half.counts() == {"squeue": 2, "sacct": 1} and half.longest() < ARGUMENT


def test_jobs_by_name() -> None:
    names = [f"a-long-name-of-a-launch.{number:016x}.1" for number in range(COUNT)]
    some = Recorded(dict(zip(IDS, names[::2])))
    found = find_by_name(some.slurm, names, since=0.0)
    assert [record.name for record in found] == names[::2]
    assert some.counts() == {"squeue": 8, "sacct": 4} and some.longest() < ARGUMENT


def test_cancelling() -> None:
    slurm = Recorded({})
    slurm.slurm.cancel([*IDS, IDS[0]])
    assert slurm.counts() == {"scancel": 2}
    assert [word for line in slurm.lines for word in line[1:]] == IDS
    slurm.slurm.cancel([])
    assert len(slurm.lines) == 2


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], []),
        (["1", "2", "3"], [["1", "2"], ["3"]]),
        (["12345", "1"], [["12345"], ["1"]]),
        (["\u00e9", "2", "3"], [["\u00e9"], ["2", "3"]]),
    ],
)
def test_batches(words: list[str], parts: list[list[str]]) -> None:
    assert list(batches(words, 4)) == parts
