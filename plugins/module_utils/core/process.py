# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This process: what its programs are told of its variables, whether its output is read, and who takes its signals."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from typing import TypeVar

Thread = TypeVar("Thread", bound=threading.Thread)

# What a program needs of its caller's variables to run, to reach a network as the site wants it, and to build.
_FOR_ALL = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "TMP",
        "TEMP",
        "TZ",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "NETRC",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "SSL_CLIENT_CERT",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "FTP_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "ftp_proxy",
        "no_proxy",
        "CC",
        "CXX",
        "CPP",
        "LD",
        "AR",
        "FC",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "FFLAGS",
        "LDFLAGS",
        "CPATH",
        "LIBRARY_PATH",
        "PKG_CONFIG_PATH",
        "CUDA_HOME",
        "CUDA_PATH",
        "ROCM_PATH",
        "ROCM_HOME",
        "MAX_JOBS",
        "TORCH_CUDA_ARCH_LIST",
        "SOURCE_DATE_EPOCH",
    ]
)
_PREFIXES_FOR_ALL = ("LC_", "XDG_")


def user_cache(*names: str, environment: Mapping[str, str] | None = None) -> str:
    """The folder of what this collection keeps for its user, or a path below it. `environment`: by default, our own."""
    cache = (os.environ if environment is None else environment).get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "rankzero", *names)


def child_environment(environ: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    """The environment of a program that runs code of others, or puts variables into addresses that others wrote.

    What is not listed may be a secret of a CI system or of the user. `prefixes`: of the program's own settings ("UV_").
    """
    kept = _PREFIXES_FOR_ALL + prefixes
    return {name: value for name, value in environ.items() if name in _FOR_ALL or name.startswith(kept)}


def nobody_reads(descriptor: int | None = None) -> bool:
    """Whether the other end of an output is closed: a pipe, or the socket of an SSH server. By default, that of stdout.

    Nothing tells a process that the connection is gone over which it was started: what waits long asks this, and ends.
    A file or a terminal is always read.
    """
    try:
        look = select.poll()
        # These two are reported whatever is asked for.
        look.register(sys.stdout.fileno() if descriptor is None else descriptor, 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _number, events in look.poll(0))
    except (OSError, ValueError, AttributeError):
        # No output, or a system without poll(2).
        return False


def start_thread(thread: Thread) -> Thread:
    """Start a thread that blocks all signals, and return it.

    Python runs a signal's handler in the main thread. If the kernel gives the signal to another thread while the main
    thread waits in a system call, that call goes on, and Ctrl-C has no effect until it ends. Two signals at once are
    enough. Programs that such a thread starts inherit its mask: give them to the main thread or to a pool.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
