# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select launches: the options that name a launch, and the run directories they refer to. Reads only.

RUN = <state_root>/runs/<name>/<key[:16]>/<generation>/
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, array_of, generations

DEFAULT_STATE_ROOT = "~/.rankzero/state"
KEY_LENGTH = 16

# The options that name launches; the doc fragment rankzero.slurm.store.run describes them.
RUN_ARGUMENTS: dict[str, Any] = {
    "run_dir": {"type": "path"},
    "name": {"type": "str"},
    "key": {"type": "str", "no_log": False},
    "generation": {"type": "int"},
    "job_id": {"type": "str"},
    "state_root": {"type": "path", "default": DEFAULT_STATE_ROOT},
}

# doc fragment rankzero.slurm.wait
WAIT_ARGUMENTS: dict[str, Any] = {
    "wait_timeout": {"type": "int", "default": 0},
    "poll_min": {"type": "float", "default": 0.5},
    "poll_max": {"type": "float", "default": 10.0},
    "outcome_grace": {"type": "int", "default": 40},
    "reconnect_timeout": {"type": "int", "default": 120},
    "queue_budget": {"type": "int", "default": 60},
}
WAIT_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    **WAIT_ARGUMENTS,
    "run_dirs": {"type": "list", "elements": "path"},
    "until": {"type": "str", "choices": ["started", "artifact", "pattern", "finished"], "default": "finished"},
    "pattern": {"type": "str"},
    "log": {"type": "str", "default": ""},
    "logs_dest": {"type": "path"},
    "_settle": {"type": "float", "default": 0.0},
    "_asked": {"type": "int"},
    "_logs": {"type": "dict"},
}
LOGS_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "dest": {"type": "path", "default": "runs"},
    "tail_bytes": {"type": "int", "default": 0},
    "head_bytes": {"type": "int", "default": 0},
    "redact": {"type": "bool", "default": True},
    "merge": {"type": "bool", "default": False},
    "follow": {"type": "bool", "default": False},
    "follow_timeout": {"type": "int", "default": 0},
    "reconnect_timeout": {"type": "int", "default": 120},
    "_request": {"type": "dict"},
}
PULL_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "dest": {"type": "path", "default": "runs"},
    "paths": {"type": "list", "elements": "str", "default": []},
    "reconnect_timeout": {"type": "int", "default": 120},
    "_request": {"type": "dict"},
}


@dataclass(frozen=True)
class Identity:
    """Name, key (its first 16 digits) and generation from the path of a run directory."""

    name: str
    key: str
    generation: int

    @property
    def job_name(self) -> str:
        """The name under which Slurm knows the job."""
        return f"{self.name}.{self.key}.{self.generation}"


def identity(run_dir: str) -> Identity:
    """Return the identity of a run directory. Raises `RankzeroError` if the path is not that of a run directory."""
    parts = os.path.normpath(run_dir).split(os.sep)
    if len(parts) < 4 or not parts[-1].isdecimal():
        raise RankzeroError(
            f"run_dir: {run_dir!r} is not a run directory; expected <state_root>/runs/<name>/<key>/<generation>, "
            "as the module rankzero.slurm.job returns it."
        )
    return Identity(parts[-3], parts[-2], int(parts[-1]))


def state_root_of(run_dir: str) -> str:
    """Return the state root that contains a run directory."""
    return os.path.normpath(os.path.join(run_dir, *[os.pardir] * 4))


def open_run(run_dir: str) -> RunDirectory:
    """Open the run directory at a path from a user. Raises `RankzeroError` if it cannot be read."""
    identity(run_dir)
    run = RunDirectory(os.path.normpath(run_dir))
    try:
        # Listing refreshes a network file system's cache before a name counts as missing.
        run.look()
    except OSError as error:
        raise RankzeroError(
            f"run_dir: {run_dir} cannot be read on this host: {error.strerror}. Module rankzero.slurm.job makes it; "
            "is this the host that launched, is state_root the same, was the file system purged?"
        ) from error
    return run


def names_of(state_root: str) -> list[str]:
    """Return the names under which launches are recorded. Raises `Untrusted`."""
    return state_files.of(state_root).folders("runs")


def keys_of(state_root: str, name: str) -> list[str]:
    """Return the keys (first 16 digits) of the launches recorded under this name. Raises `Untrusted`."""
    return state_files.of(state_root).folders(os.path.join("runs", name))


def find_runs(
    state_root: str,
    *,
    name: str | None = None,
    key: str | None = None,
    generation: int | None = None,
    job_id: str | None = None,
) -> list[RunDirectory]:
    """Return the run directories under `state_root` that match all given options, sorted by name, key and generation.

    `key` may be given in full or as a prefix. `job_id` also finds a job that lost the claim to another one. If it
    belongs to no launch itself, the launches inside that job, or of that array, are returned.
    """
    root = state_files.of(state_root)
    chosen, inside = [], []
    for launch_name in root.folders("runs") if name is None else [name]:
        for launch_key in root.folders(os.path.join("runs", launch_name)):
            if key is not None and not launch_key.startswith(key[:KEY_LENGTH]):
                continue
            for run in generations(os.path.join(state_root, "runs", launch_name, launch_key), root):
                if generation not in (None, run.generation):
                    continue
                ids = _job_ids(run) if job_id is not None else set()
                if job_id is None or job_id in ids:
                    chosen.append(run)
                elif any(step_id.startswith((f"{job_id}.", f"{job_id}_")) for step_id in ids):
                    inside.append(run)
    return chosen or inside


def _job_ids(run: RunDirectory) -> set[str]:
    read = run.snapshot()
    events = read.events()
    ids = {str(event["job_id"]) for event in events if event.get("job_id")}
    own = read.job_id(events)
    return ids | {own} if own else ids


def select_runs(options: Parameters) -> list[RunDirectory]:
    """Return the run directories for RUN_ARGUMENTS. `run_dir` takes precedence over the others."""
    if options.get("run_dir"):
        return [open_run(os.path.expanduser(options["run_dir"]))]
    state_root = os.path.expanduser(options["state_root"])
    return find_runs(
        state_root,
        name=options.get("name"),
        key=options.get("key"),
        generation=options.get("generation"),
        job_id=options.get("job_id"),
    )


def chosen_runs(options: Parameters) -> list[RunDirectory]:
    """Return the launches to wait for: those in `run_dirs`, if given, else the one for RUN_ARGUMENTS."""
    if options.get("run_dirs") is None:
        return [one_run(options)]
    if any(options.get(option) for option in ("run_dir", "name", "key", "generation", "job_id")):
        raise RankzeroError("run_dirs: names the launches; leave run_dir, name, key, generation and job_id away.")
    return [open_run(os.path.expanduser(path)) for path in dict.fromkeys(options["run_dirs"])]


def one_run(options: Parameters) -> RunDirectory:
    """Return the launch that a module works on: the newest generation of the newest key of a name.

    Raises `RankzeroError` if nothing matches, or if a job id belongs to several launches.
    """
    if not any(options.get(option) for option in ("run_dir", "name", "job_id")):
        raise RankzeroError("which launch? Give run_dir, or name (with key and generation), or job_id.")
    runs = select_runs(options)
    given = ", ".join(f"{o}={options[o]}" for o in ("name", "key", "generation", "job_id") if options.get(o))
    root = os.path.expanduser(options["state_root"])
    if not runs:
        known = ", ".join(names_of(root)[:20]) or "none"
        raise RankzeroError(f"no launch with {given} is recorded under state_root {root}. Names known there: {known}.")
    newest = newest_of_each(runs)
    # The launches of one sweep have the same age, so the name alone does not select one.
    alike = _array(newest[0]) is not None and any(_array(newest[0]) == _array(run) for run in newest[1:])
    if len(newest) > 1 and (alike or options.get("job_id") or not options.get("name")):
        raise RankzeroError(
            f"{given} names {len(newest)} launches under {root}:\n"
            + "\n".join(f"  {_described(run)}" for run in newest[:8])
            + "\nGive name and key, or run_dir."
        )
    return newest[0]


def choice_made(options: Parameters, run: RunDirectory) -> str | None:
    """Return which launch was chosen for a name that several launches have; None if the choice is clear."""
    if options.get("run_dir") or options.get("run_dirs") is not None or not options.get("name"):
        return None
    others = [
        other for other in newest_of_each(select_runs(options)) if os.path.dirname(other.path) != _key_folder(run)
    ]
    if not others:
        return None
    count = len(others) + 1
    listed = "; ".join(_described(other) for other in others[:4])
    more = f"; and {len(others) - 4} more" if len(others) > 4 else ""
    return f"{_described(run)}: the newest of {count} launches named {options['name']} (others: {listed}{more})"


def _key_folder(run: RunDirectory) -> str:
    return os.path.dirname(run.path)


def _array(run: RunDirectory) -> str | None:
    """Return the array of a sweep that a launch belongs to, or None."""
    with contextlib.suppress(Untrusted):
        place = array_of(run.own_events())
        return place.array if place else None
    return None


def newest_of_each(runs: Sequence[RunDirectory]) -> list[RunDirectory]:
    """Return the newest generation of each key, most recent launch first."""
    newest = {_key_folder(run): run for run in sorted(runs, key=lambda run: run.generation)}
    return sorted(newest.values(), key=_made_at, reverse=True)


def _made_at(run: RunDirectory) -> float:
    """Return when a generation was created (epoch seconds); 0 if its journal has no time or is not trusted."""
    with contextlib.suppress(Untrusted):
        return min((float(event["time"]) for event in run.own_events()), default=0.0)
    return 0.0


def _described(run: RunDirectory) -> str:
    """Return the name, key prefix, generation, time and state of a launch as text."""
    who, made = identity(run.path), _made_at(run)
    state = "not readable"
    with contextlib.suppress(Untrusted):
        outcome = run.outcome()
        last = next((str(event["event"]) for event in reversed(run.own_events())), "no record")
        state = last if outcome is None else "succeeded" if outcome.get("success") else "failed"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(made)) if made else "at an unknown time"
    return f"{who.name} {who.key[:8]}, generation {who.generation}, {when}, {state}"
