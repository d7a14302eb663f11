# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What git knows about a folder: its files, its commit, and the differences from the commit.

`git status` and `git diff` run programs that a repository may name (filters) to convert files, and look into
submodules. So the comparison is done here: first by the size and times recorded in the index, as git does, then by
content. If git stores a file converted, the file is compared with the result of Git LFS or of the end-of-line
conversion. For any other filter, the record in the index decides.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import file_sha256
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.git import MARKER, Git, find, opened

SUBMODULE = b"160000"
_LINK = b"120000"
_RECORD = re.compile(
    rb"(?P<tag>.) (?P<mode>[0-7]{6}) (?P<blob>[0-9a-f]{40,64}) (?P<stage>[0-3])\t(?P<path>[^\0]+)\0"
    rb"  ctime: (?P<ctime>\d+):(?P<ctime_ns>\d+)\n"
    rb"  mtime: (?P<mtime>\d+):(?P<mtime_ns>\d+)\n"
    rb"  dev: \d+\tino: (?P<inode>\d+)\n"
    rb"  uid: \d+\tgid: \d+\n"
    rb"  size: (?P<size>\d+)\tflags: [0-9a-f]+\n"
)
# Pointers of Git LFS are smaller than this.
_LARGEST_POINTER = 1024
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Listing:
    """Paths relative to the folder: `tracked`, `untracked` (and not ignored), `changed` since the commit."""

    tracked: tuple[str, ...]
    untracked: tuple[str, ...]
    commit: str | None = None
    branch: str | None = None
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Indexed:
    """One entry of the index; `seen` is the file's status when it was recorded."""

    path: str
    mode: bytes
    blob: str
    merged: bool
    absent: bool
    seen: tuple[int, ...]


def listing(folder: str) -> Listing | None:
    """What git knows about a folder and the repositories in it; None outside a work tree. Raises RankzeroError."""
    tree = find(folder)
    if tree is None:
        return None
    root = os.path.realpath(folder)
    if MARKER in os.path.relpath(root, tree.top).split(os.sep):
        raise RankzeroError(f"git: {folder} is a folder of git's own. Name the program's folder.")
    with opened(tree) as git:
        commit, branch = head(git)
        committed = committed_blobs(git, root) if commit else {}
        indexed = _index(git, root)
        others = git.ask(root, *git.user_ignores(), "ls-files", "-z", "--others", "--exclude-standard")
        untracked = [os.fsdecode(name) for name in others.split(b"\0") if name]
        changed = set(committed) - {entry.path for entry in indexed}
        changed |= {entry.path for entry in indexed if committed.get(entry.path) != (entry.mode, entry.blob)}
        files = [entry for entry in indexed if entry.mode != SUBMODULE]
        changed |= _differing(git, root, files)
    tracked = [entry.path for entry in files]
    plain = [path for path in untracked if not path.endswith("/")]
    changed.update(plain)
    inner = {entry.path + "/": entry.blob for entry in indexed if entry.mode == SUBMODULE}
    for path in sorted({*inner, *(path for path in untracked if path.endswith("/"))}):
        below = _below(root, path)
        if below is None:
            continue
        if path in inner and below.commit != inner[path]:
            changed.add(path.rstrip("/"))
        tracked += [path + name for name in below.tracked]
        plain += [path + name for name in below.untracked]
        changed.update(path + name for name in below.changed)
    tracked, plain, differing = (list(filter(_is_plain, paths)) for paths in (tracked, plain, sorted(changed)))
    return Listing(tuple(tracked), tuple(plain), commit, branch, tuple(differing))


def head(git: Git) -> tuple[str | None, str | None]:
    """(commit, branch); None for a missing one (no commit yet, or a detached head)."""
    commit = git.ask(git.tree.top, "rev-parse", "--verify", "--quiet", "HEAD", allowed=(0, 1, 128))
    branch = git.ask(git.tree.top, "symbolic-ref", "--quiet", "--short", "HEAD", allowed=(0, 1, 128))
    return os.fsdecode(commit.strip()) or None, os.fsdecode(branch.strip()) or None


def committed_blobs(git: Git, folder: str) -> dict[str, tuple[bytes, str]]:
    """The files of the commit below a folder: path -> (mode, object)."""
    blobs = {}
    for record in git.ask(folder, "ls-tree", "-r", "-z", "HEAD", ".").split(b"\0"):
        if record:
            facts, path = record.split(b"\t", 1)
            mode, _kind, blob = facts.split(b" ")
            blobs[os.fsdecode(path)] = (mode, blob.decode("ascii"))
    return blobs


def contents(git: Git, blobs: Iterable[str], largest: int) -> dict[str, bytes]:
    """The contents of those objects that exist here and are not larger than `largest` bytes."""
    names = list(dict.fromkeys(blobs))
    asked = "".join(f"{name}\n" for name in names).encode("ascii")
    sizes = git.ask(git.tree.top, "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", stdin=asked)
    small = [
        line.split(b" ")[0]
        for line in sizes.splitlines()
        if line.split(b" ")[1:2] == [b"blob"] and int(line.split(b" ")[2]) <= largest
    ]
    contents: dict[str, bytes] = {}
    if not small:
        return contents
    output = git.ask(git.tree.top, "cat-file", "--batch", stdin=b"".join(name + b"\n" for name in small))
    at = 0
    for name in small:
        begin = output.index(b"\n", at) + 1
        size = int(output[at : begin - 1].split(b" ")[2])
        contents[name.decode("ascii")] = output[begin : begin + size]
        at = begin + size + 1
    return contents


def address(git: Git) -> str:
    """The address of the remote `origin` in the repository's configuration; "" if there is none."""
    return git.settings.get("remote.origin.url", "")


class Beneath:
    """Checks that relative paths stay below `root`: no `..`, nothing of git's own, and no link among their folders."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._folders: dict[str, bool] = {"": True}

    def __call__(self, path: str) -> bool:
        """Whether a path of the index is plain, and no folder above it is a link."""
        return _is_plain(path) and self._real(path.rpartition("/")[0])

    def _real(self, folder: str) -> bool:
        if folder not in self._folders:
            above = self._real(folder.rpartition("/")[0])
            self._folders[folder] = above and not os.path.islink(os.path.join(self._root, folder))
        return self._folders[folder]


def _below(root: str, path: str) -> Listing | None:
    """The listing of a repository inside; None for an uninitialised submodule, or a path that leads elsewhere."""
    place = os.path.join(root, path.rstrip("/"))
    if not Beneath(root)(path + MARKER[1:]):
        return None
    return listing(place) if os.path.lexists(os.path.join(place, MARKER)) else None


def _is_plain(path: str) -> bool:
    """Whether a path has only ordinary parts. The index is an ordinary file, so its paths may lead anywhere."""
    return not any(part in ("", ".", "..", MARKER) for part in path.split("/"))


def _index(git: Git, folder: str) -> list[_Indexed]:
    output = git.ask(folder, "ls-files", "-t", "--stage", "--debug", "-z")
    entries = []
    at = 0
    for match in _RECORD.finditer(output):
        if match.start() != at:
            break
        at = match.end()
        recorded = ("size", "mtime", "mtime_ns", "ctime", "ctime_ns", "inode")
        entry = _Indexed(
            os.fsdecode(match["path"]),
            match["mode"],
            match["blob"].decode("ascii"),
            merged=match["stage"] == b"0",
            absent=match["tag"] == b"S",
            seen=tuple(int(match[name]) for name in recorded),
        )
        entries.append(entry)
    if at != len(output):
        raise RankzeroError(f"git: the index of {git.tree.top} cannot be read. Check it with `git fsck`.")
    # In a conflict, one path has several entries.
    return list({entry.path: entry for entry in entries}.values())


def _differing(git: Git, root: str, indexed: Iterable[_Indexed]) -> set[str]:
    """The paths of files that differ from the index."""
    try:
        written = os.stat(os.path.join(git.tree.own, "index")).st_mtime_ns
    except OSError:
        written = 0
    with_modes = git.settings.get("core.filemode") != "false"
    beneath = Beneath(root)
    differing: set[str] = set()
    doubtful: list[_Indexed] = []
    for entry in indexed:
        if entry.absent:
            continue
        status = _status(root, entry.path) if beneath(entry.path) else None
        if not entry.merged or status is None or not _same_kind(entry.mode, status, with_modes):
            differing.add(entry.path)
        elif not _same_record(entry, status, written) and _blob(root, entry, status) != entry.blob:
            doubtful.append(entry)
    return differing | _unconverted(git, root, doubtful)


def _status(root: str, path: str) -> os.stat_result | None:
    try:
        return os.lstat(os.path.join(root, path))
    except OSError:
        return None


def _same_kind(mode: bytes, status: os.stat_result, with_modes: bool) -> bool:
    if stat.S_ISLNK(status.st_mode):
        return mode == _LINK
    executable = bool(status.st_mode & 0o100)
    return stat.S_ISREG(status.st_mode) and mode != _LINK and (not with_modes or (mode == b"100755") == executable)


def _same_record(entry: _Indexed, status: os.stat_result, written: int) -> bool:
    """Whether the file is as recorded in the index. A file as new as the index may have changed again, so it is not."""
    size, mtime, mtime_ns, ctime, ctime_ns, inode = entry.seen
    times = (mtime * 10**9 + mtime_ns, ctime * 10**9 + ctime_ns)
    return (
        times == (status.st_mtime_ns, status.st_ctime_ns)
        and max(times) < written
        and size == status.st_size & 0xFFFFFFFF
        and inode == status.st_ino & 0xFFFFFFFF
    )


def _blob(root: str, entry: _Indexed, status: os.stat_result) -> str:
    """The object name that git would give to the file's present content; "" if it cannot be read."""
    path = os.path.join(root, entry.path)
    total = hashlib.new("sha1" if len(entry.blob) == 40 else "sha256", usedforsecurity=False)
    try:
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(path))
            total.update(b"blob %d\0" % len(target) + target)
            return total.hexdigest()
        with open(path, "rb") as stream:
            total.update(b"blob %d\0" % os.fstat(stream.fileno()).st_size)
            for block in iter(lambda: stream.read(_BLOCK), b""):
                total.update(block)
    except OSError:
        return ""
    return total.hexdigest()


def _unconverted(git: Git, root: str, doubtful: list[_Indexed]) -> set[str]:
    """Those of the files that also differ from the converted form of what git has stored."""
    if not doubtful:
        return set()
    attributes = _attributes(git, root, [entry.path for entry in doubtful])
    pointers = [entry.blob for entry in doubtful if attributes[entry.path].get("filter") == "lfs"]
    stored = contents(git, pointers, _LARGEST_POINTER) if pointers else {}
    return {
        entry.path
        for entry in doubtful
        if not _converted(root, entry, attributes[entry.path], stored.get(entry.blob, b""))
    }


def _attributes(git: Git, root: str, paths: list[str]) -> dict[str, dict[str, str]]:
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    fields = git.ask(root, "check-attr", "-z", "--stdin", "filter", "text", "eol", stdin=asked).split(b"\0")
    attributes: dict[str, dict[str, str]] = {path: {} for path in paths}
    for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3]):
        attributes[os.fsdecode(path)][os.fsdecode(name)] = os.fsdecode(value)
    return attributes


def _converted(root: str, entry: _Indexed, attributes: Mapping[str, str], pointer: bytes) -> bool:
    """Whether a file is the stored content as converted by Git LFS or an end-of-line rule."""
    path = os.path.join(root, entry.path)
    try:
        if pointer:
            named = re.search(rb"^oid sha256:([0-9a-f]{64})$", pointer, re.MULTILINE)
            return named is not None and named[1].decode("ascii") == file_sha256(path)
        if attributes.get("text") in ("set", "auto") or attributes.get("eol") in ("crlf", "lf"):
            with open(path, "rb") as stream:
                text = stream.read().replace(b"\r\n", b"\n")
            name = "sha1" if len(entry.blob) == 40 else "sha256"
            return hashlib.new(name, b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest() == entry.blob
    except OSError:
        pass
    return False
