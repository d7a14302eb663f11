# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first process of the sandbox in which a batch script is recorded: a program that recorder.py starts.

It gets a request as JSON on its standard input, builds a root folder in memory (the system's programs read-only, a copy
of the folder where the script starts, no home, no devices, no network), gives up every capability and runs the script
there. The programs that it may start are stand-ins, which write down how they were called. That is its output, as JSON.

What it imports must be loaded before the root changes: standard library only, and none of it inside a function.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import stat
import sys
import time
from typing import Any

RECORD = "/rankzero/record"
#: What a stand-in writes of a call.
PARTS = ("argv", "cwd", "environ", "piped")
#: Programs and settings of the system that a script sees. Everything else of the machine is not there.
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
SETTINGS = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf", "profile",
    "profile.d", "bash.bashrc", "bashrc", "localtime",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom")
EMPTY = ("proc", "dev", "tmp", "run", "var/tmp", "var/spool/slurmd", "etc", "home", "root", RECORD[1:], "rankzero/bin")
#: Where the system's own programs of the same names lie.
PLACES = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin")
PYTHONS = re.compile(r"python[0-9.]*")
# Of mount(2), umount2(2), prctl(2) and mount_setattr(2).
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG = 2, 24, 38, 1
MOUNT_SETATTR, PIVOT_ROOT = 442, {"x86_64": 155, "aarch64": 41, "ppc64le": 203}
AT_RECURSIVE, LAST_CAPABILITY = 0x8000, 63

LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2). Raises OSError."""
    words = [text.encode() if text else None for text in (source, target, kind)]
    if LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), data.encode() or None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {target}: {os.strerror(number)}")


def seen(source: str, target: str) -> None:
    """Show a folder or file of the machine at `target`, with what is mounted below it, read-only for ever."""
    mount(source, target, "", MS_BIND | MS_REC)
    # struct mount_attr: set, clear, propagation, user namespace.
    wanted = (ctypes.c_uint64 * 4)(MS_RDONLY | MS_NOSUID, 0, 0, 0)
    if LIBC.syscall(MOUNT_SETATTR, -100, target.encode(), AT_RECURSIVE, wanted, ctypes.sizeof(wanted)):
        raise OSError(ctypes.get_errno(), f"{target} cannot be made read-only")


class Copy:
    """A bounded copy of a folder: links stay links, and of what is too much there is an empty file."""

    def __init__(self, most_files: int, most_bytes: int) -> None:
        self.files, self.bytes = most_files, most_bytes

    def copy(self, source: str, target: str) -> None:
        """Copy a file, a link or a folder."""
        try:
            status = os.lstat(source)
            if stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(source), target)
            elif stat.S_ISDIR(status.st_mode):
                os.makedirs(target, exist_ok=True)
                for name in sorted(os.listdir(source)):
                    if name != ".git" and self.files > 0:
                        self.copy(os.path.join(source, name), os.path.join(target, name))
            elif stat.S_ISREG(status.st_mode):
                self._file(source, target, status)
        except OSError:
            return  # what this user may not read, the script may not read either

    def _file(self, source: str, target: str, status: os.stat_result) -> None:
        self.files -= 1
        if status.st_size > self.bytes:
            with open(target, "xb"):
                return
        self.bytes -= status.st_size
        shutil.copyfile(source, target, follow_symlinks=False)
        os.chmod(target, 0o700 if status.st_mode & 0o100 else 0o600)


def root(new: str, request: Any) -> None:
    """Build the root folder in memory and change to it. `new`: an empty folder."""
    mount("tmpfs", new, "tmpfs", MS_NOSUID | MS_NODEV, f"size={request['bytes']},nr_inodes={request['files'] * 2}")
    for name in EMPTY:
        os.makedirs(f"{new}/{name}", exist_ok=True)
    for name in SYSTEM:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{new}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{new}/{name}")
            seen(f"/{name}", f"{new}/{name}")
    for name in SETTINGS:
        Copy(500, 4 << 20).copy(f"/etc/{name}", f"{new}/etc/{name}")
    for name in DEVICES:
        with open(f"{new}/dev/{name}", "xb"):
            mount(f"/dev/{name}", f"{new}/dev/{name}", "", MS_BIND)
    for name, number in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        os.symlink(f"/proc/self/fd{number}", f"{new}/dev/{name}")
    mount("proc", f"{new}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    folder = new + request["folder"]
    os.makedirs(folder, exist_ok=True)
    if request["copied"]:
        Copy(request["files"], request["bytes"] // 2).copy(request["folder"], folder)
    os.chdir(new)
    if LIBC.syscall(PIVOT_ROOT[os.uname().machine], b".", b"."):
        raise OSError(ctypes.get_errno(), "pivot_root")
    LIBC.umount2(b".", MNT_DETACH)
    os.chdir("/")
    stand_ins(request)


def stand_ins(request: Any) -> None:
    """Write the stand-ins, and put them over the system's programs of the same names: they may be called by path."""
    written("/rankzero/stand-in", request["stand_in"], 0o755)
    written("/rankzero/prelude", request["prelude"], 0o644)
    written("/rankzero/answers", request["answers"], 0o644)
    os.mkfifo("/rankzero/for-ever", 0o600)
    written("/var/spool/slurmd/slurm_script", request["script"], 0o700)
    names = set(request["programs"])
    for place in PLACES:
        present = os.listdir(place) if os.path.isdir(place) else []
        for name in present:
            if (name in names or PYTHONS.fullmatch(name)) and os.path.isfile(f"{place}/{name}"):
                seen("/rankzero/stand-in", f"{place}/{name}")
                names.add(name)
    for name in sorted(names):
        os.symlink("/rankzero/stand-in", f"/rankzero/bin/{name}")


def written(path: str, text: str, mode: int) -> None:
    """Write a file of the new root."""
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    os.chmod(path, mode)


def bounded(request: Any) -> None:
    """In the process that becomes the script's shell: no capability, and bounds for it and its children."""
    os.setsid()
    for number in range(LAST_CAPABILITY + 1):
        LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    bounds = {
        # The clock is to end the script: of a process that this has ended it would only see a failure, and go on.
        resource.RLIMIT_CPU: request["seconds"] + 5,
        resource.RLIMIT_FSIZE: request["output"],
        resource.RLIMIT_AS: 256 << 20,
        resource.RLIMIT_NPROC: request["processes"] * 4,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    for bound, value in bounds.items():
        resource.setrlimit(bound, (value, value))


def run(words: list[str], request: Any, output: str) -> tuple[int, str]:
    """Run a command in the new root. Returns (exit code, why it was ended; "" if it ended by itself)."""
    deadline = time.monotonic() + request["seconds"]
    child = os.fork()
    if child == 0:
        try:
            bounded(request)
            null = os.open("/dev/null", os.O_RDONLY)
            out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            for number, into in ((null, 0), (out, 1), (out, 2)):
                os.dup2(number, into)
            os.closerange(3, 256)
            os.chdir(request["folder"])
            with open("/rankzero/shell", "w", encoding="utf-8") as stream:
                stream.write(f"{os.getpid()}\n")
            os.execve(words[0], words, request["environment"])
        finally:
            os._exit(126)
    code, why = None, ""
    while not why:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if process == child:
            code = os.waitstatus_to_exitcode(status)
            # What it has left behind may still be writing down its call.
            deadline = min(deadline, time.monotonic() + 2)
        if not process:
            time.sleep(0.01)
            why = excess(request, deadline)
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            process, status = os.waitpid(-1, 0)
            code = os.waitstatus_to_exitcode(status) if process == child else code
    except (ProcessLookupError, ChildProcessError):
        pass
    return (-9 if code is None else code), why


def excess(request: Any, deadline: float) -> str:
    """Why the script must be ended now; "" if it need not."""
    if time.monotonic() > deadline:
        return "time"
    if sum(name.isdecimal() for name in os.listdir("/proc")) > request["processes"]:
        return "processes"
    return ""


def contents(path: str, most: int) -> str:
    """The beginning of a file that the script may have replaced by anything."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with open(number, "rb") as stream:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return ""
        return stream.read(most).decode("utf-8", "surrogateescape")


def calls(most: int, room: int) -> list[dict[str, str]]:
    """What the stand-ins have written down, oldest first: at most `most` calls, and about `room` characters."""
    ordered = []
    for name in os.listdir(RECORD)[: most * 2]:
        try:
            ordered.append((os.lstat(f"{RECORD}/{name}/argv").st_mtime_ns, name))
        except OSError:
            continue
    result: list[dict[str, str]] = []
    for _when, name in sorted(ordered)[:most]:
        result.append({part: contents(f"{RECORD}/{name}/{part}", room) for part in PARTS})
        room -= sum(len(text) for text in result[-1].values())
        if room <= 0:
            break
    return result


def main() -> None:
    """Carry out one request."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    request = json.load(sys.stdin)
    try:
        mount("", "/", "", MS_REC | MS_PRIVATE)
        root(request["root"], request)
    except (OSError, KeyError) as error:
        print(json.dumps({"refused": str(error)}))
        return
    run(request["parse"], request, f"{RECORD}/parsed")
    parsed = contents(f"{RECORD}/parsed", 1 << 22)
    code, why = run(request["words"], request, f"{RECORD}/out")
    result = {"code": code, "ended": why, "parsed": parsed, "calls": calls(request["calls"], request["output"])}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
