# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that starts first (`rankzero run --first`): the files that let one of several clusters run a launch.

Each run directory has `first.json`, what the launch was submitted with, `asks`, once its job has its nodes, and
`grant`. The arbiter, the run directory of the first cluster named, has `winner` as well. Winner and grant are made
once, by a link, whoever makes them: a generation has one winner for ever, and a job runs only if its grant says so. A
job that waits no longer makes its own grant, which says that it is withdrawn.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

FIRST, ASKS, GRANT, WINNER = "first.json", "asks", "grant", "winner"
# The first word of a grant, and the winner of a generation that another one has followed before there was any.
GRANTED, NOBODY = "granted", "nobody"


@dataclass(frozen=True)
class Winner:
    """The cluster that runs a launch, by its name in `--first`, and the run directory there."""

    cluster: str
    run_dir: str

    @classmethod
    def of(cls, line: str) -> Winner | None:
        """Read the line of a winner; None if there is none (yet)."""
        cluster, _blank, run_dir = line.strip().partition(" ")
        return cls(cluster, run_dir) if run_dir else None

    @property
    def line(self) -> str:
        """The line of the file."""
        return f"{self.cluster} {self.run_dir}"


def clusters_of(run: RunDirectory) -> list[str]:
    """Return the clusters that a generation was submitted to, the arbiter first; [] if it waits for no grant."""
    names = (run.document(FIRST) or {}).get("clusters")
    return [str(name) for name in names] if isinstance(names, Sequence) and not isinstance(names, str) else []


def made_once(run: RunDirectory, name: str, line: str) -> str:
    """Make a file of one line unless there is one, and return the line that it has for ever.

    The reply of a file server may be lost, so the file is read back. Raises OSError if it cannot be.
    """
    temporary = run.file(f".{name}.{socket.gethostname()}.{os.getpid()}")
    with contextlib.suppress(OSError):
        # Of a process that was killed.
        os.unlink(temporary)
    state_files.create(temporary, f"{line}\n", durably=True)
    try:
        with contextlib.suppress(OSError):
            os.link(temporary, run.file(name))
        text = run.text(name).strip()
    finally:
        os.unlink(temporary)
    if not text:
        raise OSError(5, "can be neither made nor read", run.file(name))
    return text


def followed_elsewhere(run: RunDirectory, *, close: bool) -> Winner | None:
    """Return the winner if this generation is the arbiter of a launch that another cluster runs.

    A generation without a winner gets none any more (`close`): another one follows it. Raises OSError.
    """
    clusters = clusters_of(run)
    if not clusters:
        return None
    winner = Winner.of(made_once(run, WINNER, NOBODY) if close else run.text(WINNER))
    return winner if winner and winner.cluster != clusters[0] else None
