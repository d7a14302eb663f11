# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the nodes of a running job for the stacks of its ranks, and read them (runtime/rank/stacks.py)."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import regular
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import flight_recorder
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.flight_recorder import (
    Group,
    Refused,
    groups_of,
    plain,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

# How long (seconds) the nodes may take, and the size limit of a node's file in bytes.
PATIENCE, POLL_SECONDS, MOST_BYTES = 12.0, 0.5, 8_000_000
# The bytes that are read of all dumps together.
ALL_BYTES = 64_000_000
# As rank.sh names them.
_DUMP = re.compile(r"trace-(\d{1,7})")


def ask(
    run: RunDirectory,
    attempt: int,
    nodes: int,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[JsonObject]:
    """What each of `nodes` nodes answers; fewer where some do not answer in time. Nothing of another user's launch."""
    folder = os.path.join("stacks", str(attempt))
    if run.foreign:
        return []
    number = secrets.token_hex(8)
    try:
        state_files.write(run.file(os.path.join(folder, "request")), number)
    except OSError:
        return []
    deadline = clock() + PATIENCE
    while True:
        answers = _answers(run, folder, number)
        if len(answers) >= max(1, nodes) or clock() >= deadline:
            return answers
        sleep(POLL_SECONDS)


def recorded(run: RunDirectory, attempt: int) -> list[JsonObject]:
    """The newest answer of each node, whatever it was asked for: a request, or the time limit."""
    return _answers(run, os.path.join("stacks", str(attempt)), None)


def dumps(run: RunDirectory, attempt: int) -> dict[int, tuple[Group, ...]]:
    """Rank -> its newest collectives, from the dumps that torch wrote at a timeout. What cannot be read is left out."""
    folder, read = os.path.join("stacks", str(attempt)), 0
    newest: dict[int, tuple[Group, ...]] = {}
    for name in [] if run.foreign else run.names(folder):
        match = _DUMP.fullmatch(name)
        if match and read <= ALL_BYTES:
            with contextlib.suppress(OSError, Refused), regular(run.file(os.path.join(folder, name))) as stream:
                content = stream.read(flight_recorder.MOST_BYTES + 1)
                read += len(content)
                newest[int(match[1])] = groups_of(plain(content))
    return newest


def _answers(run: RunDirectory, folder: str, number: str | None) -> list[JsonObject]:
    answers = []
    for name in run.names(folder):
        if name.endswith(".json"):
            with contextlib.suppress(OSError, Untrusted):
                document = state_files.json_object(run.text(os.path.join(folder, name), MOST_BYTES))
                if document is not None and number in (None, document.get("request")):
                    answers.append(document)
    return answers
