# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes the claim, lets the script's bash set up its surroundings, starts the ranks, watches them, says how it ended:
step by step, as the script asks. Standard library only; one process from here to the end of the job.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable

from core import compiled, processes, traps
from core.state import Ended, Job
from job import environment, script
from start import attempt


def do(job: Job, words: list[str]) -> None:
    """One step of the script. What only some jobs need is imported where it is needed: no byte code is kept,
    so that every import compiles its file.
    """
    name, given = words[0], words[1:]
    if name == "begin":
        attempt.begin(job)
    elif name == "preflight":
        from preflight import preflight_steps

        # Seconds, the words of srun, and after `--` what enters the container.
        end = given.index("--") if "--" in given else len(given)
        preflight_steps.preflight(job, int(given[0]), given[1:end], given[end + 1 :])
    elif name == "launch":
        from job import launch

        launch.launch(job, given)
    elif name == "role":
        from rank import roles

        roles.register(job, given)
    elif name == "node_lines":
        job.node_lines[given[0]] = (int(given[1]), given[2:])
    elif name == "end":
        from end import finish

        finish.end(job)
    elif name == "refuse":
        from artifact import verdict

        verdict.refuse(job, int(given[1]), given[2], given[0])
    elif name == "mlflow":
        from start import tracker

        tracker.mlflow(job)
    elif name == "install":
        from node import install_steps

        _provide(job, install_steps.install, int(given[0]))
    elif name == "install_inside":
        from container import build_steps

        build_steps.install(job, int(given[0]), given[1], given[2:])
    elif name in ("container", "container_proof"):
        from container import outside

        outside.prepare(job, given[0], given[1:]) if name == "container" else outside.prove(job)
    elif name in ("seal", "data", "data_packed"):
        from node import sealed_steps

        steps: dict[str, Callable[..., None]] = {
            "seal": sealed_steps.seal,
            "data": sealed_steps.data,
            "data_packed": sealed_steps.data_packed,
        }
        _provide(job, steps[name], *given)
    else:
        raise ValueError(f"job.sh asks for {name}")


def _provide(job: Job, step: Callable[..., None], *given: object) -> None:
    """Give the nodes something now, and again to those of an attempt that follows on other nodes."""
    step(job, *given)
    job.provided.append(functools.partial(step, job, *given))


def conduct(job: Job, running: script.Script) -> int:
    """The exit code of the job."""
    try:
        while True:
            words = script.request(job, running)
            if words is None:
                from artifact import verdict

                code = processes.code_of(running.process)
                verdict.refuse(
                    job, code or 70, f"the batch script ended with exit code {code} before its ranks: see its set-up"
                )
            do(job, words)
            script.answer(job, running)
    except Ended as end:
        return end.code


def main(runtime: str, words: list[str], started: tuple[int, int, int]) -> int:
    """`words`: as conduct.py gets them. `started`: the script's second pass."""
    array_dir, _path, *arguments = words
    for stream in (sys.stdout, sys.stderr):
        # A character that the locale lacks must not fail a job.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    job = Job(env=environment.initial(arguments), runtime=runtime, array_dir=array_dir, python=sys.executable)
    if arguments[:1] == ["--submission"]:
        job.submission = arguments[1] if len(arguments) > 1 else ""
    traps.from_the_start(job)
    process, reader, writer = started
    processes.adopt(process)
    running = script.Script(process, reader, writer)
    try:
        code = conduct(job, running)
        if job.launched:
            with contextlib.suppress(OSError):
                compiled.keep(runtime)
        return code
    finally:
        script.stop(running)
