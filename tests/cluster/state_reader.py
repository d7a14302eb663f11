# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a lab's head as one of its users: looks at state roots with the library, as the modules do, and prints what
it believes as JSON. Standard input: [[name, look, path], ...]. Each look has a process, ten seconds and a gigabyte of
its own, so that a reader that hangs or reads without end is an answer, too.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory as store
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import register
from ansible_collections.rankzero.slurm.plugins.module_utils.report import sweep_results
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, generations
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import launch_list
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import site_limits
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import excluded_nodes

SECONDS, BYTES = 10, 1 << 30


def runs(state_root: str) -> Any:
    found = launch_list.job_info(Slurm(), {"state_root": state_root})["launches"]
    keys = ("name", "generation", "standing", "success", "job_id", "message")
    return [{**{key: one[key] for key in keys}, "events": len(one["journal"])} for one in found]


def excluded(state_root: str) -> Any:
    return [[one.node, one.expires - time.time()] for one in excluded_nodes.load(state_root, "lab", time.time())]


def limits(state_root: str) -> Any:
    known = site_limits.remembered(f"{state_root}/cache/limits.json", time.time())
    return known and known.settings


def registered(state_root: str) -> Any:
    return [*register.entries(state_root, "nightly").values()]


def sweep(folder: str) -> Any:
    return sweep_results.results(Slurm(), {"sweep_dir": folder}).counts


def uses(run_dir: str) -> Any:
    return len(store.names_of(RunDirectory(run_dir), ("launch.json",)).keys)


def note(run_dir: str) -> Any:
    RunDirectory(run_dir).record("adopted", job_id="1")


def known(runs_dir: str) -> Any:
    return [run.generation for run in generations(runs_dir)]


LOOKS = {look.__name__: look for look in (runs, excluded, limits, registered, sweep, uses, note, known)}


def looked(look: str, path: str) -> str:
    """The JSON of one look, made in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        try:
            said: dict[str, Any] = {"believed": LOOKS[look](path)}
        except BaseException as error:
            said = {"refused": type(error).__name__, "message": str(error)}
        os.write(writer, json.dumps(said).encode()[:60_000])
        os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + SECONDS
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            break
        time.sleep(0.01)
    with os.fdopen(reader) as stream:
        return stream.read() or '{"refused": "hangs", "message": ""}'


if __name__ == "__main__":
    answers = {name: json.loads(looked(look, path)) for name, look, path in json.load(sys.stdin)}
    print(json.dumps(answers))
