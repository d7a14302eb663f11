# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads leave signals to the main thread, whose system call they end."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import threading

from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import start_thread
from tests.repository import ROOT

COLLECTIONS = ROOT / ".cache" / "collections"
#: Files that start threads of their own, and why.
OTHERS = {
    "plugins/module_utils/notify/deliver.py": "the thread starts mail programs, which would inherit its mask",
    "plugins/module_utils/lab/machine/internet.py": "the program has no handlers",
}
#: A process with a handler. Its main thread waits in a system call, and gets little of the first CPU; its other thread
#: sleeps and has the last CPU.
PROGRAM = """
import os, select, signal, sys, threading, time
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import start_thread
cpus = sorted(os.sched_getaffinity(0))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: os._exit(7))
def look():
    os.sched_setaffinity(0, cpus[-1:])
    while True:
        time.sleep(0.001)
start_thread(threading.Thread(target=look, daemon=True))
os.sched_setaffinity(0, cpus[:1])
os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
print("ready", flush=True)
select.poll().poll(60_000)
"""
#: Sends two signals, and keeps the first CPU busy for a while.
SENDER = """
import os, signal, sys, time
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
for number in (signal.SIGINT, signal.SIGTERM):
    os.kill(int(sys.argv[1]), number)
end = time.monotonic() + 0.05
while time.monotonic() < end:
    pass
"""


def test_a_thread_takes_no_signal_and_its_starter_keeps_its_own() -> None:
    seen: list[set[int]] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    thread = start_thread(threading.Thread(target=lambda: seen.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))))
    thread.join()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= seen[0]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_two_signals_at_once_end_the_wait_of_the_main_thread() -> None:
    """As ansible-playbook ends its workers: the second signal comes before the main thread has run for the first."""
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=COLLECTIONS, stdout=subprocess.PIPE) as child:
            try:
                assert child.stdout is not None
                assert child.stdout.readline() == b"ready\n"
                subprocess.run([sys.executable, "-c", SENDER, str(child.pid)], check=True)
                assert child.wait(20) == 7
            finally:
                child.kill()


def test_every_thread_is_started_by_the_one_function() -> None:
    own = []
    for path in sorted(path for path in (ROOT / "plugins").rglob("*.py") if not path.is_symlink()):
        tree = ast.parse(path.read_text())
        given = {id(word) for node in ast.walk(tree) if _calls(node, "start_thread") for word in node.args}  # type: ignore[attr-defined]
        made = [node for node in ast.walk(tree) if _calls(node, "Thread") or _calls(node, "Timer")]
        own += [str(path.relative_to(ROOT)) for node in made if id(node) not in given]
    assert sorted(set(own)) == sorted(OTHERS)


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and name in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
