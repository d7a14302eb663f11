# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only place that runs git, arranged so that no content of a work tree or repository can make git run a program.

A repository is found only by its `.git`, so a bare repository among the files is just a folder of files. Git is then
given a *view*: a private folder with links to the repository's objects, refs and index, and with our own
configuration. So git does not see any filter, hook, fsmonitor, textconv, alias, remote, include or partial clone that
the repository or the user has configured: attributes may name a filter, but no filter is defined. Nothing is written
but in the view.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import start_thread
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text

MARKER = ".git"
# The only environment variables passed to git. Its own variables (GIT_*) could select another repository or programs.
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DEVELOPER_DIR", "TMPDIR", "TZ")
# Settings about how a repository's work tree is stored on this file system: the only ones that are copied.
_WORK_TREE_SETTINGS = ("core.filemode", "core.ignorecase", "core.precomposeunicode", "core.symlinks")
_FORMATS = {"extensions.objectformat": ("sha1", "sha256"), "extensions.refstorage": ("files", "reftable")}
_SHARED = ("objects", "refs", "reftable", "packed-refs", "shallow")
# Time limit of one query in seconds, so that a damaged repository cannot block a launch.
_PATIENCE = 600

# What is put at the end of a copied file. A driver of a diff looks for functions, which may take long.
_OWN = {"info/attributes": b"\n* !diff\n"}

_OWN_CONFIGURATION = """\
[core]
    repositoryFormatVersion = 1
    bare = false
    fsmonitor = false
    untrackedCache = false
    hooksPath = /dev/null
    attributesFile = /dev/null
[protocol]
    allow = never
[submodule]
    recurse = false
"""


@dataclass(frozen=True)
class WorkTree:
    """A work tree's top folder, and the folders of git's data: `own` (HEAD, index), `shared` (everything else)."""

    top: str
    own: str
    shared: str


def find(folder: str) -> WorkTree | None:
    """The work tree that contains `folder`; None outside of one.

    Raises RankzeroError if the repository belongs to somebody else, or if a `.git` file does not name a repository.
    """
    real = os.path.realpath(folder)
    place = real
    while True:
        marker = os.path.join(place, MARKER)
        if os.path.isdir(marker):
            if _is_repository(marker):
                return _checked(WorkTree(place, marker, _shared(marker)), real)
        elif os.path.lexists(marker):
            own = _linked(marker)
            return _checked(WorkTree(place, own, _shared(own)), real)
        parent = os.path.dirname(place)
        if parent == place:
            return None
        place = parent


@contextlib.contextmanager
def opened(tree: WorkTree, settings: Mapping[str, str] | None = None) -> Iterator[Git]:
    """Open the repository of a work tree for queries. `settings`: its repository's, if they have been read."""
    with tempfile.TemporaryDirectory(prefix="rankzero-git-") as view:
        yield Git(tree, view, settings)


class Git:
    """Queries about one work tree. `settings`: its repository's settings, by name in lower case."""

    def __init__(self, tree: WorkTree, view: str, settings: Mapping[str, str] | None = None) -> None:
        self.tree = tree
        self._view = view
        self._program = _program()
        self._ignored: str | None = None
        os.mkdir(os.path.join(view, "info"))
        for name in ("HEAD", "info/exclude", "info/attributes"):
            text = read_small(os.path.join(tree.own if name == "HEAD" else tree.shared, name))
            with open(os.path.join(view, name), "wb") as stream:
                stream.write((text or b"") + _OWN.get(name, b""))
        for name in _SHARED:
            self._link(os.path.join(tree.shared, name), name)
        for name in os.listdir(tree.own):
            if name == "index" or name.startswith("sharedindex."):
                self._link(os.path.join(tree.own, name), name)
        for needed in ("objects", "refs"):
            os.makedirs(os.path.join(view, needed), exist_ok=True)
        self._configure(())
        self.settings = self._settings() if settings is None else settings
        self._configure(self.settings.items())

    def run(self, folder: str, *arguments: str, allowed: Sequence[int] = (0,), stdin: bytes = b"") -> bytes:
        """The output of a query run in `folder`. `allowed`: exit codes that mean success. Raises RankzeroError."""
        return self._run(
            ["-C", folder, *arguments], allowed, stdin, {"HOME": self._view, "XDG_CONFIG_HOME": self._view}
        )

    def beginning(self, folder: str, arguments: Sequence[str], most: int) -> bytes:
        """The first `most` bytes of a query's output. Raises RankzeroError."""
        environment = self._environment({"HOME": self._view, "XDG_CONFIG_HOME": self._view})
        command = [self._program, "--no-pager", "-C", folder, *arguments]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(command, cwd=self._view, env=environment, stdout=subprocess.PIPE, stderr=errors) as child,
        ):
            late = start_thread(threading.Timer(_PATIENCE, child.kill))
            try:
                output = child.stdout.read(most) if child.stdout else b""
                if len(output) == most:
                    child.kill()
                elif child.wait():
                    errors.seek(0)
                    raise RankzeroError(f"git: {errors.read(1000).decode('utf-8', 'replace').strip()}")
            finally:
                late.cancel()
        return output

    def update_index(self, folder: str, arguments: Sequence[str], rows: str) -> None:
        """Change the index of the view, which becomes a copy with the same time. Raises OSError, RankzeroError."""
        path = os.path.join(self._view, "index")
        if os.path.islink(path):
            target = os.readlink(path)
            os.unlink(path)
            # Git compares a file that is as new as the index, so the time counts.
            shutil.copy2(target, path)
        self.run(folder, "update-index", *arguments, stdin=os.fsencode(rows))

    def user_ignores(self) -> list[str]:
        """Options for a query that must respect the user's file of ignored names."""
        if self._ignored is None:
            home = os.path.expanduser("~")
            base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
            asked = ["config", "--type=path", "--get", "core.excludesFile"]
            # The only query that reads the user's configuration. `git config` runs nothing that is named there.
            answer = self._run(asked, (0, 1, 128), b"", {"HOME": home, "XDG_CONFIG_HOME": base}, users_own=True)
            self._ignored = os.fsdecode(answer.rstrip(b"\n")) or os.path.join(base, "git", "ignore")
        return ["-c", f"core.excludesFile={self._ignored}"] if os.path.isfile(self._ignored) else []

    def _run(
        self,
        arguments: Sequence[str],
        allowed: Sequence[int],
        stdin: bytes,
        home: dict[str, str],
        *,
        users_own: bool = False,
    ) -> bytes:
        environment = self._environment(home, users_own=users_own)
        command = [self._program, "--no-pager", *arguments]
        try:
            done = children.run(command, environment, seconds=_PATIENCE, stdin=stdin, cwd=self._view)
        except children.Late:
            raise RankzeroError(
                f"git: no answer about {self.tree.top} for {_PATIENCE} s (git {' '.join(arguments)}). "
                "Check the repository with `git fsck`, and the file system that it is on."
            ) from None
        if done.returncode not in allowed:
            raise RankzeroError(f"git: cannot read {self.tree.top}: {done.stderr.strip()}")
        return done.out

    def _environment(self, home: Mapping[str, str], *, users_own: bool = False) -> dict[str, str]:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment.update(home, PATH=_path(), LC_ALL="C", GIT_DIR=self._view, GIT_WORK_TREE=self.tree.top)
        environment.update(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", GIT_LITERAL_PATHSPECS="1")
        environment.update(GIT_NO_REPLACE_OBJECTS="1", GIT_NO_LAZY_FETCH="1", GIT_ALLOW_PROTOCOL="none")
        if not users_own:
            environment.update(GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, GIT_ATTR_NOSYSTEM="1")
        return environment

    def _link(self, target: str, name: str) -> None:
        with contextlib.suppress(OSError):
            if _is_plain(target):
                os.symlink(target, os.path.join(self._view, name))

    def _settings(self) -> dict[str, str]:
        """The settings in the repository's own configuration file, without includes. Nothing in it is run."""
        settings: dict[str, str] = {}
        path = os.path.join(self.tree.shared, "config")
        text = read_small(path)
        if text is None:
            return settings
        own = os.path.join(self._view, "theirs")
        with open(own, "wb") as stream:
            stream.write(text)
        listed = self.run(self._view, "config", "--file", own, "--no-includes", "--null", "--list", allowed=(0, 128))
        for record in listed.split(b"\0"):
            name, _line, value = os.fsdecode(record).partition("\n")
            settings.setdefault(name, value)
        return settings

    def _configure(self, settings: Iterable[tuple[str, str]]) -> None:
        lines = [_OWN_CONFIGURATION]
        for name, value in settings:
            section, _dot, key = name.partition(".")
            harmless = name in _WORK_TREE_SETTINGS and value in ("true", "false")
            if harmless or value in _FORMATS.get(name, ()):
                lines.append(f"[{section}]\n\t{key} = {value}\n")
        with open(os.path.join(self._view, "config"), "w", encoding="ascii") as stream:
            stream.writelines(lines)


def read_small(path: str) -> bytes | None:
    """The content of one of git's own files; None if it does not exist. Raises RankzeroError for other file types."""
    try:
        return named_text(path, "git", errors="surrogateescape").encode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


def _is_plain(path: str) -> bool:
    mode = os.stat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _is_repository(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, "HEAD")) and (
        os.path.isdir(os.path.join(folder, "objects")) or os.path.isfile(os.path.join(folder, "commondir"))
    )


def _linked(marker: str) -> str:
    """The folder that a `.git` file names (gitrepository-layout(5)), for a submodule or an additional work tree."""
    text = (read_small(marker) or b"").strip()
    if text.startswith(b"gitdir: "):
        folder = os.path.realpath(os.path.join(os.path.dirname(marker), os.fsdecode(text[len(b"gitdir: ") :])))
        if os.path.isdir(folder) and _is_repository(folder):
            return folder
    raise RankzeroError(
        f"git: {marker} does not lead to a git repository. Repair it (`git worktree repair`, `git submodule "
        f"update --init`), "
        "or remove it."
    )


def _shared(own: str) -> str:
    text = read_small(os.path.join(own, "commondir"))
    return os.path.realpath(os.path.join(own, os.fsdecode(text.strip()))) if text else own


def _checked(tree: WorkTree, folder: str) -> WorkTree:
    """The work tree, if its repository belongs to the owner of the files, to this user or to root."""
    trusted = {0, os.geteuid(), os.stat(folder).st_uid}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        trusted.add(int(os.environ["SUDO_UID"]))
    for place in dict.fromkeys((os.path.join(tree.top, MARKER), tree.own, tree.shared)):
        owner = os.lstat(place).st_uid
        if owner not in trusted:
            raise RankzeroError(
                f"git: {folder} is in a git repository of another user ({place} belongs to uid {owner}), which "
                "could leave out or add files. Work in your own clone."
            )
    return tree


def _path() -> str:
    """The search path without relative folders: a work tree may contain a program named git."""
    return os.pathsep.join(part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(part))


def _program() -> str:
    program = shutil.which("git", path=_path())
    if program is None:
        raise RankzeroError(
            "git: the folder is in a git repository, but there is no git command on the controller. Install git."
        )
    return program
