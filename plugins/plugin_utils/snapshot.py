# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code of a job, as it lies on the controller: which files belong to it, their digest, and where git stands.

Inside a git work tree the snapshot holds what git tracks *as it lies in the work tree* (uncommitted changes included)
and new files that git does not ignore; elsewhere it holds every file but the usual debris. A subfolder of a repository
is a snapshot of that subfolder alone. The digest is that of the files (`staging/tree.py`), so that a commit which
changes nothing in the folder launches nothing anew.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.tree import Entry, digest, read_entry, walk

# What tools leave behind, and what our own runs write: never part of a program. Tracked files are exempt, because a
# person decided to track them.
DEBRIS = (
    ".git",
    ".hg/",
    ".svn/",
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    ".tox/",
    ".nox/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".hypothesis/",
    ".ipynb_checkpoints/",
    "node_modules/",
    "*.egg-info/",
    ".DS_Store",
    "*.swp",
    "*.retry",
    ".ansible/",
    "/runs/",
)


@dataclass(frozen=True)
class Snapshot:
    """What `take` saw. `commit`, `branch` and `diff_digest` are None outside git; `changed` lists uncommitted paths."""

    src: str
    digest: str
    files: tuple[Entry, ...]
    commit: str | None = None
    branch: str | None = None
    changed: tuple[str, ...] = ()
    diff_digest: str | None = None

    @property
    def dirty(self) -> bool:
        """Whether the tree differs from the commit."""
        return bool(self.changed)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files)

    def facts(self) -> dict[str, object]:
        """What a record of the launch keeps about the code."""
        return {
            "src": self.src,
            "digest": self.digest,
            "files": len(self.files),
            "bytes": self.size,
            "commit": self.commit,
            "branch": self.branch,
            "dirty": self.dirty,
            "changed": list(self.changed),
            "diff_digest": self.diff_digest,
        }


@dataclass(frozen=True)
class _Listing:
    tracked: tuple[str, ...]
    untracked: tuple[str, ...]
    commit: str | None = None
    branch: str | None = None
    changed: tuple[str, ...] = ()


def take(src: str, exclude: Sequence[str] = ()) -> Snapshot:
    """Look at the folder `src`, without the paths that match `exclude` (patterns as in .gitignore, without `!`).

    Raises RankzeroError when `src` is no folder, holds no file, or a pattern is wrong.
    """
    root = os.path.abspath(os.path.expanduser(src))
    if not os.path.isdir(root):
        raise RankzeroError(f"code.src: {src!r} is not a folder on the controller ({root}). Name the program's folder.")
    unwanted = matcher(exclude)
    debris = matcher(DEBRIS)
    listing = _git_listing(root)
    if listing is None or not (listing.tracked or listing.untracked):  # git ignores the folder as a whole: so do we git
        listing = _Listing((), tuple(_plain_files(root, lambda path: unwanted(path) or debris(path))))
    kept = [path for path in listing.tracked if not unwanted(path)]
    kept += [path for path in listing.untracked if not unwanted(path) and not debris(path)]
    entries = sorted(_read(root, kept), key=lambda entry: os.fsencode(entry.path))
    if not entries:
        raise RankzeroError(
            f"code.src: the folder {root} holds no file to ship. "
            "Check that code.src names the program's folder and that code.exclude leaves something."
        )
    known = set(listing.untracked)
    changed = sorted(path for path in listing.changed if not unwanted(path) and not (path in known and debris(path)))
    return Snapshot(
        src=root,
        digest=digest(entries),
        files=tuple(entries),
        commit=listing.commit,
        branch=listing.branch,
        changed=tuple(changed),
        diff_digest=_diff_digest(changed, entries) if listing.commit is not None and changed else None,
    )


def pack(snapshot: Snapshot, target: BinaryIO) -> None:
    """Write the snapshot's files as a tar.gz that is the same bytes for the same tree. Raises OSError.

    A file that changed since `take` is packed as it is now: the cluster compares the digest and refuses.
    """
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=target, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in snapshot.files:
            info = tarfile.TarInfo(entry.path)
            if entry.kind == "l":
                info.type = tarfile.SYMTYPE
                info.linkname = os.readlink(os.path.join(snapshot.src, entry.path))
                archive.addfile(info)
                continue
            info.mode = 0o755 if entry.kind == "x" else 0o644
            with open(os.path.join(snapshot.src, entry.path), "rb") as stream:
                info.size = os.fstat(stream.fileno()).st_size
                archive.addfile(info, stream)


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A test for relative paths, from patterns as in .gitignore.

    A pattern without `/` matches a name at any depth, one with `/` counts from the folder itself; a trailing `/` means
    folders only; `*` and `?` stay within a name, `**` crosses. What lies below a matching folder matches.
    Raises RankzeroError for an empty pattern and for a negated one, which would need an order to mean anything.
    """
    sources = []
    for pattern in patterns:
        if not pattern.strip("/ ") or pattern.startswith("!"):
            raise RankzeroError(
                f"code.exclude: {pattern!r} is not a usable pattern. "
                "Write patterns as in .gitignore (`*.log`, `/data/`, `docs/**/*.png`), without `!`."
            )
        sources.append(_translate(pattern))
    if not sources:
        return lambda path: False
    expression = re.compile("|".join(sources), re.DOTALL)
    return lambda path: expression.match(path) is not None


def _translate(pattern: str) -> str:
    folder_only = pattern.endswith("/")
    body = pattern.rstrip("/")
    anchored = "/" in body
    body = body.lstrip("/")
    parts = []
    for part in re.split(r"(\*\*/|/\*\*$|\*|\?|\[[^\]]+\])", body):
        if part == "**/":
            parts.append("(?:.*/)?")
        elif part == "/**":
            parts.append("/.*")
        elif part == "*":
            parts.append("[^/]*")
        elif part == "?":
            parts.append("[^/]")
        elif part.startswith("[") and part.endswith("]") and len(part) > 2:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append("[^" + inside[1:] + "]" if inside[0] == "!" else "[" + inside + "]")
        else:
            parts.append(re.escape(part))
    end = "/" if folder_only else r"(?:/|\Z)"
    return ("" if anchored else r"(?:.*/)?") + "".join(parts) + end


def _read(root: str, paths: Iterable[str]) -> Iterable[Entry]:
    for path in dict.fromkeys(paths):
        try:
            entry = read_entry(root, path)
        except FileNotFoundError:
            continue  # tracked, and deleted in the work tree: `changed` says so
        except OSError as error:
            raise RankzeroError(
                f"code.src: {os.path.join(root, path)} cannot be read ({error.strerror}). "
                "Make it readable or add it to code.exclude."
            ) from error
        if entry is not None:
            yield entry


def _plain_files(root: str, unwanted: Callable[[str], bool]) -> Iterable[str]:
    try:
        yield from (path for path in walk(root, skip=lambda folder: unwanted(folder + "/")) if not unwanted(path))
    except OSError as error:
        raise RankzeroError(f"code.src: {error.filename} cannot be read ({error.strerror}).") from error


def _diff_digest(changed: Iterable[str], entries: Iterable[Entry]) -> str:
    """One digest for the uncommitted state: the changed paths with the content that they have now."""
    present = {entry.path: entry for entry in entries}
    total = hashlib.sha256()
    for path in changed:
        entry = present.get(path)
        state = f"{entry.kind} {entry.sha256}" if entry else "deleted"
        total.update(os.fsencode(path) + b"\0" + state.encode("ascii") + b"\0")
    return total.hexdigest()


def _git_listing(root: str) -> _Listing | None:
    """What git knows about the folder `root`, paths relative to it; None when it is not in a work tree."""
    if not _inside_repository(root):
        return None
    prefix = os.fsdecode(git(root, "rev-parse", "--show-prefix").rstrip(b"\n"))
    status = git(root, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames", "--", ".")
    commit, branch, changed, untracked = parse_status(status, prefix)
    tracked = []
    for record in git(root, "ls-files", "--stage", "-z").split(b"\0"):
        if not record:
            continue
        head, name = record.split(b"\t", 1)
        if head.startswith(b"160000 "):  # a submodule: its files are its own repository's
            untracked.append(os.fsdecode(name) + "/")
        else:
            tracked.append(os.fsdecode(name))
    plain = []
    for path in untracked:
        if not path.endswith("/"):
            plain.append(path)
            continue
        if not os.path.lexists(os.path.join(root, path, ".git")):
            continue  # a submodule that was never initialised: an empty folder
        inner = _git_listing(os.path.join(root, path)) or _Listing((), ())
        tracked += [path + below for below in inner.tracked]
        plain += [path + below for below in inner.untracked]
        changed += [path + below for below in inner.changed]
    return _Listing(tuple(tracked), tuple(plain), commit, branch, tuple(changed))


def parse_status(output: bytes, prefix: str) -> tuple[str | None, str | None, list[str], list[str]]:
    """(commit, branch, changed paths, untracked paths) from `git status --porcelain=v2 --branch -z --no-renames`.

    Paths come relative to the repository and leave relative to `prefix` (git-status(1), "Porcelain Format Version 2").
    A repository without a commit has commit None; a detached head has branch None.
    """
    commit: str | None = None
    branch: str | None = None
    changed: list[str] = []
    untracked: list[str] = []
    for record in output.split(b"\0"):
        kind = record[:2]
        if record.startswith(b"# branch.oid ") and record[13:] != b"(initial)":
            commit = record[13:].decode("ascii")
        elif record.startswith(b"# branch.head ") and record[14:] != b"(detached)":
            branch = os.fsdecode(record[14:])
        elif kind == b"? ":
            untracked.append(os.fsdecode(record[2:])[len(prefix) :])
            changed.append(untracked[-1])
        elif kind == b"1 ":
            changed.append(os.fsdecode(record.split(b" ", 8)[8])[len(prefix) :])
        elif kind == b"u ":
            changed.append(os.fsdecode(record.split(b" ", 10)[10])[len(prefix) :])
    return commit, branch, changed, untracked


def _inside_repository(root: str) -> bool:
    """Whether a folder above `root` (or itself) has a .git; spares the process where there is none."""
    folder = root
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
        parent = os.path.dirname(folder.rstrip("/")) or "/"
        if parent == folder:
            return False
        folder = parent


def git(root: str, *arguments: str, allowed: Sequence[int] = (0,)) -> bytes:
    """What a git query prints in `root`; `allowed` are the exit codes of success. Raises RankzeroError.

    No optional locks (another git may be at work), no hooks of the repository.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        # Set by git itself for hooks and aliases: they would point this query at another repository.
        if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
    }
    environment.update(GIT_OPTIONAL_LOCKS="0", LC_ALL="C")
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=False)
    except FileNotFoundError:
        raise RankzeroError(
            f"code.src: {root} lies in a git repository, but there is no git command on the controller. Install git."
        ) from None
    if done.returncode not in allowed:
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise RankzeroError(f"code.src: git cannot read {root}: {reason}")
    return done.stdout
