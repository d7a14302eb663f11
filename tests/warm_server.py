# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that has imported ansible-core, and forks into one ansible-playbook after the other; see warm_playbooks.py.

    python tests/warm_server.py FD

The file descriptor FD is a socket. A request is JSON (argv, cwd, env) and two descriptors: standard output, and a
socket for the process id and, at the end, the exit status. The server ends when FD is closed on the other side.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from typing import NoReturn

#: ansible-core's own plugins of these kinds. Every playbook looks for them, and loads most.
PLUGINS = ("callback", "connection", "doc_fragments", "inventory", "shell", "strategy", "vars")
MESSAGE = 1 << 20


def warm_up() -> None:
    """Import what every playbook needs of ansible-core; nothing of a collection and nothing of the tests."""
    importlib.import_module("ansible.cli.playbook")
    importlib.import_module("ansible.executor.process.worker")
    for kind in PLUGINS:
        package = importlib.import_module(f"ansible.plugins.{kind}")
        for plugin in pkgutil.iter_modules(package.__path__):
            # Some need a package that is not there. A playbook that wants one will say so.
            with contextlib.suppress(ImportError):
                importlib.import_module(f"ansible.plugins.{kind}.{plugin.name}")
    # The import has made a folder for temporary files: each playbook makes its own.
    from ansible import constants
    from ansible.utils.path import cleanup_tmp_file

    atexit.unregister(cleanup_tmp_file)
    shutil.rmtree(constants.DEFAULT_LOCAL_TMP)


def serve(requests: socket.socket) -> tuple[list[str], int]:
    """Answer requests. Returns in each child, with the arguments of its playbook and the descriptor of its output."""
    children: dict[int, socket.socket] = {}
    wakeup, wakes = socket.socketpair()
    for end in (wakeup, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes.fileno())
    selector = selectors.DefaultSelector()
    for end in (requests, wakeup):
        selector.register(end, selectors.EVENT_READ)
    while True:
        ready = {key.fileobj for key, _events in selector.select()}
        if wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                wakeup.recv(MESSAGE)
            report_ended(children)
        if requests not in ready:
            continue
        message, descriptors, _flags, _address = socket.recv_fds(requests, MESSAGE, 2)
        if not message:
            sys.exit()
        output, status = descriptors
        request = json.loads(message)
        pid = os.fork()
        if pid:
            os.close(output)
            children[pid] = socket.socket(fileno=status)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        selector.close()
        for end in (requests, wakeup, wakes, *children.values()):
            end.close()
        os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        with socket.socket(fileno=status) as pipe:
            pipe.sendall(f"{os.getpid()}\n".encode())
        return request["argv"], output


def report_ended(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as pipe, contextlib.suppress(OSError):
            pipe.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def play(argv: list[str], output: int) -> NoReturn:
    """Be ansible-playbook from here on: what the program of this name does after its imports."""
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    tempfile.tempdir = None
    from ansible import constants
    from ansible.cli.playbook import main

    constants.DEFAULT_LOCAL_TMP = constants.config.get_config_value("DEFAULT_LOCAL_TMP")
    sys.argv = argv
    sys.path[0] = os.path.dirname(argv[0])
    sys.exit(main())


if __name__ == "__main__":
    # As in a program that a terminal starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warm_up()
    # The children leave the pages of what is there now alone.
    gc.collect()
    gc.freeze()
    play(*serve(socket.socket(fileno=int(sys.argv[1]))))
