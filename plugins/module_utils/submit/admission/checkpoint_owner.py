# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a job is submitted: which other launches name its folder of checkpoints, and whether one of them is active.

The job itself takes the folder when it runs (runtime/owner.py), and that decides. This is the early word: a job that
still waits in the queue has taken nothing, so each submission leaves its run directory's path in the folder.
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
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request

PLACE = ".rankzero"
SUBMITTED = "submitted."
OWNER = "owner."
# A word of a submission or an owner is one small object.
ENTRY_BYTES = 64 << 10


def check(slurm: Slurm, request: Request, *, clean: bool) -> None:
    """Raises `RankzeroError` where another launch has the request's folder of checkpoints now, and `SlurmUnavailable`
    where only Slurm could tell and is silent. `clean`: forget the submissions that are over.
    """
    directory = request.checkpoint_dir
    if directory is None:
        return
    # Imported here: most launches name no folder, and a launch pays for each module that is compiled.
    from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
    from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import report, sound
    from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity

    others = {}
    for path, entry in _entries(os.path.join(directory, PLACE)):
        run_dir = str(entry.get("run_dir", ""))
        with contextlib.suppress(RankzeroError):
            identity(run_dir)
            if os.path.dirname(run_dir) != request.runs_dir:
                others[run_dir] = (path, entry)
    runs, unsound = sound([RunDirectory(run_dir) for run_dir in sorted(others)])
    for path, why in unsound.items():
        slurm.note(f"checkpoint.dir: {directory} names the launch {path}, which counts for nothing: {why}")
    if not runs:
        return
    answer = ask_slurm(slurm, runs)
    for run in runs:
        path, entry = others[run.path]
        found = report(slurm, run, answer)
        if found.active and answer.silent:
            raise SlurmUnavailable(
                f"checkpoint.dir: {directory} was given to job {found.job_id} ({run.path}), and Slurm does not say "
                f"whether it is over ({answer.silent}). Nothing is submitted; try again later."
            )
        if found.active:
            who = f"{found.name}, generation {found.generation} of key {found.key}"
            raise RankzeroError(
                f"checkpoint.dir: {directory} belongs to job {found.job_id} of {entry.get('user', 'unknown')} "
                f"({who}; {found.state}), which is still active. Wait for its end, cancel it (scancel "
                f"{found.job_id}), or name another folder."
            )
        if clean and os.path.basename(path).startswith(SUBMITTED):
            with contextlib.suppress(OSError):
                os.unlink(path)


def register(slurm: Slurm, request: Request, run: RunDirectory) -> None:
    """Leave word that this generation is about to be submitted. A folder that cannot be written here is noted."""
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
    """(path, content) of what submissions and owners have left; nothing where the folder cannot be seen from here."""
    for name in Beneath(os.path.realpath(place)).names(""):
        if name.startswith((SUBMITTED, OWNER)) and not name.endswith(".tmp"):
            # Several users may share the folder: each file is its writer's word, and read as that.
            entry = state_files.json_object(Beneath(os.path.realpath(place)).text(name, ENTRY_BYTES))
            if entry is not None:
                yield os.path.join(place, name), entry
