# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that leave signals to the main thread."""

from __future__ import annotations

import signal
import threading
from typing import TypeVar

Thread = TypeVar("Thread", bound=threading.Thread)


def start(thread: Thread) -> Thread:
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
