# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the contents of the roots, and which launches are over. Changes nothing.

Only entries with names of the expected form count, only in folders that are no links, and only if this user owns them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    RankzeroError,
    SlurmMissing,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, has_fields
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import record_of_sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import KINDS
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.plan import Names, Run, Thing, named_in
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import (
    SWEEP_PREFIX,
    RunDirectory,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import described
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.history import History
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.walk import TOP, RunFilter, walk
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED, SUCCEEDED, UNSUBMITTED
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    QUEUE,
    SILENT,
    JobAnswer,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.steps import is_step, job_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord, base_id, query_squeue
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses

# Kind -> the root that contains it (store or state), its folder there, and the form of its names.
_SLOTS = {
    **{kind.name: ("store" if kind.in_store else "state", kind.folder, re.compile(kind.names)) for kind in KINDS},
    # Made by jobs inside an image.
    "container_environment": ("state", "environments", re.compile(r"[0-9a-f]{32}")),
    "archive": ("state", "archives", re.compile(r"[a-z]+-([0-9a-f]{32,64})\.tar")),
}
SLOTS = tuple(_SLOTS)
_TEXTS = ("launch.json", "job.sbatch")
# The file of what these name, next to the index of ended launches.
NAMES = "names"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHORT_KEY = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Queue:
    """The jobs that are not over. `silent`: Slurm's error message where it does not answer."""

    jobs: tuple[JobRecord, ...] = ()
    silent: str = ""


def queue(slurm: Slurm) -> Queue:
    """Query squeue once for all jobs of all users that this user may see."""
    try:
        return Queue(tuple(record for record in query_squeue(slurm, []) if record.active))
    except (SlurmUnavailable, SlurmMissing) as error:
        return Queue(silent=error.message)


def slots(kind: str, store_root: str, state_root: str) -> Iterator[Thing]:
    """The entries of one kind in a root, with the time of their last use."""
    where, folder, form = _SLOTS[kind]
    root = {"store": store_root, "state": state_root}[where]
    for item in _entries(os.path.join(root, folder)):
        match = form.fullmatch(item.name)
        if match and _is_thing(item, folder=kind != "archive"):
            key = match[1] if match.groups() else item.name
            yield Thing(kind, item.path, key, last_use(uses.Slot(root, folder, item.name), item.stat().st_mtime))


def last_use(slot: uses.Slot, otherwise: float) -> float:
    """The time of an entry's mark, else of its creation. Lists the mark's folder, as the mark may be new."""
    try:
        if slot.name in os.listdir(os.path.dirname(slot.mark)):
            return os.stat(slot.mark).st_mtime
    except OSError:
        pass
    return otherwise


def shells(state_root: str) -> Iterator[Thing]:
    """The folders of interactive sessions. The user works in them, so any newer file counts as use."""
    for name in _entries(os.path.join(state_root, "shells")):
        for item in _entries(name.path) if _NAME.fullmatch(name.name) else ():
            if _SHORT_KEY.fullmatch(item.name) and _is_thing(item, folder=True):
                yield Thing("shell", item.path, f"{name.name}/{item.name}", newest(item.path))


def caches(state_root: str) -> Iterator[Thing]:
    """The cached answers of the cluster, one file each."""
    for place, _folders, files in os.walk(os.path.join(state_root, "cache")):
        for name in files:
            path = os.path.join(place, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if status.st_uid == os.geteuid():
                yield Thing("cache", path, name, status.st_mtime)


def sweeps(state_root: str) -> Iterator[Thing]:
    """The folders of sweeps whose elements have no run directory left."""
    for name in _entries(os.path.join(state_root, "runs")):
        listed = _entries(name.path) if _NAME.fullmatch(name.name) else []
        there = {item.name for item in listed if _SHORT_KEY.fullmatch(item.name)}
        for item in listed:
            key = item.name.removeprefix(SWEEP_PREFIX)
            if item.name.startswith(SWEEP_PREFIX) and _SHORT_KEY.fullmatch(key) and _is_thing(item, folder=True):
                known = record_of_sweep(item.path) or {}
                # The record of a sweep whose launch did not complete may not list the elements.
                elements = {str(element.get("key"))[:16] for element in known.get("elements", [])} or there
                if not elements & there:
                    yield Thing("run", item.path, f"{name.name}/{item.name}", newest(item.path))


def newest(path: str) -> float:
    """The newest modification time of anything in a folder, epoch seconds."""
    newest_time = os.lstat(path).st_mtime
    for _path, entry, _folder in Beneath(path).entries():
        with contextlib.suppress(OSError):
            newest_time = max(newest_time, entry.stat(follow_symlinks=False).st_mtime)
    return newest_time


def size(path: str, owner: int | None = None) -> int:
    """Bytes of all files of an entry, or of one user's files in it; a file with several hard links counts once."""
    total, seen = 0, set()
    pending: list[str] = []
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            pending.append(path)
        elif owner in (None, status.st_uid):
            total = status.st_size
    except OSError:
        return 0
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for item in entries:
                    if item.is_dir(follow_symlinks=False):
                        pending.append(item.path)
                        continue
                    status = item.stat(follow_symlinks=False)
                    if status.st_nlink > 1:
                        if (status.st_dev, status.st_ino) in seen:
                            continue
                        seen.add((status.st_dev, status.st_ino))
                    total += status.st_size if owner in (None, status.st_uid) else 0
        except OSError:
            continue
    return total


def run_directories(state_root: str) -> tuple[list[RunDirectory], History]:
    """All run directories below a state root, and the index of ended launches. Raises OSError where it cannot be
    read.
    """
    if not os.path.isdir(os.path.join(state_root, TOP)):
        os.listdir(state_root)
        return [], History(state_root)
    runs, history = walk(state_root, RunFilter(strict=True))
    ours = [run for run in runs if _SHORT_KEY.fullmatch(identity(run.path).key)]
    return [run for run in ours if history.may_have(run) or not os.path.islink(run.path)], history


@dataclass(frozen=True)
class Launches:
    """The launches of a state root. `history`: the index of those that have ended. `horizon`: the time (epoch seconds)
    since which what a launch has used is kept. `names`: the index of what their files name, and `fresh` what it lacks.
    """

    directories: Sequence[RunDirectory]
    history: History
    horizon: float
    fresh: dict[str, JsonObject] = field(default_factory=dict)

    @functools.cached_property
    def names(self) -> History:
        """The index of what the files of ended launches name."""
        return History.of(self.history.state_root, len(self.directories), NAMES)


def runs(slurm: Slurm, known: Queue, launches: Launches) -> list[Run]:
    """Each launch: when it ended, or why it is not over. It is over only if its own files or Slurm say so."""
    names = {record.name: record for record in known.jobs}
    ids = {each: record for record in known.jobs for each in (base_id(record.job_id), record.job_id)}
    runs, open_ones = [], []
    journals: dict[str, list[Event]] = {}
    for directory in launches.directories:
        job_name = identity(directory.path).job_name
        ended = _ended(directory, launches, names.get(job_name), ids) if launches.history.may_have(directory) else None
        stays = ended is not None and (ended.end is None or ended.last > launches.horizon)
        # What may go is compared with each of its files.
        if ended is not None and (stays or launches.history.has(directory)):
            runs.append(ended)
            continue
        read = directory.snapshot()
        facts = RunFacts.read(read, journals)
        record = names.get(job_name) or ids.get(facts.job_id or "")
        status = status_of(facts, JobAnswer(record, SILENT if known.silent else QUEUE))
        if record is not None:
            runs.append(_run(read, None, _in_queue(record), facts))
        elif status.over:
            end = status.standing if status.job_id or status.outcome else "refused by Slurm"
            runs.append(_over(read, end, _last(read, facts), launches.horizon))
        else:
            open_ones.append(directory)
    if open_ones:
        runs += _asked(slurm, known, open_ones, ids, launches.horizon)
    launches.names.keep_beside(launches.history, launches.fresh)
    return runs


def _ended(
    directory: RunDirectory, launches: Launches, record: JobRecord | None, ids: dict[str, JobRecord]
) -> Run | None:
    """Return a launch that the index has; None if its run directory has to be read, as a job in the queue may run it
    again.
    """
    ended = launches.history.launch(directory)
    job_id = ended["job_id"]
    if record is not None or (job_id or "") in ids:
        return None
    end: str
    if ended["outcome"]:
        end = SUCCEEDED if ended["success"] else FAILED
    elif job_id is None:
        end = "refused by Slurm"
    elif is_step(job_id) and job_of(job_id) in ids:
        return _run(directory, None, f"job {job_of(job_id)} around it continues")
    else:
        end = _ended_as(ended["slurm_state"])
    times = [event["time"] for event in ended["journal"]]
    times += [(ended["outcome"] or {}).get("time"), ended["started_at"], ended["finished_at"]]
    last = max(float(moment or 0) for moment in times)
    names = _names_kept(directory, launches) if last > launches.horizon else Names()
    return Run(directory.path, last, end, names=names)


def _names_kept(directory: RunDirectory, launches: Launches) -> Names:
    """Return what the files of a launch that the index has name: nobody writes them after its submission."""
    kept = launches.names.beside(launches.history, directory) or {}
    # It may be another user's file.
    if has_fields(kept, keys=list, runs=list) and all(isinstance(name, str) for name in [*kept["keys"], *kept["runs"]]):
        return Names(frozenset(kept["keys"]), frozenset(kept["runs"]))
    names = names_of(directory, _TEXTS)
    launches.fresh[directory.path] = {"keys": sorted(names.keys), "runs": sorted(names.runs)}
    return names


def _ended_as(slurm_state: str | None) -> str:
    return f"ended ({(slurm_state or 'not known to Slurm').lower()})"


def _in_queue(record: JobRecord) -> str:
    return f"job {record.job_id} is {record.state.lower()}"


def _asked(
    slurm: Slurm, known: Queue, directories: Sequence[RunDirectory], ids: dict[str, JobRecord], horizon: float
) -> Iterator[Run]:
    """Launches without an outcome: whether Slurm knows their end."""
    answer = ask_slurm(slurm, directories) if not known.silent else None
    here = _cluster_name(slurm) if answer and any(directory.claim() for directory in directories) else ""
    for directory in directories:
        if answer is None or answer.silent:
            yield _run(directory, None, "it has no outcome, and Slurm does not answer")
            continue
        claim = directory.claim()
        if claim and here and claim.cluster not in ("cluster", here):  # "cluster": the job did not know its cluster
            yield _run(directory, None, f"it has no outcome, and its job is cluster {claim.cluster}'s")
            continue
        status = answer.status(directory)
        report = described(slurm, status, answer)
        job_id = status.job_id
        if status.over and job_id is not None:
            if is_step(job_id) and job_of(job_id) in ids and status.outcome is None:
                yield _run(directory, None, f"job {job_of(job_id)} around it continues")
            else:
                yield _over(directory, _ended_as(report.slurm_state), _last(directory), horizon)
        elif status.standing == UNSUBMITTED and not answer.queue_only and _last(directory) < horizon:
            yield _over(directory, "never submitted", _last(directory), horizon)
        else:
            yield _run(directory, None, report.message or "its end is not known")


def _cluster_name(slurm: Slurm) -> str:
    result = slurm.attempt("scontrol", "show", "config")
    return parse.parse_config(result.stdout).get("ClusterName", "") if result.rc == 0 else ""


def _run(directory: RunDirectory, end: str | None, why: str, facts: RunFacts | None = None) -> Run:
    return Run(directory.path, _last(directory, facts), end, why, names_of(directory, _TEXTS))


def _over(directory: RunDirectory, end: str, last: float, horizon: float) -> Run:
    """Return a launch that has ended. What it has used matters only until `horizon`."""
    return Run(directory.path, last, end, names=names_of(directory, _TEXTS) if last > horizon else Names())


def _last(directory: RunDirectory, facts: RunFacts | None = None) -> float:
    """When anything was recorded last, epoch seconds. `facts`: what was read from the run directory."""
    facts = facts or RunFacts.read(directory)
    times = [float(event.get("time") or 0) for event in facts.events]
    for document in (facts.started, facts.outcome):
        times.append(float((document or {}).get("time") or 0))
    if not any(times):
        try:
            times.append(os.stat(directory.path).st_mtime)
        except OSError:
            times.append(time.time())
    return max(times)


def names_of(folder: RunDirectory, files: Sequence[str]) -> Names:
    """The keys and run directories that these files name; a missing file names nothing. Raises RankzeroError."""
    names = Names()
    for name in files:
        try:
            names |= named_in(folder.content(name).decode("utf-8", "replace"))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RankzeroError(
                f"state_root: {folder.file(name)} cannot be read ({error.strerror}), so what it uses is not "
                "known. Nothing was removed."
            ) from error
    return names


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The entries of a folder; none where it is missing or a link."""
    if os.path.islink(folder):
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda item: item.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_thing(item: os.DirEntry[str], *, folder: bool) -> bool:
    right = item.is_dir(follow_symlinks=False) if folder else item.is_file(follow_symlinks=False)
    try:
        return right and item.stat(follow_symlinks=False).st_uid == os.geteuid()
    except FileNotFoundError:  # another prune removed it after the folder was read
        return False
