# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's own disk, used for the time of one job: where there is room, whose is what, what a dead job left.

A folder is called rankzero-<uid>-<job>-<run>. Whoever uses one holds its lock; the kernel lets go of it however the
holder ends, so that a folder without a holder is a leftover. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import sys
import time
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import children, ownership  # noqa: E402
from core.clearing import clear  # noqa: E402

# The one folder that has the same name on every node: links in it lead to wherever the node has room.
COMMON = "/tmp"
MEMORY = ("tmpfs", "ramfs", "devtmpfs")
NETWORK = (
    "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "panfs", "pvfs2", "smb3",
    "wekafs",
)  # fmt: skip
# A folder so young may just be getting its lock.
YOUNG_SECONDS = 60.0
# One way to unmount; a file system whose server is gone may not answer.
UNMOUNT_SECONDS = 30.0


class Trouble(Exception):
    """Why this node cannot hold a copy, in words for people."""


def name() -> str:
    """What this run's folders are called. Two runs in one allocation have one job id, and a folder each."""
    run = zlib.crc32(os.fsencode(os.environ["RANKZERO_RUN_DIR"]))
    return f"rankzero-{os.getuid()}-{os.environ['SLURM_JOB_ID']}-{run:08x}"


def view() -> str:
    """The folder of this run with the same path on every node."""
    return os.path.join(COMMON, name())


def candidates(local: str = "", slurm: str = "") -> list[str]:
    """Folders that may lie on the node's disk, best first. `local`: a site's choice; `slurm`: slurm.conf's TmpFS."""
    usual = [os.environ.get("SLURM_TMPDIR"), os.environ.get("TMPDIR"), slurm, "/tmp", "/var/tmp"]
    asked = [local] if local else usual
    return list(dict.fromkeys(os.path.normpath(path) for path in asked if path))


def file_system(path: str) -> str:
    """The type of the file system that a path lies on (proc(5), mountinfo)."""
    real, best, kind = os.path.realpath(path), "", "unknown"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            before, _dash, after = line.partition(" - ")
            # Blanks are written as \040.
            point = before.split(" ")[4].encode("latin-1", "replace").decode("unicode_escape")
            # Of two on one place the later one covers the earlier.
            if len(point) >= len(best) and (real + "/").startswith(point.rstrip("/") + "/"):
                best, kind = point, after.split(" ")[0]
    return kind


def memory_room(limit: int) -> int:
    """Bytes that may be put into memory: half of what the job has (`limit`: in MB, 0 where it is not known)."""
    values = {}
    with open("/proc/meminfo", encoding="ascii") as stream:
        for line in stream:
            key, _colon, value = line.partition(":")
            values[key] = int(value.split()[0]) * 1024
    return min((limit << 20) or values["MemTotal"], values["MemAvailable"]) // 2


def room(path: str, limit: int) -> tuple[int, int, str]:
    """(bytes, files, what it is) that a folder has left for us. A negative number of files: it does not count them."""
    if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK):
        return 0, -1, "no folder that may be written"
    try:
        ownership.check_place(path)
    except ownership.Foreign as error:
        return 0, -1, str(error)
    kind, free = file_system(path), os.statvfs(path)
    size, files = free.f_bavail * free.f_frsize, free.f_favail if free.f_files else -1
    if on_network(path):
        return 0, files, f"{kind}, which is not a local disk"
    if kind in MEMORY:
        return min(size, memory_room(limit)), files, f"{kind}: memory of the job, half of it at most"
    return size, files, kind


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def on_network(path: str) -> bool:
    """Whether a path lies on a file system that other machines serve."""
    kind = file_system(path)
    return kind in NETWORK or (kind.startswith("fuse.") and "overlay" not in kind)


def choose(places: list[str], size: int, files: int, limit: int) -> str:
    """The first place with room for so many bytes and files; one in memory only where no disk has room. Or Trouble."""
    looked = [(place, *room(place, limit)) for place in places]
    fits = [(place, kind) for place, free, left, kind in looked if free >= size and not 0 <= left < files]
    for place, _kind in sorted(fits, key=lambda fit: "memory" in fit[1]):
        return place
    has = "; ".join(
        f"{place} ({kind}) has {gigabytes(free)}" + (f" and {left} files" if 0 <= left < files else "")
        for place, free, left, kind in looked
    )
    raise Trouble(
        f"no room: {gigabytes(size)} in {files} files are needed, and {has}. Free some, or name a folder of the nodes "
        "that has room (launch_cluster.local_dir)."
    )


class Home:
    """The folder of this run at one place, held until `leave`. Several processes of a node may hold it together."""

    def __init__(self, place: str) -> None:
        self.path = os.path.join(place, name())
        self.lock: int | None = None
        try:
            ownership.check_place(place)
            while self.lock is None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self.path, 0o700)
                with contextlib.suppress(FileNotFoundError):
                    self.lock = self._locked(ownership.opened(self.path))
        except ownership.Foreign as error:
            raise Trouble(f"{self.path} cannot be this job's folder: {error}") from error

    def _locked(self, folder: int) -> int | None:
        """The lock, or None where a sweeper took the folder away meanwhile. What it finds alone is a leftover."""
        try:
            lock = lock_in(folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with contextlib.suppress(OSError):
                    unmount(self.path)
                    clear(folder, keep=("lock",))
            except OSError:
                pass
            fcntl.flock(lock, fcntl.LOCK_SH)
            with contextlib.suppress(OSError):
                if os.stat(os.path.join(self.path, "lock"), follow_symlinks=False).st_ino == os.fstat(lock).st_ino:
                    return lock
            os.close(lock)
            return None
        finally:
            os.close(folder)

    def leave(self) -> None:
        """Let go; the last one takes the folder with it."""
        if self.lock is None:
            return
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(self.path)
        except (OSError, ownership.Foreign):
            pass
        finally:
            os.close(self.lock)


def lock_in(folder: int) -> int:
    """The open lock file of an open folder."""
    return os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=folder)


def link(target: str, path: str) -> None:
    """Make a link, or lead it elsewhere; it is never away meanwhile."""
    fresh = f"{path}.{os.getpid()}"
    os.symlink(target, fresh)
    os.replace(fresh, path)


def mounts(folder: str) -> list[tuple[str, str]]:
    """(path, file system) of what is mounted below a folder, the innermost first (proc(5), mountinfo)."""
    points = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            before, _dash, after = line.partition(" - ")
            point = before.split(" ")[4].encode("latin-1", "replace").decode("unicode_escape")
            if point.startswith(os.path.realpath(folder) + "/"):
                points.append((point, after.split(" ")[0]))
    return points[::-1]


def unmount(folder: str) -> None:
    """Take away what is mounted below a folder: also a mount whose process was killed, which nothing else ends."""
    for point, kind in mounts(folder):
        ways = [["umount", point], ["umount", "-l", point]] if os.geteuid() == 0 else []
        if kind.startswith("fuse"):
            tool = next((name for name in ("fusermount3", "fusermount") if shutil.which(name)), "fusermount3")
            ways = [[tool, "-u", point], [tool, "-u", "-z", point], *ways]
        for words in ways:
            with contextlib.suppress(OSError):
                if children.run(words, os.environ, UNMOUNT_SECONDS).returncode == 0:
                    break


def remove(folder: str) -> None:
    """Remove a folder of this user's, also one in which a program has taken the right to write away. Never through a
    mount or a link. Raises OSError and ownership.Foreign."""
    if not os.path.lexists(folder):
        return
    descriptor = ownership.opened(folder)
    try:
        unmount(folder)
        if mounts(folder):
            raise OSError(f"{folder}: something is mounted there")
        clear(descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(folder)


def sweep(places: list[str]) -> list[str]:
    """Remove what dead jobs of this user have left at these places; the paths. What others have made there stays."""
    swept = []
    for place in places:
        for path in glob.glob(os.path.join(glob.escape(place), f"rankzero-{os.getuid()}-*")):
            with contextlib.suppress(OSError, ownership.Foreign):
                ownership.check_place(place)
                if _swept(path):
                    swept.append(path)
    return swept


def _swept(path: str) -> bool:
    folder = ownership.opened(path)
    try:
        age = time.time() - os.fstat(folder).st_mtime
        lock = lock_in(folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if age <= YOUNG_SECONDS and os.listdir(folder) == ["lock"]:
                return False
            remove(path)
            return True
        finally:
            os.close(lock)
    finally:
        os.close(folder)
