# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks on shared storage: a file that exists while the lock is held and whose content names the owner.

link(2) creates it, because its result can be verified (by reading the file) even if an NFS server's reply was lost;
flock is local to a node on many file systems. A killed owner is detected by its process on the same host, and on other
hosts by a file that is no longer touched. If several processes find the same dead owner, only one removes the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import user_name
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import nobody_reads, start_thread
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    folders_as_above,
    lives,
    process_scope,
    trouble,
)

# An owner touches its file this often (seconds). On another host, a lock that was not touched for STALE_SECONDS is
# stale.
TOUCH_SECONDS = 20.0
STALE_SECONDS = 300.0
_LOOK_SECONDS = 0.1
_MOST_BYTES = 1 << 16


class Busy(RankzeroError):
    """Another process holds the lock and kept it for the maximum wait."""


@contextmanager
def hold(
    path: str,
    wait: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold the lock `path` inside. Raises Busy after `wait` seconds, or once nobody reads the output of this process.

    Raises RankzeroError if it cannot be written.
    """
    own = _own_file(path)
    until = clock() + wait
    try:
        while not _link(own, path):
            _break_stale(path)
            if clock() >= until or nobody_reads():
                raise Busy(
                    f"{path} is held by {_owner(_read(path))}. Wait for its end and try again; if that process is "
                    "gone for good, remove the file."
                )
            sleep(_LOOK_SECONDS)
    except BaseException as error:
        _unlink(own)
        if isinstance(error, OSError):
            raise trouble(error, os.path.dirname(path)) from error
        raise
    over = threading.Event()
    toucher = start_thread(threading.Thread(target=_touch, args=(own, over), daemon=True))
    try:
        yield
    finally:
        over.set()
        toucher.join()
        # Remove the name only if the lock is still ours: one that was taken for stale belongs to another process.
        if _same(own, path):
            _unlink(path)
        _unlink(own)


def is_held(path: str) -> bool:
    """Whether the lock's folder lists it. A direct stat could be wrong: network file systems cache missing names."""
    try:
        return os.path.basename(path) in os.listdir(os.path.dirname(path))
    except OSError:
        return False


def _own_file(path: str) -> str:
    """Write a file next to the lock, unique to this thread, with its owner's data. Returns its path."""
    own = f"{path}.{process_scope()}-{os.getpid()}-{threading.get_ident()}-{time.time_ns()}"
    name = os.path.basename(own)
    owner = {
        "host": socket.gethostname(),
        "place": process_scope(),
        "pid": os.getpid(),
        "time": time.time(),
        "own": name,
    }
    folder = os.path.dirname(path)
    try:
        folders_as_above(folder)
        status = os.lstat(folder)
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            raise RankzeroError(
                f"{folder} is a link of {user_name(status.st_uid)}, which could lead anywhere. Find out where it came "
                "from, and remove it."
            )
        descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with open(descriptor, "w", encoding="utf-8") as stream:
            json.dump(owner, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise trouble(error, folder) from error
    return own


def _link(own: str, path: str) -> bool:
    # link(2) fails with EEXIST when it is retried after a lost reply, although it succeeded.
    with contextlib.suppress(FileExistsError):
        os.link(own, path)
    return _same(own, path)


def _same(own: str, path: str) -> bool:
    """Whether the lock is ours, by its content, which names the owner. Inode numbers are unreliable on some shares
    (sshfs).
    """
    content = _read(own)
    return content != b"" and _read(path) == content


def _break_stale(path: str) -> None:
    """Remove the lock of a dead owner. Only the winner of a second lock, named after that owner, may do so."""
    content = _read(path)
    if not _stale(path, content):
        return
    breaker = f"{path}.break-{hashlib.sha256(content).hexdigest()[:16]}"
    own = _own_file(path)
    try:
        if _link(own, breaker):
            # Meanwhile another process may have removed it, and a living owner may hold it.
            if _read(path) == content:
                _unlink(path)
                _unlink(_beside(path, content))
            _unlink(breaker)
        elif _age(breaker) > STALE_SECONDS:
            _unlink(breaker)
    finally:
        _unlink(own)


def _beside(path: str, content: bytes) -> str:
    """The path of the owner's own file next to a lock, as the lock names it; empty if that is no file of this lock.

    The content is not trusted: everybody who may write in the folder may have written it.
    """
    folder, lock = os.path.split(path)
    name = os.path.basename(str(_document(content).get("own", "")))
    return os.path.join(folder, name) if name.startswith(f"{lock}.") else ""


def _stale(path: str, content: bytes) -> bool:
    owner = _document(content)
    pid = owner.get("pid")
    if owner.get("place") == process_scope() and isinstance(pid, int):
        return not lives(pid)
    return _age(path) > STALE_SECONDS


def _age(path: str) -> float:
    """Seconds since a file was touched, by the file system's clock; 0 if that is unknown."""
    probe = f"{path}.{process_scope()}-{os.getpid()}-{time.time_ns()}"
    try:
        touched = os.stat(path).st_mtime
        with open(probe, "x", encoding="ascii"):
            now = os.stat(probe).st_mtime
    except OSError:
        return 0.0
    finally:
        _unlink(probe)
    return now - touched


def _touch(own: str, over: threading.Event) -> None:
    while not over.wait(TOUCH_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(own)


def _read(path: str) -> bytes:
    """The content of a lock; empty for anything but a regular file. Reads at most _MOST_BYTES."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            return stream.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""


def _document(content: bytes) -> dict[str, object]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):  # a stranger's brackets
        return {}
    return document if isinstance(document, dict) else {}


def _owner(content: bytes) -> str:
    owner = _document(content)
    return printable(f"process {owner.get('pid')} on {owner.get('host')}") if owner else "a process that did not sign"


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
