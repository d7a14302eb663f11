# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What git knows about a folder: its files, its commit, and the differences from the commit.

Git itself compares, in its view (git.py), where no filter is defined. So a file that Git LFS stores as a pointer, and
whose record in the index is older than the file, is compared here. Submodules and nested repositories are opened each
in a view of its own, because git would read their configuration.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.git import MARKER, Git, WorkTree, find, opened

_SUBMODULE = "160000"
# Number of fields before the path in a row of `git status --porcelain=v2`, by the row's first character.
_FIELDS = {"1": 8, "u": 10, "?": 1}
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty")
_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--relative", "--ignore-submodules=dirty")
# The files of a diff are its arguments. Larger files are named only.
_MOST_FILES, _LARGEST = 1000, "1m"
# An object that `git diff` does not read: it takes the present file.
_ANY_OBJECT = {"sha1": "1" * 40, "sha256": "1" * 64}
_EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


@dataclass(frozen=True)
class Checkout:
    """A folder in a work tree as it was when it was opened, with the repositories below it.

    `tracked`, `untracked` (and not ignored) and `changed` (since the commit) are paths relative to the folder `root`.
    `inner`: the repositories below it, by their path with a slash.
    """

    root: str
    tree: WorkTree
    settings: Mapping[str, str]
    commit: str | None
    branch: str | None
    tracked: tuple[str, ...]
    untracked: tuple[str, ...]
    changed: tuple[str, ...]
    inner: Mapping[str, Checkout]

    @property
    def origin(self) -> str:
        """The address of the remote `origin` in the repository's configuration; "" if there is none."""
        return self.settings.get("remote.origin.url", "")

    def diff(self, paths: Iterable[str], most: int, place: str = "") -> bytes:
        """The differences of those paths from the commit, cut after `most` bytes. `place`: what is put before names."""
        here: list[str] = []
        below: dict[str, list[str]] = {}
        for path in paths:
            inner = next((inner for inner in self.inner if path.startswith(inner)), None)
            below.setdefault(inner, []).append(path[len(inner) :]) if inner else here.append(path)
        text = self._own_diff(here, most, place) if here else b""
        for inner, names in sorted(below.items()):
            text += self.inner[inner].diff(names, most, place + inner)
        return text

    def _own_diff(self, paths: list[str], most: int, place: str) -> bytes:
        """The diff of this repository alone."""
        kind = self.settings.get("extensions.objectformat", "sha1")
        against = self.commit or _EMPTY_TREE[kind]
        prefixes = (f"--src-prefix=a/{place}", f"--dst-prefix=b/{place}")
        new = set(self.untracked).intersection(paths[:_MOST_FILES])
        left_out = len(paths) - _MOST_FILES
        try:
            with opened(self.tree, self.settings) as git:
                if new:
                    above = _above(self.root, self.tree)
                    rows = (f"100644 {_ANY_OBJECT[kind]}\t{above}{path}\0" for path in sorted(new))
                    git.update_index(self.root, ["--add", "--replace", "-z", "--index-info"], "".join(rows))
                large = ("-c", f"core.bigFileThreshold={_LARGEST}")
                asked = [*large, "diff", *_DIFF, *prefixes, against, "--", *paths[:_MOST_FILES]]
                text = git.beginning(self.root, asked, most)
        except (OSError, RankzeroError) as error:
            text = os.fsencode(f"(not shown: {error})\n")
        return text + (f"(not shown: {left_out} more files)\n".encode() if left_out > 0 else b"")


def checkout_of(folder: str) -> Checkout | None:
    """Open the work tree that contains a folder; None outside of one. Raises RankzeroError."""
    tree = find(folder)
    if tree is None:
        return None
    root = os.path.realpath(folder)
    if MARKER in os.path.relpath(root, tree.top).split(os.sep):
        raise RankzeroError(f"git: {folder} is a folder of git's own. Name the program's folder.")
    with opened(tree) as git:
        files, submodules = _index(git, root)
        state = _State(git, root)
        changed = state.changed - _large_files(git, root, state.modified, files)
    tracked = list(files)
    untracked = [path for path in state.untracked if not path.endswith("/")]
    changed.update(untracked)
    inner = {}
    for path in sorted({*submodules, *(path for path in state.untracked if path.endswith("/"))}):
        below = _below(root, path)
        if below is None:
            continue
        inner[path] = below
        if submodules.get(path, below.commit) != below.commit:
            changed.add(path.rstrip("/"))
        tracked += [path + name for name in below.tracked]
        untracked += [path + name for name in below.untracked]
        changed.update(path + name for name in below.changed)
    plain = [tuple(filter(_is_plain, paths)) for paths in (tracked, untracked, sorted(changed))]
    return Checkout(root, tree, git.settings, state.commit, state.branch, plain[0], plain[1], plain[2], inner)


class _State:
    """The answer of `git status` about a folder. `modified`: those changed paths whose content alone is another."""

    def __init__(self, git: Git, root: str) -> None:
        self.commit: str | None = None
        self.branch: str | None = None
        self.changed: set[str] = set()
        self.modified: set[str] = set()
        self.untracked: list[str] = []
        above = _above(root, git.tree)
        for row in _rows(git.run(root, *git.user_ignores(), *_STATUS, "--no-renames", "--no-ahead-behind", "--", ".")):
            if row.startswith("#"):
                self._head(*row.split(" ", 2)[1:])
                continue
            *fields, path = row.split(" ", _FIELDS[row[0]])
            path = path[len(above) :]
            if row[0] == "?":
                self.untracked.append(path)
                continue
            self.changed.add(path)
            if fields[:2] == ["1", ".M"] and fields[4] == fields[5]:
                self.modified.add(path)

    def _head(self, name: str, value: str) -> None:
        if name == "branch.oid" and value != "(initial)":
            self.commit = value
        elif name == "branch.head" and value != "(detached)":
            self.branch = value


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


def _below(root: str, path: str) -> Checkout | None:
    """The checkout of a repository inside; None for an uninitialised submodule, or a path that leads elsewhere."""
    place = os.path.join(root, path.rstrip("/"))
    if not Beneath(root)(path + MARKER[1:]):
        return None
    return checkout_of(place) if os.path.lexists(os.path.join(place, MARKER)) else None


def _is_plain(path: str) -> bool:
    """Whether a path has only ordinary parts. The index is an ordinary file, so its paths may lead anywhere."""
    return not any(part in ("", ".", "..", MARKER) for part in path.split("/"))


def _above(root: str, tree: WorkTree) -> str:
    """What git puts before a path that is relative to the folder, with a slash; "" at the top of the work tree."""
    return "" if root == tree.top else os.path.relpath(root, tree.top) + "/"


def _rows(answer: bytes) -> Iterator[str]:
    return (os.fsdecode(row) for row in answer.split(b"\0") if row)


def _index(git: Git, root: str) -> tuple[dict[str, str], dict[str, str]]:
    """The files of the index below a folder, path -> object, and its submodules, path with a slash -> commit.

    What the index claims to be unchanged is compared all the same.
    """
    files, submodules, claimed, skipped = {}, {}, [], []
    for row in _rows(git.run(root, "ls-files", "-v", "--stage", "-z")):
        facts, _tab, path = row.partition("\t")
        tag, mode, blob, _stage = facts.split(" ")
        if mode == _SUBMODULE:
            submodules[path + "/"] = blob
        else:
            files[path] = blob
        if tag.islower():
            claimed.append(path + "\0")
        if tag in "sS" and os.path.lexists(os.path.join(root, path)):
            skipped.append(path + "\0")
    for option, paths in (("--no-assume-unchanged", claimed), ("--no-skip-worktree", skipped)):
        if paths:
            git.update_index(root, [option, "-z", "--stdin"], "".join(paths))
    return files, submodules


def _large_files(git: Git, root: str, paths: Collection[str], files: Mapping[str, str]) -> set[str]:
    """Those of the modified files that Git LFS stores as a pointer, and that have the content that it names."""
    asked = "".join(f"{path}\0" for path in sorted(paths) if Beneath(root)(path))
    if not asked:
        return set()
    fields = list(_rows(git.run(root, "check-attr", "-z", "--stdin", "filter", stdin=os.fsencode(asked))))
    return {
        path for path, value in zip(fields[0::3], fields[2::3]) if value == "lfs" and _pointer(root, path, files[path])
    }


def _pointer(root: str, path: str, blob: str) -> bool:
    """Whether an object is the pointer to the present content of a file."""
    full = os.path.join(root, path)
    try:
        size, digest = os.path.getsize(full), file_sha256(full)
    except OSError:
        return False
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n".encode("ascii")
    total = hashlib.new("sha1" if len(blob) == 40 else "sha256", usedforsecurity=False)
    total.update(b"blob %d\0" % len(text) + text)
    return total.hexdigest() == blob
