# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack tar archives, compressed or not, safely. archive.py applies the same rules to zip files.

An archive is read twice. The first pass checks every name, link and size and the number of members, and refuses an
archive that breaks the rules before any byte is written. The second pass writes relative to open folders, never follows
a link, never opens an existing file, and creates the archive's links last. Owners, times and setuid bits in an archive
are ignored; the umask decides who can read the unpacked files.

Standard library only, without imports from this collection: jobs use this file on their nodes (runtime/extraction.py is
a link to it).
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, cast

FOLDER, FILE, LINK, HARD, OTHER = "folder", "file", "link", "hard link", "special file"
# A header may claim any size, up to all memory. No valid header needs more than this.
MOST_AT_ONCE = 4 << 20
MOST_DEEP = 100
MOST_LINKS, MOST_NAME, MOST_PATH = 40, 255, 4000  # the kernel's limits (path_resolution(7))
# An archive with less content than this passes at any compression ratio.
ALWAYS_FITS = 256 << 20
_BLOCK = 1 << 20
_PACKINGS: Mapping[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
# A line of `unsquashfs -lln`: type, mode, owner, size (for a device, its numbers), time, path.
_LISTED = re.compile(r"(.)([-rwxsStT]{9}) +\d+/\d+ +(\d+(?:, *\d+)?) +\d+-\d+-\d+ \d+:\d+ (.*)", re.DOTALL)
_KINDS = (
    (tarfile.TarInfo.isdir, FOLDER),
    (tarfile.TarInfo.issym, LINK),
    (tarfile.TarInfo.islnk, HARD),
    (tarfile.TarInfo.isreg, FILE),
)


class Refused(Exception):
    """The archive contains something that is not allowed. Nothing was written."""


class Damaged(Exception):
    """The archive ends early or cannot be read."""


@dataclass(frozen=True)
class Rules:
    """What an archive may contain.

    `links`: `refuse`, `skip`, `inside` (only links that stay in the folder) or `any` (kept as they are; unpacking never
    writes through them). `special`: `refuse` or `skip` special files such as devices and pipes. `control`: whether
    names may contain control characters. `modes`: `plain` (0755 or 0644) or `image` (all bits, as a container's root
    needs; only for a folder that nobody else may enter).
    """

    links: str = "refuse"
    special: str = "refuse"
    control: bool = False
    modes: str = "plain"
    members: int = 1_000_000
    ratio: int = 250
    #: Limit for the bytes of all files together; None: only `ratio` and the free disk space limit them.
    size: int | None = None


@dataclass(frozen=True)
class Member:
    """One member. Once checked, `name` is a plain relative path. `source`: the archive's own record of the member."""

    name: str
    kind: str
    size: int = 0
    mode: int = 0
    target: str = ""
    source: Any = None


@dataclass(frozen=True)
class Written:
    """A file or link that was written. `sha256` is the digest of the file's content or of the link's target."""

    name: str
    kind: str
    executable: bool
    size: int
    sha256: str


# --- reading


class _Guard:
    """A stream that limits the size of a single read and reports all damage as Damaged."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_AT_ONCE:
            raise Refused(f"a header claims to have {size} bytes")
        with damage():
            return self.stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        with damage():
            return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()


@contextlib.contextmanager
def damage() -> Iterator[None]:
    """Convert the errors that the libraries raise for damaged archives to Damaged or Refused."""
    try:
        yield
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile) as error:
        raise Damaged(str(error)) from error
    except RecursionError as error:
        raise Refused("its headers have headers without end") from error
    except OSError as error:
        if error.errno is None:  # bz2 raises a plain OSError for damage
            raise Damaged(str(error)) from error
        raise


@contextlib.contextmanager
def tar(archive: str | IO[bytes]) -> Iterator[tarfile.TarFile]:
    """Open the tar in a file or a seekable stream and decompress it while reading. Raises Damaged."""
    with contextlib.ExitStack() as layers:
        raw = layers.enter_context(open(archive, "rb")) if isinstance(archive, str) else archive
        raw.seek(0)
        start = raw.read(6)
        raw.seek(0)
        stream: Any = raw
        for magic, unpacked in _PACKINGS.items():
            if start.startswith(magic):
                stream = layers.enter_context(unpacked(raw, "rb"))
        with damage():
            opened = layers.enter_context(tarfile.open(fileobj=cast("IO[bytes]", _Guard(stream)), mode="r:"))
        yield opened


def headers(packed: tarfile.TarFile, rules: Rules) -> Iterator[tarfile.TarInfo]:
    """Iterate over the headers of a tar. Raises Refused if there are too many."""
    count = 0
    while packed.offset:  # 0: no first header was found, and next() in Python 3.10 would seek to -1
        with damage():
            header = packed.next()
        if header is None:
            return
        # tarfile would keep all headers in memory; callers keep the ones they need.
        cast("Any", packed).members = []
        count += 1
        if count > rules.members:
            raise Refused(f"it has more than {rules.members} members")
        yield header


def of_tar(packed: tarfile.TarFile, rules: Rules) -> Iterator[Member]:
    """Iterate over the members of a tar. Anything but a file, folder or link is OTHER. Raises Refused, Damaged."""
    for header in headers(packed, rules):
        kind = next((kind for is_it, kind in _KINDS if is_it(header)), OTHER)
        yield Member(header.name, kind, header.size if kind == FILE else 0, header.mode, header.linkname, header)


def of_listing(text: str, folder: str) -> Iterator[Member]:
    """Iterate over the members in output of `unsquashfs -lln -d FOLDER`. unsquashfs unpacks after the checks."""
    for line in text.removesuffix("\n").split("\n"):
        match = _LISTED.fullmatch(line)
        path, arrow, target = match[4].partition(" -> ") if match and match[1] == "l" else (line, "", "")
        path = path if arrow or not match else match[4]
        if not match or " -> " in target or not f"{path}/".startswith(f"{folder}/"):
            raise Refused(f"{line[-60:]!a} is not a valid listing line: a name contains a line break or an arrow")
        kind = {"-": FILE, "d": FOLDER, "l": LINK}.get(match[1], OTHER)
        yield Member(path[len(folder) + 1 :], kind, int(match[3]) if kind == FILE else 0, 0, target)


# --- checking


def plain(name: str, control: bool = False) -> str:
    """Return a member's name as a plain relative path, empty for the folder itself. Raises Refused otherwise."""
    short = name
    while short.startswith("./"):
        short = short[2:].lstrip("/")
    short = short[:-1] if short.endswith("/") else short
    if short in ("", "."):
        return ""
    parts = short.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in short:
        raise Refused(f"{name!a} is not a plain relative path")
    if not control and any(ord(character) < 32 or 127 <= ord(character) < 160 for character in short):
        raise Refused(f"{name!a} has control characters")
    raw = os.fsencode(short)
    if len(raw) > MOST_PATH or max(map(len, raw.split(b"/"))) > MOST_NAME or len(parts) > MOST_DEEP:
        raise Refused(f"{name[:60]!a}... is longer or deeper than a path may be")
    return short


def check(members: Iterable[Member], rules: Rules, packed_bytes: int, free: int | None = None) -> list[Member]:
    """Return the members to be written, in their order, with plain names. Raises Refused."""
    kept: list[Member] = []
    kinds: dict[str, str] = {}
    links: dict[str, str] = {}
    most = most_bytes(rules, packed_bytes)
    total = count = 0
    for member in members:
        count += 1
        if count > rules.members:
            raise Refused(f"it has more than {rules.members} members")
        if (member.kind == LINK and rules.links == "skip") or (member.kind == OTHER and rules.special == "skip"):
            continue
        if member.kind == OTHER or (member.kind == LINK and rules.links == "refuse"):
            raise Refused(f"{member.name!a} is a {member.kind}")
        name = plain(member.name, rules.control)
        if not name:
            continue
        total += member.size
        if member.size < 0 or total > most:
            raise Refused(f"it holds more than {most} bytes, which is too much for an archive of {packed_bytes}")
        if free is not None and total > free:
            raise Refused(f"it needs more than the {free} bytes free at its destination")
        target = plain(member.target, rules.control) if member.kind == HARD else member.target
        if member.kind == HARD and kinds.get(target) not in (FILE, HARD):
            raise Refused(f"{member.name!a} is a hard link to {member.target!a}, which is not an earlier file")
        _place(name, member.kind, kinds)
        if member.kind == LINK:
            if not target or "\0" in target or len(os.fsencode(target)) > MOST_PATH:
                raise Refused(f"{member.name!a} is a link to no path")
            links[name] = target
        kept.append(Member(name, member.kind, member.size, member.mode, target, member.source))
    if rules.links == "inside":
        for name in links:
            _stays(name, links)
    return kept


def most_bytes(rules: Rules, packed_bytes: int) -> int:
    """Return the most bytes that an archive of this size may contain."""
    return rules.size if rules.size is not None else max(ALWAYS_FITS, rules.ratio * packed_bytes)


def _place(name: str, kind: str, kinds: dict[str, str]) -> None:
    """Record a name. Raises Refused if it is already present or if a parent of it is not a folder."""
    there = kinds.get(name)
    if there is not None and (there, kind) != (FOLDER, FOLDER):
        raise Refused(f"{name!a} is there twice")
    kinds[name] = kind
    above = name.rpartition("/")[0]
    while above:
        above_kind = kinds.setdefault(above, FOLDER)
        if above_kind != FOLDER:
            raise Refused(f"{name!a} lies below {above!a}, which is a {above_kind}")
        above = above.rpartition("/")[0]


def _stays(name: str, links: Mapping[str, str]) -> None:
    """Raise Refused for a link that leads out of the folder, directly or through other links."""
    resolved: list[str] = []
    left, followed = name.split("/"), 0
    while left:
        part = left.pop(0)
        if part == ".." and not resolved:
            raise Refused(f"{name!a} is a link to a path outside of the archive: {links[name]!a}")
        if part == "..":
            resolved.pop()
        elif part not in ("", "."):
            resolved.append(part)
            target = links.get("/".join(resolved))
            if target is not None:
                followed += 1
                if target.startswith("/") or followed > MOST_LINKS:
                    raise Refused(f"{name!a} is a link out of the archive, or part of a loop: {links[name]!a}")
                resolved.pop()
                left = target.split("/") + left


# --- writing


class _Folder:
    """Writes below one folder, relative to descriptors, so that nothing outside the folder is touched."""

    def __init__(self, path: str) -> None:
        self.chain: list[tuple[str, int]] = [("", os.open(path, _DIRECTORY))]

    def close(self) -> None:
        for _name, descriptor in self.chain:
            os.close(descriptor)

    def enter(self, parts: Sequence[str]) -> int:
        """Return the descriptor of a folder, which is created if it is missing."""
        same = 0
        while same < min(len(parts), len(self.chain) - 1) and self.chain[same + 1][0] == parts[same]:
            same += 1
        for _name, descriptor in self.chain[same + 1 :]:
            os.close(descriptor)
        del self.chain[same + 1 :]
        for part in parts[same:]:
            above = self.chain[-1][1]
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=above)
            self.chain.append((part, os.open(part, _DIRECTORY, dir_fd=above)))
        return self.chain[-1][1]

    def above(self, name: str) -> tuple[int, str]:
        parts = name.split("/")
        return self.enter(parts[:-1]), parts[-1]

    def file(self, member: Member, content: IO[bytes], modes: str, mtime: int | None) -> str:
        above, last = self.above(member.name)
        digest, left = hashlib.sha256(), member.size
        mode = 0o755 if member.mode & 0o100 else 0o644
        descriptor = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=above)
        with open(descriptor, "wb") as out:
            while left:
                block = content.read(min(left, _BLOCK))
                if not block:
                    raise Damaged(f"{member.name!a} ends {left} bytes early")
                out.write(block)
                digest.update(block)
                left -= len(block)
            out.flush()
            if modes == "image":
                os.fchmod(out.fileno(), member.mode & 0o7777 | 0o400)
            if mtime is not None:
                os.utime(out.fileno(), (mtime, mtime))
        return digest.hexdigest()

    def hard_link(self, member: Member) -> None:
        above, last = self.above(member.target)
        held = os.dup(above)  # entering the other folder may close it
        try:
            there, new = self.above(member.name)
            os.link(last, new, src_dir_fd=held, dst_dir_fd=there, follow_symlinks=False)
        finally:
            os.close(held)


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write(
    members: Sequence[Member],
    folder: str,
    content: Callable[[Member], IO[bytes] | None],
    rules: Rules,
    mtime: int | None = None,
) -> list[Written]:
    """Write checked members into an empty folder. Raises Damaged and OSError."""
    written: dict[str, Written] = {}
    below = _Folder(folder)
    try:
        for member in members:
            if member.kind == FOLDER:
                below.enter(member.name.split("/"))
            elif member.kind == FILE:
                with damage(), contextlib.closing(content(member) or io.BytesIO()) as stream:
                    sha256 = below.file(member, stream, rules.modes, mtime)
                written[member.name] = Written(member.name, FILE, bool(member.mode & 0o100), member.size, sha256)
            elif member.kind == HARD:
                below.hard_link(member)
                first = written[member.target]
                written[member.name] = Written(member.name, FILE, first.executable, first.size, first.sha256)
        for member in members:
            if member.kind == LINK:
                above, last = below.above(member.name)
                os.symlink(member.target, last, dir_fd=above)
                raw = os.fsencode(member.target)
                written[member.name] = Written(member.name, LINK, False, len(raw), hashlib.sha256(raw).hexdigest())
        if rules.modes == "image":
            for member in members:
                if member.kind == FOLDER:
                    os.fchmod(below.enter(member.name.split("/")), member.mode & 0o7777 | 0o700)
    finally:
        below.close()
    return list(written.values())


def untar(archive: str | IO[bytes], folder: str, rules: Rules | None = None, mtime: int | None = None) -> list[Written]:
    """Unpack a tar into an empty folder: all of it, or nothing unless the storage fails. Raises Refused, Damaged."""
    rules = rules or Rules()
    size = os.path.getsize(archive) if isinstance(archive, str) else archive.seek(0, os.SEEK_END)
    with tar(archive) as packed:
        members = check(of_tar(packed, rules), rules, size, shutil.disk_usage(folder).free)
        return write(members, folder, lambda member: packed.extractfile(member.source), rules, mtime)
