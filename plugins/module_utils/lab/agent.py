# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's init: a small process that sets up its namespace, starts daemons on request, and reaps dead children.

The same program has three uses: the lab's supervisor (in the host's namespaces; its services are the head and the
nodes, or in the simple way the daemons themselves), the head, and PID 1 of each node. It is started as
`agent.py CONFIG.json` and listens on a unix socket. A request and its answer are one line of JSON each.

    {"op": "status"}                            -> {"services": {name: {"pid": int | null, "exit": int | null}}}
    {"op": "start", "service": NAME}            -> {"pid": int}; a running service is left alone
    {"op": "signal", "service": NAME, "signal": int} -> {"pid": int | null}; null when it was not running
    every failure                               -> {"error": text}

CONFIG: {"name", "socket", "subreaper": bool, "setup": [[operation, arguments...]], "services": {name: {"argv",
"user", "env": {}, "log", "start": bool}}}. Setup operations are the functions of `SETUP`. The socket is bound before
the set-up and answers only after it, so the first answer means that the agent is ready. It is bound at its path on the
host and can still be reached there after the agent has changed its root. A service that crashes is not restarted.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_BYTES, json_of, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups, kernel

# ---- set-up operations ------------------------------------------------------------------------------------------


def _own(path: str, mode: int, user: str) -> None:
    if user:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)
    os.chmod(path, mode)


def _mkdir(path: str, mode: int = 0o755, user: str = "") -> None:
    os.makedirs(path, exist_ok=True)
    _own(path, mode, user)


def _write(path: str, text: str, mode: int = 0o644) -> None:
    """Write a new file. Anything that exists at the path (a link of the host, say) is replaced, not followed."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, mode)


def _symlink(target: str, path: str) -> None:
    os.symlink(target, path)


def _mknod(path: str, major: int, minor: int, mode: int = 0o666) -> None:
    os.mknod(path, mode | stat.S_IFCHR, os.makedev(major, minor))
    os.chmod(path, mode)


def _tmpfs(path: str, source: str, options: str) -> None:
    os.makedirs(path, exist_ok=True)
    kernel.mount(source, path, "tmpfs", kernel.MS_NOSUID, options)


def _mount(kind: str, path: str, options: str = "") -> None:
    os.makedirs(path, exist_ok=True)
    kernel.mount(kind, path, kind, kernel.MS_NOSUID | kernel.MS_NOEXEC, options)


def _bind(source: str, path: str) -> None:
    """Bind a file, or a directory with everything mounted below it. The mount point is created if it is missing."""
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        with open(path, "w", encoding="utf-8"):
            pass
    kernel.mount(source, path, flags=kernel.MS_BIND | kernel.MS_REC)


def _bind_over(source: str, path: str) -> None:
    """Bind over a plain file of the host. Does nothing where the host has no such file, or a link."""
    if os.path.isfile(path) and not os.path.islink(path):
        _bind(source, path)


def _root_overlay(path: str, disk: str, lower: str = "/") -> None:
    """Mount an overlay on a root file system (`lower`, by default the host's). Changes are written to `disk`.

    Changes go to memory where the file system of `disk` cannot be an upper layer, as in a container whose root is an
    overlay.
    """

    def attempt() -> None:
        for name in ("upper", "work"):
            os.makedirs(f"{disk}/{name}", exist_ok=True)
        kernel.mount("overlay", path, "overlay", 0, f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work")

    os.makedirs(path, exist_ok=True)
    try:
        attempt()
    except OSError:
        kernel.mount("tmpfs", disk, "tmpfs")
        attempt()


def _root_skeleton(path: str, source: str, leave_out: list[str]) -> None:
    """Create a root with entries bound from the host's. Mount points can then be added without changing the host."""
    os.makedirs(path, exist_ok=True)
    kernel.mount(source, path, "tmpfs", 0, "mode=755")
    _host_entries(path, leave_out)


def _host_entries(path: str, leave_out: list[str]) -> None:
    """Bind every entry of the host's root below `path`."""
    with os.scandir("/") as entries:
        for entry in entries:
            place = f"{path}/{entry.name}"
            if entry.name in leave_out:
                continue
            if not entry.is_symlink():
                _bind(entry.path, place)
            elif not os.path.lexists(place):
                os.symlink(os.readlink(entry.path), place)


def _copy(source: str, path: str) -> None:
    """Copy a file of the host, if the host has it."""
    with contextlib.suppress(FileNotFoundError):
        text = text_of(source)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, text)


def _sysfs(path: str) -> None:
    """Mount sysfs, which shows the devices and the network of this namespace."""
    os.makedirs(path, exist_ok=True)
    kernel.mount("sysfs", path, "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


SETUP: dict[str, Callable[..., None]] = {
    "mkdir": _mkdir,
    "write": _write,
    "symlink": _symlink,
    "mknod": _mknod,
    "tmpfs": _tmpfs,
    "mount": _mount,
    "bind": _bind,
    "bind_over": _bind_over,
    "root_overlay": _root_overlay,
    "root_skeleton": _root_skeleton,
    "host_entries": _host_entries,
    "copy": _copy,
    "sysfs": _sysfs,
    "eldest_mounts": kernel.eldest_mounts,
    "join_cgroups": cgroups.join,
    "mount_cgroups": cgroups.mount,
    "hostname": socket.sethostname,
    "pivot": kernel.pivot_root,
}

# ---- services ---------------------------------------------------------------------------------------------------


class _Service:
    """One daemon: its settings, its process id while it runs, and its exit status afterwards."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.pid: int | None = None
        self.exit: int | None = None

    def start(self) -> int:
        if self.pid is None:
            self.exit = None
            self.pid = os.fork()
            if self.pid == 0:
                self._become()
        return self.pid

    def _become(self) -> None:
        """Become the daemon, in the child. Never returns. A failure is written to the log, with exit status 127."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            log = os.open(self.config["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            os.closerange(3, 256)
            os.chdir("/")
            user = self.config.get("user", "")
            if user:
                entry = pwd.getpwnam(user)
                os.initgroups(user, entry.pw_gid)
                os.setgid(entry.pw_gid)
                os.setuid(entry.pw_uid)
            os.execve(self.config["argv"][0], self.config["argv"], self.config["env"])
        except BaseException as error:  # the child must never return
            os.write(2, f"cannot start {self.config['argv'][0]}: {error}\n".encode())
        finally:
            os._exit(127)

    def signal(self, number: int) -> int | None:
        if self.pid is not None:
            os.kill(self.pid, number)
        return self.pid


class Agent:
    """The main loop: answer requests on the socket, reap dead children, leave when asked to."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.services = {name: _Service(entry) for name, entry in config["services"].items()}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(config["socket"])
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The socket gets its name only once it listens, so that anybody who sees it can connect.
        unnamed = f"{config['socket']}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unnamed)
        self.listener.bind(unnamed)
        os.chmod(unnamed, 0o600)
        self.listener.listen(64)
        os.rename(unnamed, config["socket"])
        if config.get("subreaper"):
            kernel.become_subreaper()
        for operation, *arguments in config.get("setup", []):
            SETUP[operation](*arguments)

    def run(self) -> None:
        """Serve until SIGTERM, then kill every descendant."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer)
        leaving = []
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: leaving.append(True))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for service in self.services.values():
            if service.config.get("start"):
                service.start()
        sources: list[Any] = [self.listener, reader]
        while not leaving:
            self.reap()
            readable = select.select(sources, [], [])[0]
            if reader in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(reader, 4096)
            if self.listener in readable:
                self._answer()
        self._kill_descendants()

    def reap(self) -> None:
        """Collect the exit status of every dead child: services and orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for service in self.services.values():
                if service.pid == pid:
                    service.pid = None
                    service.exit = os.waitstatus_to_exitcode(status)

    def _answer(self) -> None:
        connection = self.listener.accept()[0]
        with connection, contextlib.suppress(OSError):
            connection.settimeout(2.0)  # a stuck client must not hold up the reaping
            with connection.makefile("rw", encoding="utf-8") as stream:
                line = stream.readline(MOST_BYTES)
                if not line:
                    return
                try:
                    self.reap()
                    answer = self.handle(json.loads(line))
                except (KeyError, ValueError, OSError) as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                stream.write(json.dumps(answer) + "\n")

    def handle(self, request: JsonObject) -> JsonObject:
        """Carry out one request of the protocol in this module's docstring."""
        operation = request["op"]
        if operation == "status":
            return {"services": {name: {"pid": s.pid, "exit": s.exit} for name, s in self.services.items()}}
        service = self.services[request["service"]]
        if operation == "start":
            return {"pid": service.start()}
        if operation == "signal":
            return {"pid": service.signal(request["signal"])}
        raise ValueError(f"unknown operation {operation!r}")

    def _kill_descendants(self) -> None:
        """SIGKILL every descendant of this process until none is left, for at most 10 seconds (a fork bomb)."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            pids = descendants(os.getpid())
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
            self.reap()


def descendants(pid: int) -> list[int]:
    """The pids of all processes below `pid`, from the kernel's lists of children; parents before their children."""
    pids: list[int] = []
    todo = [pid]
    while todo:
        current = todo.pop()
        try:
            with open(f"/proc/{current}/task/{current}/children", encoding="ascii") as stream:
                children = [int(word) for word in stream.read().split()]
        except OSError:
            continue
        pids.extend(children)
        todo.extend(children)
    return pids


def main(arguments: list[str]) -> int:
    """Run the program. Errors of the set-up go to stderr, which is the agent's log."""
    config = json_of(arguments[0])
    os.umask(0o022)
    try:
        agent = Agent(config)
    except OSError as error:
        sys.stderr.write(f"{config['name']}: set-up failed: {error}\n")
        return 1
    agent.run()
    return 0
