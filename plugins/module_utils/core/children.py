# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run another program to its end, on the controller and the login node: what takes too long is an error for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core import programs
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

Ended = programs.Ended


class Late(RankzeroError):
    """A program had not ended in time, and was killed. `out`, `err`: what it had printed."""

    def __init__(self, program: str, seconds: float, out: bytes, err: bytes) -> None:
        super().__init__(f"{program} had not ended after {seconds:g} s and was killed. Run again.")
        self.out, self.err = out, err


def run(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    seconds: float | None = None,
    stdin: bytes = b"",
    cwd: str | None = None,
    joined: bool = False,
    most: int | None = None,
) -> Ended:
    """Run a program as `programs.run`. Raises OSError if it cannot be started, and Late.

    Without `seconds`, it belongs to the group of this process, so it ends with the connection, and after a day.
    """
    limit, group = programs.WORK_SECONDS if seconds is None else seconds, seconds is not None
    try:
        return programs.run(words, environment, limit, stdin=stdin, cwd=cwd, joined=joined, group=group, most=most)
    except programs.TooLate as late:
        raise Late(words[0], limit, late.out, late.err) from None
