# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store of root file systems: built by mmdebstrap, checked, published by one rename, removed on request.

A lab only reads a root, through an overlay. Roots are built from the archive that the machine's own apt is configured
to use, only with another suite. So network access is configured in one place: apt's settings.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import hashlib
import json
import os
import pwd
import re
import stat
import time
from collections.abc import Iterator
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import json_of, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.image import debian
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import control, release
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.release import Release

BUILD_SECONDS = 1800.0
_NEW = ".new-"


class RootUnavailable(RankzeroError):
    """A root could not be built from this machine's archive. `cause` is one of debian.why_failed."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message, cause=cause)
        self.cause = cause


def cached(wanted: Release) -> bool:
    """Whether a root of this recipe exists (`held` checks whether it is intact)."""
    return os.path.exists(f"{wanted.place}/manifest.json")


@contextlib.contextmanager
def held(wanted: Release) -> Iterator[JsonObject]:
    """The manifest of an intact root, which is not removed while this context is active.

    The root is built if it does not exist or is damaged. Only one process builds at a time; a second one waits and then
    uses the root that was built. The lock is released when its holder dies.
    """
    os.makedirs(release.STORE, mode=0o755, exist_ok=True)
    with _lock() as stream:
        while True:
            fcntl.flock(stream, fcntl.LOCK_EX)
            manifest = _intact(wanted)
            if manifest is None:
                _discard(wanted.place)
                manifest = _build(wanted)
            # Converting the lock is not atomic: a waiting `prune` may run in between.
            fcntl.flock(stream, fcntl.LOCK_SH)
            if cached(wanted):
                break
        yield manifest


def _lock() -> IO[str]:
    return open(f"{release.STORE}/lock", "w", encoding="utf-8")


def _intact(wanted: Release) -> JsonObject | None:
    try:
        manifest: JsonObject = json_of(f"{wanted.place}/manifest.json")
        return manifest if manifest["tree"] == tree_digest(wanted.root) else None
    except (OSError, ValueError, KeyError):
        return None


def tree_digest(root: str) -> str:
    """A digest over path, type, mode, owner and size of everything below `root`, and over the targets of links.

    It does not cover file contents: it is computed at every start of a lab, and detects what was removed, truncated,
    added or changed in length. The contents were compared with dpkg's checksums when the root was built.
    """
    digest = hashlib.sha256()
    todo = [root]
    while todo:
        directory = todo.pop()
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                status = entry.stat(follow_symlinks=False)
                link = os.readlink(entry.path) if stat.S_ISLNK(status.st_mode) else ""
                size = status.st_size if stat.S_ISREG(status.st_mode) else 0
                name = entry.path[len(root) :]
                digest.update(f"{name}\0{status.st_mode}\0{status.st_uid}\0{status.st_gid}\0{size}\0{link}\n".encode())
                if stat.S_ISDIR(status.st_mode):
                    todo.append(entry.path)
    return digest.hexdigest()


def _build(wanted: Release) -> JsonObject:
    """Build in a temporary directory, check the result, and publish it by a rename, so that it is always complete."""
    new = f"{release.STORE}/{_NEW}{wanted.version}-{time.time_ns()}"
    os.makedirs(new, mode=0o755)
    try:
        root = f"{new}/root"
        argv = release.build_argv(wanted, root, _mirror(wanted), _transport())
        done = control.run(argv, timeout=BUILD_SECONDS)
        if done.returncode != 0:
            cause, sentence = debian.why_failed(done.stderr)
            words = "\n".join(line for line in done.stderr.splitlines() if line.startswith(("E:", "W:")))
            raise RootUnavailable(
                f"slurm: {wanted.version} needs Debian's {wanted.suite}, and {sentence}. Use another of"
                f" {', '.join(release.CHOICES)}, or correct what apt reports:\n{words or done.stderr[-2000:]}",
                cause,
            )
        manifest = _checked(wanted, root)
        os.chmod(root, 0o755)
        with open(f"{new}/manifest.json", "w", encoding="utf-8") as stream:
            json.dump(manifest, stream, indent=1)
        os.rename(new, wanted.place)
        return manifest
    finally:
        with contextlib.suppress(OSError):
            remove_tree(new)


def _mirror(wanted: Release) -> str:
    mirror = debian.pick_mirror(control.must(debian.TARGETS))
    if not mirror:
        raise RootUnavailable(
            f"slurm: {wanted.version} is built from Debian's {wanted.suite}, but the apt sources of this"
            " machine contain no Debian archive; use slurm=host, or a Debian machine",
            "no-mirror",
        )
    return mirror


def _transport() -> list[str]:
    return debian.transport_options(control.must(debian.DUMP))


def _checked(wanted: Release, root: str) -> JsonObject:
    """The manifest of a new root. Raises RootUnavailable if the root is not what was requested."""
    query = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat", "${Package} ${Version}\\n"]
    packages = dict(line.split(" ", 1) for line in control.must(query).splitlines())
    version = packages.get("slurmctld", "")
    if not re.match(rf"{re.escape(wanted.version)}[.~+-]", version):
        raise RootUnavailable(
            f"slurm: {wanted.version} was requested, but Debian's {wanted.suite} now has {version or 'none'};"
            f" use another of {', '.join(release.CHOICES)}",
            "other-version",
        )
    # Prints what differs from the packages' checksums. Paths that were excluded on purpose cannot be compared.
    shown = control.run(["dpkg", f"--root={root}", "--verify"], timeout=300).stdout
    excluded = tuple(pattern.rstrip("*") for pattern in release.LEFT_OUT)
    differing = [line for line in shown.splitlines() if not (line.split() or [""])[-1].startswith(excluded)]
    # Configuration files are written by the packages' own scripts and may differ.
    differing = [line for line in differing if " c " not in line]
    if differing:
        raise RootUnavailable(
            f"slurm: the root of {wanted.version} differs from its packages ({'; '.join(differing[:3])}); try again",
            "other",
        )
    return {
        "release": wanted.version,
        "suite": wanted.suite,
        "slurm": version,
        "built": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "tree": tree_digest(root),
        "packages": packages,
    }


# ---- removal ----------------------------------------------------------------------------------------------------


def prune(check_mode: bool = False) -> list[str]:
    """Remove every root that no running lab uses, and what killed builders left. Returns the removed names."""
    if not os.path.isdir(release.STORE):
        return []
    with _lock() as stream:
        # Wait for every process that builds a root or starts a lab from one.
        fcntl.flock(stream, fcntl.LOCK_EX)
        used = _mounted()
        places = [entry.path for entry in os.scandir(release.STORE) if entry.is_dir()]
        unused = sorted(place for place in places if f"{place}/root" not in used)
        for place in [] if check_mode else unused:
            _discard(place)
        return [os.path.basename(place) for place in unused]


def _discard(path: str) -> None:
    """Rename, then remove, so that a partly removed root is never mistaken for a complete one."""
    going = f"{release.STORE}/{_NEW}going-{time.time_ns()}"
    if os.path.isdir(path):
        os.rename(path, going)
        remove_tree(going)


def _mounted() -> set[str]:
    """The lower directories of all overlays that any process sees."""
    folders: set[str] = set()
    namespaces: set[str] = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                namespace = os.readlink(f"/proc/{entry}/ns/mnt")
                if namespace not in namespaces:
                    namespaces.add(namespace)
                    with open(f"/proc/{entry}/mountinfo", encoding="utf-8", errors="replace") as stream:
                        folders.update(re.findall(r"[,\s]lowerdir=([^,:\s]+)", stream.read()))
    return folders


# ---- users ------------------------------------------------------------------------------------------------------


def owner(lab: Lab, user: str) -> tuple[int, int]:
    """(uid, gid) of a daemon's user where the lab's daemons run: in the lab's root, or on the host."""
    if not lab.root:
        entry = pwd.getpwnam(user)
        return entry.pw_uid, entry.pw_gid
    for line in _lines(f"{lab.root}/etc/passwd"):
        fields = line.split(":")
        if fields[0] == user:
            return int(fields[2]), int(fields[3])
    raise RankzeroError(f"slurm: the root of {lab.slurm} has no user {user!r}; remove {lab.root} to rebuild it")


def account_files(lab: Lab) -> dict[str, str]:
    """/etc/passwd and /etc/group of a lab with its own root: the root's entries, and the ordinary users of the host."""
    users = [
        f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}:{user.pw_gecos}:{user.pw_dir}:/bin/bash"
        for user in pwd.getpwall()
        if _person(user.pw_uid)
    ]
    people = [group for group in grp.getgrall() if _person(group.gr_gid)]
    groups = [f"{group.gr_name}:x:{group.gr_gid}:{','.join(group.gr_mem)}" for group in people]
    return {
        "passwd": "\n".join([*_lines(f"{lab.root}/etc/passwd"), *users]) + "\n",
        "group": "\n".join([*_lines(f"{lab.root}/etc/group"), *groups]) + "\n",
    }


def _person(number: int) -> bool:
    """Whether a uid is an ordinary user's: from 1000 (login.defs(5)), except nobody and those that Debian assigns."""
    return 1000 <= number < 60000 or number > 65535


def _lines(path: str) -> list[str]:
    return text_of(path).splitlines()
