# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files that another user may have written, without following links, blocking, or unlimited reads.

A name below a folder may be a link to a file that only the reader may read, a pipe without a writer, a device, or an
endless file. `Beneath(root)` protects the reader, but does not check who wrote the content. `Beneath(root, owner)`
reads nothing that anybody but that owner (or root) could have written; see `Untrusted`.

File systems shared by several hosts (NFS, Lustre, FUSE) cache missing names and file sizes. Therefore a name is looked
up in the listing of its folder and is never opened while it is missing, and sizes are requested from the server
(statx(2), AT_STATX_FORCE_SYNC).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import sha256_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted, remedy, weakness

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# On the way to a folder: whoever may pass through one may not always list it. Controllers without this flag list it.
_STEP = _FOLDER | getattr(os, "O_PATH", 0)
# Limit for the names read from another user's folder. More names were put there to keep the reader busy.
MOST_NAMES = 20000
#: Size limit in bytes for a file that people write.
MOST_BYTES = 1_000_000
#: Depth limit for folders: deeper than any program nests its files, and far below Python's recursion limit.
LEVELS = 100
_FORCE_SYNC, _SIZE = 0x2000, 0x200
_libc = ctypes.CDLL(None)
# What statx(2) returns is not used.
_unused = ctypes.create_string_buffer(256)
_CHUNK = 1 << 20
#: Opens a regular file for reading by its path: `Beneath.at` for a file below a folder, `regular` for a named one.
Opener = Callable[[str], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True)
class File:
    """A regular file that was read.

    `changed`: when its content, owner or mode last changed (ctime), in epoch seconds of the file system; users cannot
    set it. `data`: the beginning of the file, up to the requested size. `sha256`: the digest of a file that was read
    completely, else "". `links`: how many names it has.
    """

    path: str
    size: int
    changed: float
    data: bytes = b""
    sha256: str = ""
    links: int = 1

    @property
    def text(self) -> str:
        """The content as UTF-8. Invalid bytes become U+FFFD."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Beneath:
    """The files below one folder. No link is followed from there on, and the folder itself is none.

    `owner`: the only user, besides root, who may have written them; None if the caller decides what to trust. `inside`:
    the folder below `root` that names are relative to. `descriptor`: the folder `root`, where the caller has it open.
    """

    root: str
    owner: int | None = None
    inside: str = ""
    descriptor: int | None = None

    @property
    def path(self) -> str:
        """The path that names are relative to."""
        return os.path.join(self.root, self.inside) if self.inside else self.root

    def below(self, folder: str) -> Beneath:
        """The files of a folder below it."""
        return replace(self, inside=os.path.join(self.inside, folder))

    @contextlib.contextmanager
    def folder(self, relative: str = "") -> Iterator[int]:
        """Open a folder without following links, as a descriptor. Raises OSError, `Untrusted`."""
        parts = [part for part in f"{self.inside}/{relative}".split("/") if part not in ("", ".")]
        step = _FOLDER if self.owner is not None else _STEP
        if self.descriptor is None:
            descriptor = os.open(self.root, step if parts else _FOLDER)
        else:
            descriptor = os.dup(self.descriptor)
        try:
            place = self.root
            self._check(place, descriptor)
            for number, part in enumerate(parts, 1):
                place = f"{place}/{part}"
                inner = self._open(descriptor, part, step if number < len(parts) else _FOLDER, place)
                os.close(descriptor)
                descriptor = inner
                self._check(place, descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def stream(self, relative: str) -> Iterator[IO[bytes]]:
        """Open a regular file for reading, as a binary stream. Raises OSError, `Untrusted`."""
        with self.opened(relative) as descriptor, os.fdopen(os.dup(descriptor), "rb") as stream:
            yield stream

    @contextlib.contextmanager
    def at(self, path: str) -> Iterator[IO[bytes]]:
        """Open a regular file by its path below `path`, as a listing gave it. Raises OSError; `Untrusted` by owner."""
        relative = os.path.relpath(path, self.path)
        parent, name = os.path.split(relative)
        if relative.startswith(os.pardir):
            raise OSError(errno.EXDEV, f"is not in {self.path}", path)
        with self.folder(parent) as folder:
            sync(name, folder)
            descriptor = _descriptor(name, _FILE, folder)
        with _plain(descriptor) as stream:
            self._check(path, descriptor)
            yield stream

    @contextlib.contextmanager
    def opened(self, relative: str) -> Iterator[int]:
        """Open a regular file for reading, as a descriptor. Raises OSError, `Untrusted`."""
        parent, name = os.path.split(relative)
        path = os.path.join(self.path, relative)
        with self.folder(parent) as folder:
            if not _may_be_in(folder, name):
                raise FileNotFoundError(2, "No such file or directory", path)
            descriptor = self._open_file(folder, name, path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def inner(self, folder: int, relative: str) -> Iterator[int]:
        """Open the folder `relative` through its open parent `folder`, as a descriptor. Raises OSError, `Untrusted`."""
        path = f"{self.path}/{relative}"
        descriptor = self._open(folder, os.path.basename(relative), _FOLDER, path)
        try:
            self._check(path, descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def content(self, relative: str, most: int) -> bytes:
        """Read a complete regular file of at most `most` bytes. Raises OSError; `Untrusted` also for a larger file."""
        with self.opened(relative) as descriptor:
            return self._read(descriptor, os.path.join(self.path, relative), most)

    def contents(self, relative: str, limits: Callable[[str], int]) -> tuple[list[str], dict[str, bytes]]:
        """Read files of one folder, which is opened and listed once: (all names, sorted; content by name).

        `limits`: the size limit in bytes of each name; 0 leaves a file out. A file that cannot be read is left out, and
        a folder that cannot be read is empty. Raises `Untrusted`, also for a larger file.
        """
        read: dict[str, bytes] = {}
        try:
            with self.folder(relative) as folder:
                names = sorted(os.listdir(folder))
                for name in filter(limits, names):
                    path = f"{self.path}/{relative}/{name}"
                    with contextlib.suppress(OSError):
                        descriptor = self._open_file(folder, name, path)
                        try:
                            read[name] = self._read(descriptor, path, limits(name))
                        finally:
                            os.close(descriptor)
        except OSError:
            return [], {}
        return names, read

    def entries(self) -> Iterator[tuple[str, os.DirEntry[str], int]]:
        """Everything below the folder, one entry at a time, in any order: a folder may have a million files.

        Each is (path relative to the folder, entry, descriptor of the folder with it, open until the next one). No link
        is followed, also where a folder becomes one meanwhile. Only LEVELS folders deep; a folder that cannot be read
        counts as empty. Raises `Untrusted`.
        """
        pending = [("", 1)]
        while pending:
            relative, depth = pending.pop()
            with contextlib.suppress(OSError), self.folder(relative) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    path = os.path.join(relative, entry.name)
                    if depth < LEVELS and entry.is_dir(follow_symlinks=False):
                        pending.append((path, depth + 1))
                    yield path, entry, folder

    def names(self, relative: str) -> list[str]:
        """Return the names in a folder, sorted; empty if it cannot be read. Raises `Untrusted`."""
        try:
            with self.folder(relative) as folder, os.scandir(folder) as entries:
                some = itertools.islice(entries, None if self.owner is not None else MOST_NAMES)
                return sorted(entry.name for entry in some)
        except OSError:
            return []

    def folders(self, relative: str) -> list[str]:
        """Return the names of the subfolders of a folder, without hidden ones and links."""
        with contextlib.suppress(OSError), self.folder(relative) as folder:
            return self.folders_in(folder)
        return []

    def folders_in(self, folder: int) -> list[str]:
        """Return the names of the subfolders of an open folder, as `folders` does. Raises OSError."""
        with os.scandir(folder) as entries:
            some = itertools.islice(entries, None if self.owner is not None else MOST_NAMES)
            return sorted(
                entry.name for entry in some if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )

    def file(self, relative: str, most: int) -> File | None:
        """Read the first `most` bytes of a regular file, with a digest if that is all of it.

        Returns None if the file is missing, cannot be read or is not trusted.
        """
        try:
            with self.stream(relative) as stream:
                status = os.fstat(stream.fileno())
                data = stream.read(most)
        except (OSError, Untrusted):
            return None
        digest = sha256_of((data,)) if status.st_size <= most else ""
        return File(relative, status.st_size, status.st_ctime, data, digest, status.st_nlink)

    def changed(self, relative: str) -> float:
        """Return when a folder last changed (ctime, in epoch seconds); 0.0 if it cannot be opened."""
        with contextlib.suppress(OSError), self.folder(relative) as folder:
            return os.fstat(folder).st_ctime
        return 0.0

    def text(self, relative: str, most: int) -> str:
        """Return the first `most` bytes of a file as text; empty if the file cannot be read."""
        file = self.file(relative, most)
        return file.text if file else ""

    def _open(self, folder: int, name: str, flags: int, path: str) -> int:
        try:
            return os.open(name, flags, dir_fd=folder)
        except OSError:
            if self.owner is not None and _is_link(name, folder):
                raise Untrusted(f"{path} is a link, which the collection never creates there. Remove it.") from None
            raise

    def _open_file(self, folder: int, name: str, path: str) -> int:
        sync(name, folder)
        descriptor = self._open(folder, name, _FILE, path)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Untrusted(f"{path} is not a regular file, so it is not read. Remove it.")
            self._check(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _read(self, descriptor: int, path: str, most: int) -> bytes:
        parts, left = [], most + 1
        # A file that does not grow meanwhile takes two reads: its bytes, and none.
        part = os.read(descriptor, min(left, os.fstat(descriptor).st_size + 1))
        while part:
            parts.append(part)
            left -= len(part)
            part = os.read(descriptor, min(left, _CHUNK))
        data = b"".join(parts)
        if len(data) > most:
            raise Untrusted(
                f"{path} has more than {most} bytes, which the collection never writes there. It is not trusted; "
                "remove it."
            )
        return data

    def _check(self, path: str, descriptor: int) -> None:
        if self.owner is None:
            return
        why = weakness(descriptor, self.owner)
        if why:
            raise Untrusted(f"{path} {why}: it is not trusted. {remedy(self.root, why, self.owner)}")


def _may_be_in(folder: int, name: str) -> bool:
    """Whether a folder lists a name. Of a folder with more than MOST_NAMES, nobody waits for the whole list: the name
    is opened, and need not be there.
    """
    with os.scandir(folder) as entries:
        looked = 0
        for looked, entry in enumerate(entries, 1):
            if entry.name == name or looked > MOST_NAMES:
                return True
    return False


def _is_link(name: str, folder: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


@contextlib.contextmanager
def regular(path: str) -> Iterator[IO[bytes]]:
    """Open a regular file that a user named. Links are followed; opening does not wait for a pipe or a device.

    Raises OSError, also for anything that is not a regular file.
    """
    with _plain(_descriptor(path, _FILE & ~os.O_NOFOLLOW)) as stream:
        yield stream


@contextlib.contextmanager
def unlinked(path: str) -> Iterator[IO[bytes]]:
    """Open a regular file that is no link, as `regular` does."""
    with _plain(_descriptor(path, _FILE)) as stream:
        yield stream


def _descriptor(path: str, flags: int, folder: int | None = None) -> int:
    try:
        return os.open(path, flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "is a link, which is not followed", path) from None
        raise


@contextlib.contextmanager
def _plain(descriptor: int) -> Iterator[IO[bytes]]:
    """The stream of an open file, which is closed at the end. Raises OSError if it is not a regular file."""
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file")
        yield stream


def is_listed(path: str) -> bool:
    """Return whether a file appears in the listing of its folder, of which one entry at a time is held."""
    with contextlib.suppress(OSError), os.scandir(os.path.dirname(path) or ".") as entries:
        return any(entry.name == os.path.basename(path) for entry in entries)
    return False


def sync(path: str, folder: int = -100) -> None:
    """Request a file's attributes from the server, so that the next stat returns its current size. Never raises an
    error.

    `folder`: the descriptor of the folder that `path` is relative to.
    """
    statx = getattr(_libc, "statx", None)
    if statx is not None:  # glibc before 2.28 has none
        flags = _FORCE_SYNC | 0x100  # AT_SYMLINK_NOFOLLOW
        statx(folder, os.fsencode(path), flags, _SIZE, _unused)


def bounded_walk(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk like `os.walk(top)`, which recurses once per level, but only to a depth of LEVELS folders."""
    for place, folders, names in os.walk(top):
        if place[len(top) :].count("/") >= LEVELS:
            folders.clear()
        yield place, folders, names


def named_text(path: str, option: str, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """Return the text of a file. `option` starts the error messages; `errors` as in `open`.

    Raises FileNotFoundError. Raises RankzeroError for a folder, pipe or device, too many bytes, or invalid UTF-8.
    """
    try:
        with regular(path) as stream:
            content = stream.read(most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RankzeroError(
            f"{option}: {path} cannot be read: {error.strerror or error}. Name a regular file."
        ) from error
    if len(content) > most:
        raise RankzeroError(
            f"{option}: {path} has more than {most} bytes, the limit for such a file. Check that it is the right "
            "file, or shorten it."
        )
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise RankzeroError(f"{option}: {path} cannot be read: {error}. Write it as UTF-8.") from error
