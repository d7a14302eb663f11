# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one writer of files in the user's folders on the controller. It writes through no link that came with the code,
and what was fetched is read through none (`Place.files`).

A repository may contain links: `runs/NAME/KEY/1/logs -> ../../../../.git` would turn a fetched log into git's
configuration. So each folder is opened through its parent, from the working directory down, and a link is followed only
if it is this user's own and git does not track it: what git does not track cannot have come with a change of somebody
else. A path elsewhere is the user's own choice, up to the folder that he named; below it no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import whole
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import git, outputs

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_GROWING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Folder:
    """An open folder of the user's. A name that is a link is refused (RankzeroError); other errors are OSError."""

    path: str
    descriptor: int

    @contextlib.contextmanager
    def inner(self, *names: str, create: bool = True, mode: int = 0o777) -> Iterator[Folder]:
        """Open a folder below it, which is made if it is missing and `create` is true."""
        descriptor, path = os.dup(self.descriptor), self.path
        try:
            for name in names:
                _check(name, path)
                descriptor = _stepped(descriptor, path, name, mode if create else None)
                path = os.path.join(path, name)
            yield Folder(path, descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def fresh(self, name: str, like: str | None = None) -> Iterator[IO[bytes]]:
        """Write a new file that takes the name at the end, so that no reader sees half of it.

        It has the permissions of the file that it replaces, or those of the file `like`.
        """
        before = self._status(name)
        model = before if like is None else self._status(like)
        temporary = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, _FRESH, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fchmod(stream.fileno(), _usual_mode() if model is None else stat.S_IMODE(model.st_mode))
            os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self.descriptor)
            raise

    def write(self, name: str, text: str, like: str | None = None) -> None:
        """Make a file contain this text, as `fresh` does."""
        with self.fresh(name, like) as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))

    @contextlib.contextmanager
    def growing(self, name: str) -> Iterator[IO[bytes]]:
        """Append to a regular file."""
        self._status(name)
        descriptor = os.open(name, _GROWING, 0o666, dir_fd=self.descriptor)
        with os.fdopen(descriptor, "ab") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", os.path.join(self.path, name))
            yield stream

    def read(self, name: str) -> str | None:
        """Return the text of a regular file; None if there is none of that name."""
        if self._status(name) is None:
            return None
        descriptor = os.open(name, _READING, dir_fd=self.descriptor)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", os.path.join(self.path, name))
            return whole(stream, os.path.join(self.path, name)).decode("utf-8", "surrogateescape")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        _check(name, self.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def _status(self, name: str) -> os.stat_result | None:
        """The status of a file; None if there is none. A link is refused."""
        _check(name, self.path)
        try:
            status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise _refused(self.path, name, "remove it, or name the file that it leads to")
        return status


@dataclass(frozen=True)
class Place:
    """A folder for results: `named`, the absolute path that the user gave, and the names of folders below it."""

    named: str
    inner: tuple[str, ...] = ()

    @classmethod
    def of(cls, named: str, *inner: str) -> Place:
        """The folder `named`/`inner`. A relative path starts at the working directory."""
        return cls(os.path.abspath(os.path.expanduser(named)), inner)

    @classmethod
    def of_file(cls, path: str) -> tuple[Place, str]:
        """The folder of a file that the user named, and its name there."""
        folder, name = os.path.split(os.path.abspath(path))
        return cls(folder), name

    @classmethod
    def of_launch(cls, logs_dir: str) -> Place:
        """The folder of a launch: the one that contains its fetched logs, DEST/NAME/KEY/GENERATION/logs."""
        *above, name, key, generation, _logs = os.path.abspath(logs_dir).split(os.sep)
        return cls(os.sep.join(above) or os.sep, (name, key, generation))

    @classmethod
    def of_logs(cls, logs_dir: str) -> Place:
        """The folder of a launch's fetched logs itself."""
        return cls.of_launch(logs_dir).below(os.path.basename(os.path.abspath(logs_dir)))

    @property
    def path(self) -> str:
        """Its path."""
        return os.path.join(self.named, *self.inner)

    def below(self, *names: str) -> Place:
        """A folder below it."""
        return Place(self.named, (*self.inner, *names))

    def beside(self, name: str) -> Place:
        """The folder of another name next to it."""
        return Place(self.named, (*self.inner[:-1], name))

    @contextlib.contextmanager
    def opened(self, *, create: bool = True, mode: int = 0o777) -> Iterator[Folder]:
        """Open it; `create` makes what is missing. Raises OSError; RankzeroError for a link on the way."""
        start, names = _start(self.named)
        if start is None:
            start, names = self.named, ()
            if create:
                os.makedirs(start, mode, exist_ok=True)
        with contextlib.ExitStack() as stack:
            descriptor = os.open(start, _FOLDER)
            stack.callback(os.close, descriptor)
            named = stack.enter_context(Folder(start, descriptor).inner(*names, create=create, mode=mode))
            yield stack.enter_context(named.inner(*self.inner, create=create, mode=mode))

    @contextlib.contextmanager
    def files(self) -> Iterator[Beneath]:
        """Its files for reading, of any size and in folders below it. It counts as empty where it cannot be opened.

        It is open meanwhile, and nobody can put another folder in its place. Raises RankzeroError for a link on the
        way.
        """
        with contextlib.ExitStack() as stack:
            descriptor = -1
            with contextlib.suppress(OSError):
                descriptor = stack.enter_context(self.opened(create=False)).descriptor
            yield Beneath(self.path, descriptor=descriptor)

    def read(self, name: str) -> str | None:
        """Return the text of a file in it; None if there is none. Raises RankzeroError if it cannot be read."""
        try:
            with self.opened(create=False) as folder:
                return folder.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed(name, "read", error) from error

    def write(self, name: str, text: str, *, mode: int = 0o777) -> str:
        """Make a file in it contain this text. Returns its path. Raises RankzeroError. `mode`: of a folder it makes."""
        try:
            with self.opened(mode=mode) as folder:
                folder.write(name, text)
        except OSError as error:
            raise self._failed(name, "written", error) from error
        path = os.path.join(self.path, name)
        if not outputs.FETCHED.match(path):
            self.record(name)
        return path

    def record(self, name: str) -> None:
        """Record that a file in it is one of ours, and so never code (sources/outputs.py), if that is possible."""
        with (
            contextlib.suppress(OSError, RankzeroError),
            self.opened(create=False) as folder,
            folder.inner(outputs.FOLDER) as ours,
        ):
            if name in (ours.read(outputs.RECORD) or "").splitlines() or len(name.splitlines()) != 1:
                return
            # Git leaves the folder out by itself, as those of other tools.
            ours.write(".gitignore", "*\n")
            with ours.growing(outputs.RECORD) as stream:
                stream.write(os.fsencode(f"{name}\n"))

    def _failed(self, name: str, what: str, error: OSError) -> RankzeroError:
        return RankzeroError(f"dest: {os.path.join(self.path, name)} cannot be {what}: {error.strerror or error}")

    def refuse_unwritable(self) -> None:
        """Raise RankzeroError if nothing would be written here: git tracks it, or a link on the way leads elsewhere."""
        self.refuse_tracked()
        with contextlib.suppress(OSError), self.opened(create=False):
            pass

    def refuse_tracked(self) -> None:
        """Raise RankzeroError if git tracks the folder for results or anything in it: they are not results of the
        cluster, and may have come with a change of somebody else.
        """
        start, names = _start(self.named)
        whole = start is not None and not names
        results = os.path.join(self.named, *self.inner[:1]) if whole else self.named
        if os.path.lexists(results) and _tracked(results):
            shown = os.path.relpath(results)
            raise RankzeroError(
                f"dest: {shown} is for what is fetched from the cluster, and git tracks it or something in it, "
                "which may be a link of somebody else. Look at it, remove it from git (git rm -r --cached "
                f"{shown}) and name it in .gitignore, or choose another folder."
            )


def record(paths: Iterable[str]) -> None:
    """Record that files which others write for a command, such as the shell, are never code."""
    for path in paths:
        folder, name = Place.of_file(path)
        folder.record(name)


def _start(path: str) -> tuple[str | None, tuple[str, ...]]:
    """Where links begin to matter on the way to an absolute path, and the names from there on.

    That is the working directory, or else the top of its git work tree. None for a path outside of both. The path may
    reach them by other names than their own, so the folders themselves are compared.
    """
    names = [name for name in path.split(os.sep) if name]
    prefixes = [os.sep + os.path.join("", *names[:count]) for count in range(len(names) + 1)]
    for root in _roots():
        for count, prefix in enumerate(prefixes[1:], 1):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(prefix), root):
                    return prefix, tuple(names[count:])
    return None, ()


def _roots() -> list[os.stat_result]:
    here, tree = os.getcwd(), None
    # In somebody else's repository the working directory counts alone; its results are refused (`_tracked`).
    with contextlib.suppress(RankzeroError):
        tree = git.find(here)
    return [os.stat(place) for place in dict.fromkeys([here, *([tree.top] if tree else [])])]


def _stepped(descriptor: int, path: str, name: str, mode: int | None) -> int:
    """Go from an open folder, which is closed, to one in it. `mode`: to make that one, if it is missing."""
    if mode is not None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=descriptor)
    try:
        inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
    except OSError:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            raise
        # On a file system that ignores case, git may know the link by another name.
        if name not in os.listdir(descriptor) or not _is_users_own(status, os.path.join(path, name)):
            advice = "remove it, or give the folder that it leads to by its own absolute path"
            raise _refused(path, name, advice) from None
        inner = os.open(name, _FOLDER, dir_fd=descriptor)
    os.close(descriptor)
    return inner


def _is_users_own(status: os.stat_result, path: str) -> bool:
    """Whether a link below the working directory was made by this user or by root, and not by git."""
    if status.st_uid == 0 != os.geteuid():
        return True
    tree = git.find(os.path.dirname(path))
    return status.st_uid == os.geteuid() and tree is not None and not _tracked(path)


@functools.cache
def _tracked(path: str) -> bool:
    """Whether the git work tree of a path's folder tracks the path or anything below it. Raises RankzeroError."""
    above = os.path.realpath(os.path.dirname(path))
    tree = git.find(above)
    if tree is None:
        return False
    name = os.path.relpath(os.path.join(above, os.path.basename(path)), tree.top)
    with git.opened(tree) as repository:
        return bool(repository.run(tree.top, "ls-files", "-z", "--", name))


def _check(name: str, path: str) -> None:
    """Raise RankzeroError for a name that leads out of its folder."""
    if name in ("", os.curdir, os.pardir) or os.sep in name or "\0" in name:
        raise RankzeroError(f"{name[:100]!a} is not the name of a file in {path}; nothing was written")


def _refused(path: str, name: str, advice: str) -> RankzeroError:
    place = os.path.join(path, name)
    target = ""
    with contextlib.suppress(OSError):
        target = f" to {os.readlink(place)!a}"
    return RankzeroError(
        f"dest: {place} is a link{target}, and nothing is read or written through a link that may have come with the "
        f"code: {advice}"
    )


def _usual_mode() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask
