# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the nodes of a running job what its ranks do (runtime/rank/stacks.py), and wait for their answers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

# How long (seconds) the nodes may take, and the size limit of a node's file in bytes.
PATIENCE, POLL_SECONDS, MOST_BYTES = 12.0, 0.5, 8_000_000
# Before a cancellation they are asked only where none of LOGS logs has grown for SILENT seconds, and not for so long.
SILENT, SHORT, LOGS = 30.0, 6.0, 16
# A snapshot of the code in a store, and a node's own view of it (runtime/core/workdir.py).
_CODE = re.compile(r"(?:/[^/\s\"\\]{1,255}){1,40}/code/[0-9a-f]{16,64}/|/tmp/rankzero-\d{1,10}-[^/\s\"]{1,100}/code/")


def query_ranks(
    run: RunDirectory,
    attempt: int,
    sleep: Callable[[float], None] = time.sleep,
    patience: float = PATIENCE,
    seconds: int = 0,
) -> list[JsonObject]:
    """What each node of a launch answers; fewer where some do not answer in time. Nothing of another user's launch.

    `seconds`: for how long they look again and again before they answer (looks_of).
    """
    folder = os.path.join("stacks", str(attempt))
    if run.foreign:
        return []
    number = secrets.token_hex(8) + (f" {seconds}" if seconds else "")
    try:
        state_files.write(run.file(os.path.join(folder, "request")), number)
    except OSError:
        return []
    nodes, answers = len((run.started() or {}).get("nodes") or []), _answers(run, folder, number)
    for _poll in range(int((patience + seconds) / POLL_SECONDS)):
        if len(answers) >= max(1, nodes):
            break
        sleep(POLL_SECONDS)
        answers = _answers(run, folder, number)
    return answers


def looks_of(answers: Sequence[JsonObject]) -> list[list[JsonObject]]:
    """The looks of all nodes one after the other, each as if it were an answer."""
    rows = []
    for answer in answers:
        earlier = answer.get("earlier")
        rows.append(
            [{**answer, **look} for look in (earlier if isinstance(earlier, list) else []) if isinstance(look, dict)]
        )
        rows[-1].append(answer)
    return [[look for look in looks if look is not None] for looks in zip_longest(*rows)]


def recorded(run: RunDirectory, attempt: int) -> list[JsonObject]:
    """The newest answer of each node, whatever it was asked for: a request, the time limit, or a silent log. Only those
    of the newest look count: nodes whose ranks have ended do not answer any more.
    """
    answers = _answers(run, os.path.join("stacks", str(attempt)), None)
    times = [when if isinstance(when := answer.get("time"), (int, float)) else 0.0 for answer in answers]
    return [answer for answer, when in zip(answers, times) if when >= max(times) - SILENT]


def before_the_end(run: RunDirectory, now: float, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Have the nodes record what the ranks do, before the job is cancelled, if its logs are silent; whether they did.

    A job whose nodes are not sampled cannot answer, and is not asked.
    """
    started = run.started()
    if started is None or run.foreign:
        return False
    attempt = started["attempt"]
    logs = [name for name in run.names(f"logs/{attempt}") if name.endswith(".log")][:LOGS]
    written = max((run.changed(f"logs/{attempt}/{name}") for name in logs), default=now)
    if now - written < SILENT or not run.names(f"monitor/{attempt}"):
        return False
    return bool(query_ranks(run, attempt, sleep, SHORT))


def _paths(run: RunDirectory) -> Callable[[str], str]:
    """What shows the files of the program in an answer as `work/train.py`, relative to the run directory, wherever the
    snapshot of the code lies on the nodes.
    """
    places = [json.dumps(path + os.sep)[1:-1] for path in dict.fromkeys((run.path, os.path.realpath(run.path)))]

    def shown(text: str) -> str:
        for place in places:
            text = text.replace(place, "")
        return _CODE.sub("work/", text)

    return shown


def _answers(run: RunDirectory, folder: str, number: str | None) -> list[JsonObject]:
    answers, shown = [], _paths(run)
    for name in run.names(folder):
        if name.endswith(".json"):
            with contextlib.suppress(OSError, Untrusted):
                document = state_files.json_object(shown(run.text(os.path.join(folder, name), MOST_BYTES)))
                if document is not None and number in (None, document.get("request")):
                    answers.append(document)
    return answers
