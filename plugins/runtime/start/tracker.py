# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch's runs in its trackers: that of MLflow, which its first attempt makes and every later one uses, and where
people find them. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from urllib.parse import quote, urlsplit

from artifact import verdict
from core import files, processes
from core.log import log_line, publish_json
from core.state import Job

RECORD, PLACES = "mlflow.json", "trackers.json"
# {NAME} in a text of `places`, and what such a text may begin with: an address, or a variable with one or a folder.
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEAD = re.compile(r"https?://[^/{}]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
# How long (seconds) a server that does not answer is asked again, and how long the program has in all.
PATIENCE, LIMIT = 90, 150
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def mlflow(job: Job) -> None:
    """Export MLFLOW_RUN_ID, or end the script before its ranks: without it, each attempt would be a run of its own."""
    run = recorded(job)
    if not run:
        made = _make(job)
        temporary = job.path(f".{RECORD}.{job.id}.{os.getpid()}")
        try:
            publish_json(temporary, made)
            with contextlib.suppress(OSError):
                os.link(temporary, job.path(RECORD))
            os.unlink(temporary)
        except OSError as error:
            verdict.refuse(job, 73, f"trackers.mlflow: {job.path(RECORD)} cannot be written: {error.strerror}")
        # What is recorded counts.
        run = recorded(job)
        if not run:
            verdict.refuse(job, 73, f"trackers.mlflow: {job.path(RECORD)} cannot be read")
    job.export("MLFLOW_RUN_ID", run)


def recorded(job: Job) -> str:
    """The id of the run that an earlier attempt has recorded; empty where there is none."""
    if RECORD not in os.listdir(job.run_dir):
        return ""
    try:
        with open(job.path(RECORD), encoding="utf-8") as stream:
            run = json.loads(stream.read(1 << 16))["run_id"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return run if isinstance(run, str) and _IDENTIFIER.fullmatch(run) else ""


def record_places(job: Job) -> None:
    """Where people find the launch in its trackers, for the job's log, the verdict and the page of the launch."""
    rows = places(job)
    try:
        publish_json(job.path(PLACES), rows)
    except OSError as error:
        log_line(f"{job.path(PLACES)} cannot be written: {error.strerror}")
    for row in rows:
        log_line(f"{row['tracker']} run {row['run']}{': ' + row['place'] if row['place'] else ''}")


def places(job: Job) -> list[dict[str, str]]:
    """One row for each tracker of the contract. `place`: an address without credentials, a folder, or empty where it is
    not known.
    """
    try:
        declared = files.document(job.path("contract.json")).get("trackers", [])
    except (OSError, ValueError) as error:
        log_line(f"{job.path('contract.json')} cannot be read: {error}")
        return []
    rows = []
    for row in declared:
        run = job.get(row["run"])
        place = next((at for text in row["places"] if (at := _resolved(text, job)) is not None), "")
        if run == recorded(job):
            place = str(files.document(job.path(RECORD)).get("url") or "")
        if run:
            rows.append({"tracker": row["tracker"], "run": run, "place": place})
    return rows


def _resolved(text: str, job: Job) -> str | None:
    """Where a text of `places` leads; None where one of its variables is not set."""
    if not all(job.get(name) for name in _VARIABLE.findall(text)):
        return None
    head = _HEAD.match(text)
    # What comes first is a folder, or an address, whose user and password are not shown.
    start = _VARIABLE.sub(lambda match: job.get(match[1]), head[0] if head else "")
    rest = text[len(head[0]) :] if head else text
    if (start or rest).startswith("/"):
        return start + _VARIABLE.sub(lambda match: job.get(match[1]), rest)
    server = _server(start)
    return server and server + _VARIABLE.sub(lambda match: quote(job.get(match[1]), safe=""), rest)


def _server(address: str) -> str:
    """A server's address without user and password; empty for anything that is no address of the web."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    if parts.scheme not in ("http", "https") or not host:
        return ""
    return f"{parts.scheme}://{host}{port}{quote(parts.path.rstrip('/'))}"


def _make(job: Job) -> dict[str, object]:
    """Ask MLflow in a process of its own: a server that hangs must not hold the script."""
    program = os.path.join(job.runtime, "start", "mlflow_run.py")
    words = [job.python, "-I", "-S", program, job.run_dir, str(PATIENCE)]
    code, text = processes.output_of(LIMIT, words, job.env, both=True)
    lines = text.strip().splitlines() or [f"exit code {code}"]
    if code != 0:
        verdict.refuse(job, 69, f"trackers.mlflow: {lines[-1]}; nothing was run")
    made: dict[str, object] = json.loads(lines[-1])
    return made
