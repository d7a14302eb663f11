# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the launches that a module works on, by name, key, generation or job. Changes nothing."""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import NoLaunch, RankzeroError, SlurmError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.likeness import did_you_mean, nearest
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import Policy, ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import (
    RunDirectory,
    array_of,
    names_of_key,
    numbers_in,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import standing_in_words
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.history import History
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.walk import RunFilter, walk
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import (
    KEY_LENGTH,
    identity,
    key_folder,
    keys_of,
    made_at,
    names_of,
    newest_of_each,
    open_run,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    SILENT,
    JobAnswer,
    status_of,
    trusted_runs,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

#: A choice among launches asks Slurm only about those whose own files do not say how they ended.
_UNDECIDED = Policy(decided=False)
#: The name that stands for the newest launch, unless a launch has it.
LAST = "last"
#: What people write for it, and for a job: a step of it, and Slurm's own log.
_LIKE_LAST = ("latest", "newest", "recent", "previous", "current", "this")
_OF_A_JOB = re.compile(r"(?:slurm-)?(\d+(?:_\d+)?)\.(?:batch|extern|out|err|log)")
#: So many names are shown.
_SHOWN = 5
#: The keys of which the newest is looked for, by the times of their folders: a prune changes these too.
_LOOKED_AT = 16


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
    return _found(state_root, RunFilter(_one(name), key, generation), job_id)[0]


def _one(name: str | None) -> list[str] | None:
    return None if name is None else [name]


def _found(
    state_root: str, wanted: RunFilter, job_id: str | None, indexed: bool = False
) -> tuple[list[RunDirectory], History]:
    wanted = replace(wanted, look=job_id is None)
    runs, history = walk(state_root, wanted, indexed=indexed or job_id is not None)
    return (runs if job_id is None else _of_job(runs, history, job_id)), history


def _of_job(runs: Sequence[RunDirectory], history: History, job_id: str) -> list[RunDirectory]:
    """Return the launches of a job. What the index of ended launches rules out is not read; for the others, the run
    directory decides.

    An ended launch gets no other job, so its line in the index need not be compared with its run directory. Only if no
    launch is found so, all are.
    """
    likely = (run for run in runs if history.may_mention(run, job_id))
    return _with_job(likely, job_id) or _with_job(
        (run for run in runs if not (history.has(run) and not history.mentions(run, job_id))), job_id
    )


def _with_job(runs: Iterable[RunDirectory], job_id: str) -> list[RunDirectory]:
    """Return the runs of which this is a job; if there are none, those inside the job, or in the array of this id."""
    chosen, inside = [], []
    for run in runs:
        ids = _job_ids(run)
        if job_id in ids:
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
    return indexed_runs(options, indexed=False)[0]


def _of_the_last(state_root: str, options: Parameters) -> Parameters:
    """Return the options that select the newest launch of all names; of a sweep only the name of all its elements."""
    if LAST in names_of(state_root):
        return options
    runs = newest_of_each_key(walk(state_root, RunFilter(newest=True), indexed=False)[0])
    lately = heapq.nlargest(_LOOKED_AT, runs, key=_changed_at)
    if not lately:
        return options
    newest = max(lately, key=made_at)
    known = identity(newest.path)
    return {**options, "name": known.name, **({} if _array(newest) else {"key": known.key})}


def newest_of_each_key(runs: Sequence[RunDirectory]) -> list[RunDirectory]:
    """Return the newest generation of each key, of runs that are sorted."""
    return list({key_folder(run): run for run in runs}.values())


def _changed_at(run: RunDirectory) -> float:
    try:
        return os.stat(key_folder(run)).st_mtime
    except OSError:
        return 0.0


def indexed_runs(
    options: Parameters, *, newest: bool = False, indexed: bool = True, strange: bool = False
) -> tuple[list[RunDirectory], History]:
    """Return the run directories for RUN_ARGUMENTS as `select_runs` does, and the index of ended launches.

    `newest`: only the newest generation of each key. `strange`: as in `RunFilter`.
    """
    state_root = os.path.expanduser(options["state_root"])
    if options.get("run_dir"):
        return [open_run(os.path.expanduser(options["run_dir"]))], History(state_root)
    if options.get("name") == LAST and not options.get("key"):
        options = _of_the_last(state_root, options)
    job_id = options.get("job_id")
    of_key = newest and job_id is None
    wanted = RunFilter(_one(options.get("name")), options.get("key"), options.get("generation"), newest=of_key)
    wanted = replace(wanted, strange=strange and job_id is None)
    runs, history = _found(state_root, wanted, job_id, indexed)
    if newest:
        runs = newest_of_each_key(runs)
    return runs, history


def chosen_runs(options: Parameters, slurm: Slurm | None = None) -> list[RunDirectory]:
    """Return the launches to wait for: those in `run_dirs`, if given, else the one for RUN_ARGUMENTS."""
    if options.get("run_dirs") is None:
        return [one_run(options, slurm)]
    if any(options.get(option) for option in ("run_dir", "name", "key", "generation", "job_id")):
        raise RankzeroError("run_dirs: names the launches; leave run_dir, name, key, generation and job_id away")
    return [open_run(os.path.expanduser(path)) for path in dict.fromkeys(options["run_dirs"])]


def one_run(options: Parameters, slurm: Slurm | None = None) -> RunDirectory:
    """Return the launch that a module works on: the newest generation of the newest key of a name.

    Raises `RankzeroError` if nothing matches, or if a job id belongs to several launches, whose states `slurm` says.
    """
    if not any(options.get(option) for option in ("run_dir", "name", "job_id")):
        raise RankzeroError("which launch? Give run_dir, or name (with key and generation), or job_id.")
    runs = select_runs(options)
    given = ", ".join(f"{o}={options[o]}" for o in ("name", "key", "generation", "job_id") if options.get(o))
    root = os.path.expanduser(options["state_root"])
    if not runs:
        raise NoLaunch(f"no launch with {given} is recorded under state_root {root}{what_there_is(options)}")
    newest = newest_of_each(runs)
    # The launches of one sweep have the same age, so the name alone does not select one.
    alike = _array(newest[0]) is not None and any(_array(newest[0]) == _array(run) for run in newest[1:])
    if len(newest) > 1 and (alike or options.get("job_id") or not options.get("name")):
        raise RankzeroError(
            f"{given} names {len(newest)} launches under {root}:\n"
            + "\n".join(f"  {line}" for line in _described(slurm or Slurm(), newest[:8]))
            + "\nGive name and key, or run_dir."
        )
    return newest[0]


def what_there_is(options: Parameters) -> str:
    """Return the end of a sentence that says that RUN_ARGUMENTS name no launch: what was meant, and what there is."""
    root, name, key = os.path.expanduser(options["state_root"]), options.get("name"), options.get("key")
    names = _newest_first(root, "runs", names_of(root))
    if not names:
        return "; nothing was launched there yet"
    if name in names and (key or options.get("generation")):
        keys = [known for known in keys_of(root, name) if known.startswith((key or "")[:KEY_LENGTH])]
        if len(keys) == 1:
            numbers = reversed(numbers_in(names_of_key(os.path.join(root, "runs", name, keys[0]))))
            return f"; generations of {name}/{keys[0]}, newest first: {_few([*map(str, numbers)])}"
        place = os.path.join("runs", name)
        return f"; keys of {name}, newest first: {_few(_newest_first(root, place, keys_of(root, name)))}"
    hint, of_a_job = "", _OF_A_JOB.fullmatch(name or "")
    if name is not None and name not in names:
        near = nearest(name.lower(), [*names, *_LIKE_LAST], 0.7) or nearest(name, names)
        hint = did_you_mean(of_a_job[1] if of_a_job else LAST if near in _LIKE_LAST else near)
    return f"{hint}; names there, newest first: {_few(names)}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _newest_first(root: str, place: str, names: Sequence[str]) -> list[str]:
    """Return the names of folders at a place below a state root, by the times of their last changes."""

    def changed(name: str) -> float:
        with contextlib.suppress(OSError):
            return os.stat(os.path.join(root, place, name)).st_mtime
        return 0.0

    return sorted(names, key=changed, reverse=True)


def choice_made(slurm: Slurm, options: Parameters, run: RunDirectory) -> str | None:
    """Return which launch was chosen for a name that several launches have; None if the choice is clear."""
    if options.get("run_dir") or options.get("run_dirs") is not None or not options.get("name"):
        return None
    others = [other for other in newest_of_each(select_runs(options)) if os.path.dirname(other.path) != key_folder(run)]
    if not others:
        return None
    chosen, *described = _described(slurm, [run, *others[:4]])
    more = f"; and {len(others) - 4} more" if len(others) > 4 else ""
    count = len(others) + 1
    return f"{chosen}: the newest of {count} launches named {options['name']} (others: {'; '.join(described)}{more})"


def _array(run: RunDirectory) -> str | None:
    """Return the array of a sweep that a launch belongs to, or None."""
    with contextlib.suppress(Untrusted):
        place = array_of(run.own_events())
        return place.array if place else None
    return None


def _described(slurm: Slurm, runs: Sequence[RunDirectory]) -> list[str]:
    """Return name, key prefix, generation, time and state of some launches as text, with one query to Slurm."""
    facts, _untrusted = trusted_runs(runs)
    good = [run for run in runs if run.path in facts]
    try:
        answer = ask_slurm(slurm, good, _UNDECIDED, facts)
        states = {run.path: standing_in_words(answer.status(run)) for run in good}
    except SlurmError:  # the choice is what was asked for
        silent = JobAnswer(heard=SILENT)
        states = {run.path: standing_in_words(status_of(facts[run.path], silent)) for run in good}
    described = []
    for run in runs:
        who, made = identity(run.path), made_at(run)
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(made)) if made else "at an unknown time"
        state = states.get(run.path, "not readable")
        described.append(f"{who.name} {who.key[:8]}, generation {who.generation}, {when}, {state}")
    return described
