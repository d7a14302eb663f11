# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code of a job on the controller: its files, their digest, and the state of git.

Inside a git work tree, the snapshot contains tracked files *as they are in the work tree* (including uncommitted
changes) and new files that git does not ignore. Elsewhere, it contains every file except the usual debris. A subfolder
of a repository is a snapshot of that subfolder alone. The digest covers the files (`store/tree.py`), so that a commit
that changes nothing in the folder does not cause a new launch.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry, digest, read_entry, walk
from ansible_collections.rankzero.slurm.plugins.module_utils.store.wildcards import Wildcards
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.checkout import Beneath, Checkout, checkout_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.outputs import being_written, outputs

# Files left by tools and written by our runs, which are never part of a program. Tracked files are exempt, because
# somebody decided to track them.
DEBRIS = (
    *(".git", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".venv/", "venv/", ".tox/", ".nox/", ".mypy_cache/"),
    *(".ruff_cache/", ".pytest_cache/", ".hypothesis/", ".ipynb_checkpoints/", "node_modules/", "*.egg-info/"),
    *(".DS_Store", "*.swp", "*.retry", ".ansible/", ".rankzero/", "/runs/"),
)


@dataclass(frozen=True)
class Snapshot:
    """The result of `take_snapshot`. `commit`, `branch` and `diff_digest` are None outside git; `changed`: uncommitted
    paths.
    """

    src: str
    digest: str
    files: tuple[Entry, ...]
    commit: str | None = None
    branch: str | None = None
    changed: tuple[str, ...] = ()
    diff_digest: str | None = None
    # The paths that belong to launching and are not part of the code, and those of them that differ from the commit.
    left_out: tuple[str, ...] = ()
    left_out_changed: tuple[str, ...] = ()
    # The paths that the command itself was writing, such as the file that its output is redirected to.
    written: tuple[str, ...] = ()
    # Where git's answers came from; None for a snapshot that another task has taken.
    checkout: Checkout | None = field(default=None, compare=False, repr=False)

    @classmethod
    def nothing(cls, src: str) -> Snapshot:
        """The snapshot of a launch that uses a folder of the cluster as it is."""
        return cls(src, "", ())

    @property
    def dirty(self) -> bool:
        """Whether the tree differs from the commit."""
        return bool(self.changed)

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(entry.size for entry in self.files)

    def facts(self) -> dict[str, object]:
        """The facts about the code that a launch records."""
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
class Chosen:
    """Which files of a folder are its code. Patterns are as in .gitignore, without `!`.

    `include`: files that belong to launching and are part of the code nevertheless. `words`: the program's command and
    variables; files that they name are part of the code.
    """

    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def everything(cls, exclude: Iterable[str] = ()) -> Chosen:
        """All files but the excluded ones, also those that belong to launching."""
        return cls(tuple(exclude), ("*",))


#: Without patterns.
PROGRAM = Chosen()


def patterns_of(snapshot: Snapshot, exclude: Iterable[str]) -> tuple[str, ...]:
    """The excluded patterns, and one for each file that was left out: with `Chosen.everything`, the same files."""
    return (*exclude, *map(as_pattern, snapshot.left_out))


def as_pattern(path: str) -> str:
    """The pattern that matches one path of a folder and no other."""
    return "/" + re.sub(r"([*?[])", r"[\1]", path)


@dataclass(frozen=True)
class Folder:
    """A folder as it was when a command read it. Launches with other commands may choose other files of it."""

    root: str
    checkout: Checkout | None
    entries: list[Entry]
    changed: list[str]
    # What the command itself was writing, and what earlier ones have written.
    written: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()


def take_snapshot(src: str, chosen: Chosen = PROGRAM) -> Snapshot:
    """Take a snapshot of the folder `src`.

    Raises RankzeroError if `src` is not a folder, contains no files, or a pattern is invalid.
    """
    return snapshot_of(read(src, chosen.exclude), chosen)


def read(src: str, exclude: Iterable[str] = ()) -> Folder:
    """Read the folder `src` without what `exclude` names. Raises RankzeroError as `take_snapshot` does."""
    root = os.path.abspath(os.path.expanduser(src))
    if not os.path.isdir(root):
        raise RankzeroError(f"code.src: {src!r} is not a folder on the controller ({root}). Name the program's folder.")
    unwanted = matcher(exclude)
    debris = matcher(DEBRIS)
    checkout = checkout_of(root)
    if checkout and not (checkout.tracked or checkout.untracked):  # git ignores the complete folder
        checkout = None
    if checkout:
        tracked, new, changed = checkout.tracked, set(checkout.untracked), checkout.changed
    else:
        tracked, new, changed = (), set(_plain_files(root, lambda path: unwanted(path) or debris(path))), ()
    kept = [path for path in tracked if not unwanted(path)]
    kept += [path for path in new if not unwanted(path) and not debris(path)]
    written = being_written(root, kept)
    kept = [path for path in kept if path not in written]
    entries = sorted(_read(root, kept), key=lambda entry: os.fsencode(entry.path))
    if not entries:
        raise RankzeroError(
            f"code.src: the folder {root} contains no file to send. "
            "Check that code.src names the program's folder and that code.exclude leaves something."
        )
    differing = [
        path for path in changed if path not in written and not unwanted(path) and not (path in new and debris(path))
    ]
    return Folder(root, checkout, entries, differing, written, outputs(root, new))


def snapshot_of(folder: Folder, chosen: Chosen) -> Snapshot:
    """The snapshot of those files of a folder that are the code of a launch."""
    launching = _launching(folder, chosen)
    program = [entry for entry in folder.entries if entry.path not in launching]
    if not program:  # without any other file, these are what is launched
        launching, program = set(), folder.entries
    changed = tuple(path for path in folder.changed if path not in launching)
    checkout = folder.checkout
    commit = checkout.commit if checkout else None
    return Snapshot(
        src=folder.root,
        digest=digest(program),
        files=tuple(program),
        commit=commit,
        branch=checkout.branch if checkout else None,
        changed=changed,
        diff_digest=_diff_digest(changed, program) if commit is not None and changed else None,
        left_out=tuple(entry.path for entry in folder.entries if entry.path in launching),
        left_out_changed=tuple(path for path in folder.changed if path in launching - folder.outputs),
        written=tuple(sorted(folder.written)),
        checkout=checkout,
    )


def _launching(folder: Folder, chosen: Chosen) -> set[str]:
    """The paths that belong to launching. What recognises them is imported only if it is needed."""
    paths = [entry.path for entry in folder.entries]
    wanted = matcher(chosen.include, "code.include")
    if all(map(wanted, paths)):
        return set()
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.launching import launch_files

    written = folder.outputs.intersection(paths)
    return {path for path in launch_files(folder.root, paths, chosen.words, written) if not wanted(path)}


def pack(snapshot: Snapshot, target: BinaryIO) -> None:
    """Write the snapshot's files as a tar.gz; the same tree always gives the same bytes.

    Raises OSError; RankzeroError with the name of a file that has changed since `take_snapshot`.
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
            info.size = entry.size
            with open(os.path.join(snapshot.src, entry.path), "rb") as stream:
                read = _Read(stream)
                unchanged = os.fstat(stream.fileno()).st_size == entry.size
                if unchanged:
                    archive.addfile(info, read)
            if not unchanged or read.total.hexdigest() != entry.sha256:
                raise RankzeroError(
                    f"code.src: {os.path.join(snapshot.src, entry.path)} changed while it was packed. Run again. If a "
                    "program writes it all the time, add it to code.exclude."
                )


class _Read:
    """A file that is read once, and the digest of what was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.total = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self.total.update(block)
        return block


def matcher(patterns: Iterable[str], option: str = "code.exclude") -> Callable[[str], bool]:
    """A test for relative paths, from patterns as in .gitignore.

    A pattern without `/` matches a name at any depth; one with `/` is relative to the folder itself. A trailing `/`
    means folders only. `*` and `?` do not match `/`; `**` does. Everything below a matching folder matches too. Raises
    RankzeroError for an empty pattern, and for a negated one, whose meaning would depend on the order.
    """
    plain: list[Wildcards] = []
    others: list[Wildcards] = []
    for pattern in patterns:
        if not pattern.strip("/ ") or pattern.startswith("!"):
            raise RankzeroError(
                f"{option}: {pattern!r} is not a usable pattern. "
                "Write patterns as in .gitignore (`*.log`, `/data/`, `docs/**/*.png`), without `!`."
            )
        wild = Wildcards(pattern)
        (plain if wild.few else others).append(wild)
    expression = re.compile("|".join(wild.expression() for wild in plain), re.DOTALL) if plain else None
    return lambda path: bool(expression and expression.match(path)) or any(wild.matches(path) for wild in others)


def _read(root: str, paths: Iterable[str]) -> Iterable[Entry]:
    beneath = Beneath(root)
    for path in dict.fromkeys(paths):
        if not beneath(path):
            continue  # tracked in a folder that has become a link: for git, too, the file is gone
        try:
            entry = read_entry(root, path)
        except FileNotFoundError:
            continue  # tracked, but deleted in the work tree: listed in `changed`
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
        raise RankzeroError(f"code.src: {error.filename} cannot be read ({error.strerror})") from error


def _diff_digest(changed: Iterable[str], entries: Iterable[Entry]) -> str:
    """A digest of the uncommitted state: the changed paths with their present contents."""
    present = {entry.path: entry for entry in entries}
    total = hashlib.sha256()
    for path in changed:
        entry = present.get(path)
        state = f"{entry.kind} {entry.sha256}" if entry else "deleted"
        total.update(os.fsencode(path) + b"\0" + state.encode("ascii") + b"\0")
    return total.hexdigest()
