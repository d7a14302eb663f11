# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check before a submission whether another active launch uses the same checkpoint folder.

The job itself takes the folder when it runs (runtime/owner.py), and that decides. This check is earlier: a job in the
queue has not taken the folder yet, so each submission records its run directory's path in the folder.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import trusted_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request

PLACE = ".rankzero"
SUBMITTED = "submitted."
OWNER = "owner."
# Size limit for the entry of a submission or an owner, which is one small object.
ENTRY_BYTES = 64 << 10


def check(slurm: Slurm, request: Request, *, clean: bool) -> None:
    """Check that no other active launch has the request's checkpoint folder.

    Raises `RankzeroError` if one has, and `SlurmUnavailable` if only Slurm can tell and does not answer. `clean`:
    remove the entries of launches that are over.
    """
    directory = request.checkpoint_dir
    if directory is None:
        return
    others = {}
    for path, entry in _entries(os.path.join(directory, PLACE)):
        run_dir = str(entry.get("run_dir", ""))
        with contextlib.suppress(RankzeroError):
            identity(run_dir)
            if os.path.dirname(run_dir) != request.runs_dir:
                others[run_dir] = (path, entry)
    known, refused = trusted_runs([RunDirectory(run_dir) for run_dir in sorted(others)])
    for path, why in refused.items():
        slurm.note(f"checkpoint.dir: {directory} names the launch {path}, which counts for nothing: {why}")
    if not known:
        return
    runs = [facts.run for facts in known.values()]
    answer = ask_slurm(slurm, runs, read=known)
    for run in runs:
        path, entry = others[run.path]
        status = answer.status(run)
        if status.may_run and answer.silent:
            raise SlurmUnavailable(
                f"checkpoint.dir: {directory} was given to job {status.job_id} ({run.path}), and Slurm does not say "
                f"whether it is over ({answer.silent}). Nothing is submitted; try again later."
            )
        if status.may_run:
            owner = identity(run.path)
            who = f"{owner.name}, generation {owner.generation} of key {owner.key}"
            raise RankzeroError(
                f"checkpoint.dir: {directory} belongs to job {status.job_id} of {entry.get('user', 'unknown')} "
                f"({who}; {status.standing}), which is still active. Wait for its end, cancel it (scancel "
                f"{status.job_id}), or name another folder."
            )
        if clean and os.path.basename(path).startswith(SUBMITTED):
            with contextlib.suppress(OSError):
                os.unlink(path)


def register(slurm: Slurm, request: Request, run: RunDirectory) -> None:
    """Record in the checkpoint folder that this generation is about to be submitted. A failure is only noted."""
    directory = request.checkpoint_dir
    if directory is None:
        return
    place = os.path.join(directory, PLACE)
    entry = {"run_dir": run.path, "user": getpass.getuser()}
    target = os.path.join(place, SUBMITTED + hashlib.sha256(run.path.encode()).hexdigest()[:16])
    try:
        os.makedirs(place, exist_ok=True)
        state_files.write(target, json.dumps(entry))
    except OSError as error:
        slurm.note(
            f"checkpoint.dir: {directory} cannot be written on this host ({error.strerror}): whether another launch "
            "uses it is found out by the job itself"
        )


def _entries(place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path, content) of the entries of submissions and owners; nothing if the folder is not visible."""
    for name in Beneath(os.path.realpath(place)).names(""):
        if name.startswith((SUBMITTED, OWNER)) and not name.endswith(".tmp"):
            # Several users may share the folder, so each file is read as an unverified statement of its writer.
            entry = state_files.json_object(Beneath(os.path.realpath(place)).text(name, ENTRY_BYTES))
            if entry is not None:
                yield os.path.join(place, name), entry
