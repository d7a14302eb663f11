# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run many launches on a host of the lab, each as the module `job` does there, in one process per launch. All are
forked from this process, which loads the library once.

    many.py REQUESTS [--together N]

REQUESTS is a JSON list of {request: PATH, after: SECONDS, kill: SECONDS or null, ahead: SECONDS}. A launch begins
`after` seconds after this program. It is ended by SIGKILL `kill` seconds after its own start, unless it has ended
before. The clock of its host is `ahead`. Prints a JSON list of {killed, result, seconds} in the same order.
Uses only the standard library and the collection's module_utils.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import LaunchSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.received import carry_out
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep import SweepSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import SweepRequest


def launch(path: str) -> dict[str, Any]:
    """The result of the module for the request in a file."""
    with open(path, encoding="utf-8") as stream:
        request = json.load(stream)
    slurm = Slurm()
    params = {"x_runtime": None, "state": "present"}
    try:
        if "elements" in request:
            sweep = SweepRequest.of(request)
            result = carry_out(sweep, lambda whole: SweepSubmission(whole, slurm), slurm, params, check_mode=False)
        else:
            one = Request.of(request)
            result = carry_out(one, lambda whole: LaunchSubmission(whole, slurm), slurm, params, check_mode=False)
    except RankzeroError as error:
        return {"failed": True, "kind": type(error).__name__, "msg": error.message}
    return {name: result.get(name) for name in ("submission", "job_id", "message", "run_dir", "generation")}


def killer(seconds: float) -> None:
    """Start a process that kills its parent after `seconds`, and does nothing if the parent has ended before."""
    parent = os.getpid()
    if os.fork() == 0:
        # Readers of this program's output must not wait for this process.
        os.closerange(0, 3)
        time.sleep(seconds)
        if os.getppid() == parent:
            os.kill(parent, signal.SIGKILL)
        os._exit(0)


def child(entry: dict[str, Any], answer: str) -> int:
    """The pid of a process that makes one launch and writes its result to a file."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if entry.get("kill") is not None:
            killer(float(entry["kill"]))
        if entry.get("ahead"):
            clock = time.time
            time.time = lambda: clock() + float(entry["ahead"])
        begun = time.monotonic()
        result = launch(entry["request"])
        with open(f"{answer}.new", "w", encoding="utf-8") as stream:
            json.dump({"killed": False, "result": result, "seconds": time.monotonic() - begun}, stream)
        os.rename(f"{answer}.new", answer)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def run_all(entries: list[dict[str, Any]], together: int, folder: str) -> list[dict[str, Any]]:
    """Run all launches at their times, but no more than `together` at once."""
    begun = time.monotonic()
    waiting = sorted(range(len(entries)), key=lambda number: float(entries[number].get("after") or 0))
    running: dict[int, int] = {}
    signalled: set[int] = set()
    while waiting or running:
        due = waiting and time.monotonic() - begun >= float(entries[waiting[0]].get("after") or 0)
        if due and len(running) < together:
            number = waiting.pop(0)
            running[child(entries[number], os.path.join(folder, str(number)))] = number
            continue
        pid, status = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if pid == 0:
            time.sleep(0.01)
        elif pid in running:
            number = running.pop(pid)
            if os.WIFSIGNALED(status):
                signalled.add(number)
    replies = []
    for number in range(len(entries)):
        answer = os.path.join(folder, str(number))
        if os.path.exists(answer):
            with open(answer, encoding="utf-8") as stream:
                replies.append(json.load(stream))
        else:
            replies.append({"killed": number in signalled, "result": {}, "seconds": None})
    return replies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("requests")
    parser.add_argument("--together", type=int, default=1000)
    options = parser.parse_args()
    with open(options.requests, encoding="utf-8") as stream:
        entries = json.load(stream)
    with tempfile.TemporaryDirectory(prefix="rankzero-many-") as folder:
        print(json.dumps(run_all(entries, options.together, folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
