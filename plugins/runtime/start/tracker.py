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
from core.log import publish_json, say
from core.state import Job

RECORD, PLACES = "mlflow.json", "trackers.json"
WANDB = "https://wandb.ai"
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
        say(f"{job.path(PLACES)} cannot be written: {error.strerror}")
    for row in rows:
        say(f"{row['tracker']} run {row['run']}{': ' + row['place'] if row['place'] else ''}")


def places(job: Job) -> list[dict[str, str]]:
    """One row for each tracker. `place`: an address without credentials, a folder, or empty where it is not known."""
    run, rows = job.get("RANKZERO_TRACKER_RUN"), []
    if job.get("WANDB_RUN_ID"):
        names = [quote(job.get(name), safe="") for name in ("WANDB_ENTITY", "WANDB_PROJECT", "WANDB_RUN_ID")]
        server = _server(job.get("WANDB_BASE_URL") or WANDB)
        # Without an entity it is that of the user whose key is used.
        known = server and names[0] and names[1]
        place = f"{server}/{names[0]}/{names[1]}/runs/{names[2]}" if known else ""
        rows.append({"tracker": "wandb", "run": job.get("WANDB_RUN_ID"), "place": place})
    if recorded(job):
        place = str(files.document(job.path(RECORD)).get("url") or "")
        rows.append({"tracker": "mlflow", "run": recorded(job), "place": place})
    for tracker, name in (("tensorboard", "TENSORBOARD_LOGGING_DIR"), ("trackio", "TRACKIO_DIR")):
        if job.get(name):
            server = _server(job.get("TRACKIO_SERVER_URL")) if tracker == "trackio" else ""
            rows.append({"tracker": tracker, "run": run, "place": server or job.get(name)})
    return rows


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
