# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks on shared storage: one file whose presence is the lock, whose content is its owner.

link(2) makes it, because its outcome can be read back (the link count) also when an NFS server's reply was lost;
flock is local to a node on many file systems. An owner that was killed is recognised: on its own host by its process,
on another one by a file that it no longer touches. Of several that find the same dead owner one removes the file.
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
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import folders_as_above, lives, place, trouble

# An owner touches its file this often; on another host one that has not been touched for STALE_SECONDS is nobody's.
TOUCH_SECONDS = 20.0
STALE_SECONDS = 300.0
_LOOK_SECONDS = 0.1
_MOST_BYTES = 1 << 16


class Busy(RankzeroError):
    """Somebody else has the lock, and kept it for as long as we would wait."""


@contextmanager
def hold(
    path: str,
    wait: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Have the lock `path` while inside. Raises Busy after `wait` seconds, RankzeroError where it cannot be written."""
    own = _own_file(path)
    until = clock() + wait
    try:
        while not _link(own, path):
            _break_stale(path)
            if clock() >= until:
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
    toucher = threading.Thread(target=_touch, args=(own, over), daemon=True)
    toucher.start()
    try:
        yield
    finally:
        over.set()
        toucher.join()
        # The name goes only while it is still ours: one that was taken for stale belongs to another by now.
        if _same(own, path):
            _unlink(path)
        _unlink(own)


def is_held(path: str) -> bool:
    """Whether the lock's folder names it: a network file system may remember that a name was missing."""
    try:
        return os.path.basename(path) in os.listdir(os.path.dirname(path))
    except OSError:
        return False


def _own_file(path: str) -> str:
    """A file of this process alone beside the lock, holding who it is."""
    own = f"{path}.{place()}-{os.getpid()}-{threading.get_ident()}-{time.time_ns()}"
    name = os.path.basename(own)
    owner = {"host": socket.gethostname(), "place": place(), "pid": os.getpid(), "time": time.time(), "own": name}
    try:
        folders_as_above(os.path.dirname(path))
        descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with open(descriptor, "w", encoding="utf-8") as stream:
            json.dump(owner, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise trouble(error, os.path.dirname(path)) from error
    return own


def _link(own: str, path: str) -> bool:
    # A server that did it and lost its answer says the same, when it is asked again.
    with contextlib.suppress(FileExistsError):
        os.link(own, path)
    return _same(own, path)


def _same(own: str, path: str) -> bool:
    """Whether the lock is ours: by content, which names its owner. Inode numbers are none on some shares (sshfs)."""
    content = _read(own)
    return content != b"" and _read(path) == content


def _break_stale(path: str) -> None:
    """Remove the lock of a dead owner. Only the winner of a second link, named after that very owner, may."""
    found = _read(path)
    if not _stale(path, found):
        return
    breaker = f"{path}.break-{hashlib.sha256(found).hexdigest()[:16]}"
    own = _own_file(path)
    try:
        if _link(own, breaker):
            # By now another may have done it, and a living owner may have come.
            if _read(path) == found:
                _unlink(path)
                _unlink(_beside(path, found))
            _unlink(breaker)
        elif _age(breaker) > STALE_SECONDS:
            _unlink(breaker)
    finally:
        _unlink(own)


def _beside(path: str, content: bytes) -> str:
    """The owner's own file beside a lock, by what the lock says; empty where that is no file of this lock. Anybody who
    may write there has had a say in it.
    """
    folder, lock = os.path.split(path)
    name = os.path.basename(str(_document(content).get("own", "")))
    return os.path.join(folder, name) if name.startswith(f"{lock}.") else ""


def _stale(path: str, content: bytes) -> bool:
    owner = _document(content)
    pid = owner.get("pid")
    if owner.get("place") == place() and isinstance(pid, int):
        return not lives(pid)
    return _age(path) > STALE_SECONDS


def _age(path: str) -> float:
    """Seconds since a file was touched, by the file system's own clock; 0 where there is none."""
    probe = f"{path}.{place()}-{os.getpid()}-{time.time_ns()}"
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
    """The content of a lock; nothing where it is no file that we would write: a link, a pipe, or far too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            return stream.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""


def _document(content: bytes) -> dict[str, object]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _owner(content: bytes) -> str:
    owner = _document(content)
    return printable(f"process {owner.get('pid')} on {owner.get('host')}") if owner else "a process that did not sign"


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
