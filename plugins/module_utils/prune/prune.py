# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove what no launch needs any more. See `plan.py` for the rules, and store/uses.py for concurrent launches.

Each entry is renamed first and deleted afterwards, so that a killed prune leaves no incomplete entry under its name;
the next prune deletes what it left. Two concurrent prunes share the work.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core import clearing
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import user_name
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount, difference
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import STORED
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.plan import (
    DAY,
    KINDS,
    SHORTEST,
    Plan,
    Removal,
    Run,
    Thing,
    decide,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.history import History
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.store import atomic, uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.hardlinks import drop_unshared
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import Busy, hold

_SHELL_FILES = ("shell.sh",)


def prune(
    slurm: Slurm,
    *,
    store_root: str,
    state_root: str,
    days: float,
    kinds: Sequence[str] = KINDS,
    max_size: int | None = None,
    check_mode: bool = False,
    clock: Callable[[], float] = time.time,
) -> ModuleResult:
    """Remove what was not used for `days` days; returns the module's result. Raises RankzeroError.

    Everything is examined before anything is removed. `kinds` limits what is removed, not what is examined.
    `max_size`: remove the longest unused first, and stop when this user's files in both roots fit into this many bytes.
    """
    if days < 0:
        raise RankzeroError(f"older_than: {days:g} is negative; give 0 or more days")
    store, state = atomic.root_of(store_root), atomic.root_of(state_root)
    for option, root in (("store_root", store), ("state_root", state)):
        if os.path.realpath(root) in ("/", os.path.realpath(os.path.expanduser("~"))):
            raise RankzeroError(
                f"{option}: {root} is not a folder of the collection. Name the folder that the launches use."
            )
    _check_own(store)
    plan = survey(slurm, store, state, days, clock())
    going = [removal for removal in plan.going if removal.kind in kinds]
    removed: list[ModuleResult] = []
    swept: list[str] = []
    bytes_ = 0
    over = None if max_size is None else _held(store, state) - max_size
    for removal in going if over is None else sorted(going, key=lambda removal: removal.used):
        weight = inventory.size(removal.path)
        if over is not None and over - bytes_ <= 0:
            plan.staying[removal.path] = f"{removal.reason}; there is room within max_size"
            continue
        if check_mode or _remove(removal, store, state, days, slurm.note):
            removed.append({"kind": removal.kind, "path": removal.path, "bytes": weight, "reason": removal.reason})
            bytes_ += weight
    if not check_mode:
        swept = _sweep(store, state)
        for path in plan.over:  # no command may have read it since Slurm ended it
            RunDirectory(path).forget_secrets()
    diff = "".join(
        f"{removal['kind']:<12}{amount(removal['bytes']):>9}  {removal['path']}  ({removal['reason']})\n"
        for removal in removed
    )
    return {
        "changed": bool(removed or swept),
        "removed": removed,
        "bytes": bytes_,
        "swept": swept,
        "kept": [{"path": path, "reason": reason} for path, reason in sorted(plan.staying.items())],
        "lines": [_told(removed, len(plan.staying), store, state, check_mode=check_mode)],
        "diff": difference(store, diff, "") if removed else {},
    }


def _told(removed: Sequence[ModuleResult], kept: int, store: str, state: str, *, check_mode: bool) -> str:
    """What was removed, in one sentence."""
    where = f"{store} and {state}" if store != state else store
    if not removed:
        return f"nothing to remove in {where}; kept: {kept}"
    kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(removal["kind"] for removal in removed).items())
    bytes_ = amount(sum(removal["bytes"] for removal in removed))
    return f"{'would remove' if check_mode else 'removed'} {bytes_} in {where}: {kinds}; kept: {kept}"


def _check_own(store: str) -> None:
    """Refuse to prune another owner's store, even as root. Raises RankzeroError."""
    if os.path.isdir(store):
        status = os.stat(store)
        if status.st_uid != os.geteuid() and not status.st_mode & 0o020:
            raise RankzeroError(
                f"store_root: {store} belongs to {user_name(status.st_uid)}: only its owner can prune it. "
                "Name your own, or run the task as that user."
            )


def _held(store: str, state: str) -> int:
    """Bytes of this user's files in both roots; one root may contain the other."""
    roots = sorted({os.path.realpath(store), os.path.realpath(state)})
    outer = [root for root in roots if not any(root.startswith(f"{other}/") for other in roots)]
    return sum(inventory.size(root, os.geteuid()) for root in outer)


def survey(slurm: Slurm, store: str, state: str, days: float, now: float) -> Plan:
    """Examine everything and decide. Raises RankzeroError where the files that a launch uses cannot be read."""
    blind = ""
    try:
        others = [root for root in uses.registered(store) if os.path.realpath(root) != os.path.realpath(state)]
    except (OSError, ValueError, KeyError) as error:
        others, blind = [], f"the list of launches that use the store cannot be read ({error})"
    known = inventory.queue(slurm)
    if known.silent:
        slurm.note(f"{known.silent} Everything that a launch without an outcome may use is kept.")
    try:
        there = os.path.isdir(state) or os.path.isdir(store)
        directories, history = inventory.run_directories(state) if there else ([], History(state))
    except OSError as error:
        raise RankzeroError(
            f"state_root: {state} cannot be read ({error.strerror}), so what its launches use is not known; nothing "
            "was removed. Name the state_root of the launches that use the store."
        ) from error
    horizon = now - days * DAY
    launches = inventory.runs(slurm, known, inventory.Launches(directories, history, horizon))
    for root in others:
        used, unread = _elsewhere(slurm, known, store, root, horizon)
        launches += used
        blind = unread or blind
    sessions = list(inventory.shells(state))
    began = [moment for record in known.jobs for moment in [record.submit or record.start] if moment]
    since = min([now, *began]) if not known.silent else 0.0
    alive = [session for session in sessions if session.used > min(now - max(days * DAY, SHORTEST), since - days * DAY)]
    launches += [
        Run(session.path, now, None, "a session", inventory.names_of(RunDirectory(session.path), _SHELL_FILES))
        for session in alive
    ]
    things: list[Thing] = [thing for kind in inventory.SLOTS for thing in inventory.slots(kind, store, state)]
    plan = decide(
        launches,
        [*things, *sessions, *inventory.caches(state), *inventory.sweeps(state)],
        days=days,
        now=now,
        shells_since=since,
        blind=blind,
    )
    session_paths = {session.path for session in alive}
    plan.staying = {
        path: "used by a session, or recently" if path in session_paths else reason
        for path, reason in plan.staying.items()
        if not reason.startswith("a launch of ")
    }
    return plan


def _elsewhere(slurm: Slurm, known: inventory.Queue, store: str, root: str, horizon: float) -> tuple[list[Run], str]:
    """Return the launches of another state root that need the store, and why they are unknown if they cannot be read.

    They are not ours to remove, but what they use is kept.
    """
    try:
        # Slurm may hide other users' jobs: a job that is not listed may still run.
        listed = known if os.stat(root).st_uid == os.geteuid() else replace(known, silent="it may hide them")
        launches = inventory.runs(slurm, listed, inventory.Launches(*inventory.run_directories(root), horizon))
    except (OSError, RankzeroError) as error:
        why = error.message if isinstance(error, RankzeroError) else str(error.strerror)
        where = uses.registered(store).get(root, "")
        blind = f"launches of {root} use the store, and that cannot be read ({why})"
        slurm.note(
            f"{blind}: no code, environment, image, dataset or packages go. If it is gone for good, remove {where}."
        )
        return [], blind
    current = [run for run in launches if run.end is None or run.last > horizon]
    return [Run(run.path, run.last, None, f"a launch of {root}", run.names) for run in current], ""


def _remove(removal: Removal, store: str, state: str, days: float, note: Callable[[str], None]) -> bool:
    """Remove one entry. Returns False if it is needed after all, or another prune removed it."""
    roots = {os.path.realpath(store), os.path.realpath(state)}
    real = os.path.join(os.path.realpath(os.path.dirname(removal.path)), os.path.basename(removal.path))
    if not any(real.startswith(f"{root}/") for root in roots):
        note(f"{removal.path} is outside store_root and state_root ({real}); it was not removed")
        return False
    try:
        slot = uses.slot_of(removal.path) if removal.kind in inventory.SLOTS else None
        doomed = _claimed(slot, days) if slot else atomic.set_aside(removal.path)
        if doomed is None:
            return False
        folder = clearing.open_folder(os.path.dirname(os.path.realpath(doomed)))
        try:
            clearing.remove_in(folder, os.path.basename(doomed))
        finally:
            os.close(folder)
    except (OSError, RankzeroError) as error:
        why = error.message if isinstance(error, RankzeroError) else error.strerror
        note(f"{removal.path} cannot be removed: {why}")
        return False
    if removal.kind in ("run", "shell"):
        _remove_empty(os.path.dirname(removal.path), 2)
    return True


def _claimed(slot: uses.Slot, days: float) -> str | None:
    """Rename an entry unless it was used meanwhile; returns its new name or None."""
    try:
        with hold(slot.lock, 0.0):
            made = os.stat(slot.path).st_mtime
            if _wanted(slot, made, days):
                return None
            doomed = atomic.set_aside(slot.path)
            # Check again: an owner of the lock that was stopped for minutes may have lost it meanwhile.
            if doomed is not None and _wanted(slot, made, days):
                os.rename(doomed, slot.path)
                return None
            with contextlib.suppress(OSError):
                os.unlink(slot.mark)
            return doomed
    except (Busy, FileNotFoundError):
        return None


def _wanted(slot: uses.Slot, made: float, days: float) -> bool:
    """Whether the mark is recent, by the clock of the file system. `made`: when the entry was made."""
    atomic.folders_as_above(os.path.dirname(slot.mark))
    probe = f"{slot.mark}.{atomic.process_scope()}-{os.getpid()}-{time.time_ns()}"
    with open(probe, "x", encoding="ascii"):
        now = os.stat(probe).st_mtime
    os.unlink(probe)
    return inventory.last_use(slot, made) > now - max(days * DAY, SHORTEST)


def _remove_empty(folder: str, levels: int) -> None:
    with contextlib.suppress(OSError):
        for _level in range(levels):
            os.rmdir(folder)
            folder = os.path.dirname(folder)


def _sweep(store: str, state: str) -> list[str]:
    """Delete the unnamed remains of killed prunes and makers."""
    places = [
        *(f"{store}/{kind.folder}" for kind in STORED),
        f"{state}/runtime",
        f"{state}/archives",
    ]
    for top in ("runs", "shells"):
        for place, folders, _files in os.walk(f"{state}/{top}"):
            depth = place[len(state) :].count("/")
            if depth >= (3 if top == "runs" else 2):
                folders.clear()
            folders[:] = [name for name in folders if not name.startswith(".")]
            places.append(place)
    swept = []
    for place in places:
        if os.path.isdir(place) and not os.path.islink(place):
            with contextlib.suppress(OSError):
                swept += [os.path.join(place, name) for name in atomic.sweep(place)]
            if place.startswith((f"{state}/runs/", f"{state}/shells/")):
                _remove_empty(place, 1)
    return swept + drop_unshared(f"{store}/images/sha256")
