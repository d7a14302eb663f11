# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how soon jobs end after their artifact, over many hundred launches: benchmarks/run ends.

See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from benchmarks import results
from benchmarks.ends.launches import End, Launches
from benchmarks.launch import table
from benchmarks.launch.ground import Ground, prepared
from tests.unit.runtime import many_ends

ROOT = Path(__file__).resolve().parents[2]
LAB_NODES = 4
#: The limit for every job, in seconds after the artifact.
LATE_SECONDS = 10.0
#: A job that still exists this long after its artifact counts as hung and is cancelled.
HUNG_SECONDS = 60.0
#: Time in seconds within which a job should write its artifact.
START_SECONDS = 600.0
POLL_SECONDS = 0.5


@contextmanager
def load(number: int) -> Iterator[None]:
    """Run this many processes that only keep a core busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(ground: Ground, launches: Launches, count: int, flying: int) -> list[End]:
    """Run `count` launches, `flying` of them at a time."""
    waiting = [launches.make() for _ in range(count)]
    running: dict[str, Path] = {}
    since: dict[str, float] = {}
    measured: list[End] = []
    while waiting or running:
        while waiting and len(running) < flying:
            run = waiting.pop()
            job_id = launches.submit(run)
            running[job_id], since[job_id] = run, time.time()
        time.sleep(POLL_SECONDS)
        ended = launches.ended(list(running))
        for job_id, run in list(running.items()):
            artifact = launches.artifact(run)
            if job_id not in ended:
                started = artifact or since[job_id] + START_SECONDS
                if time.time() < started + HUNG_SECONDS:
                    continue
                ground.on_head("scancel", "--signal=KILL", "--full", job_id)
                print(f"[ends] job {job_id} hung: {run}", file=sys.stderr, flush=True)
            elif artifact is None:
                raise RuntimeError(f"job {job_id} ended without its artifact, so that it says nothing: {run}")
            del running[job_id]
            measured.append(launches.end(run, artifact, ended.get(job_id)))
            if len(measured) % 25 == 0:
                print(f"[ends] {len(measured)} of {count}", file=sys.stderr, flush=True)
    return measured


def row(number: int, ends: Sequence[End]) -> list[object]:
    jobs = [end.job for end in ends if end.job is not None]
    verdicts = [end.verdict for end in ends if end.verdict is not None]
    return [
        number,
        len(ends),
        sum(end.success for end in ends),
        sum(end.job is None for end in ends),
        sum(seconds > LATE_SECONDS for seconds in jobs),
        f"{median(verdicts):.1f} / {max(verdicts):.1f}" if verdicts else None,
        f"{median(jobs):.1f} / {max(jobs):.1f}" if jobs else None,
    ]


HEAD = [
    "busy processes",
    "launches",
    "proven",
    "hung",
    f"later than {LATE_SECONDS:.0f} s",
    "artifact to verdict, s (median / most)",
    "artifact to job's end, s (median / most)",
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run ends", description=__doc__)
    parser.add_argument("--launches", type=int, default=500, help="launches in all (500)")
    parser.add_argument("--load", default="0,4,8", help="busy processes beside them, a row each (0,4,8)")
    parser.add_argument("--flying", type=int, default=4, help="launches at the same time (4)")
    parser.add_argument("--script", type=int, help="without Slurm: so many ends of the script alone, of each kind")
    parser.add_argument("--runtime", default=RUNTIME, help="the job runtime for --script, as that of another release")
    options = parser.parse_args()
    if options.script:
        return script_alone(options.runtime, options.script)
    loads = [int(word) for word in options.load.split(",")]
    out = results.folder()
    ends_of: dict[int, list[End]] = {}
    with prepared(ROOT, instance="ends", nodes=LAB_NODES) as ground:
        launches = Launches(ground)
        for place, number in enumerate(loads):
            count = options.launches // len(loads) + (place < options.launches % len(loads))
            print(f"[ends] {count} launches beside {number} busy processes", file=sys.stderr, flush=True)
            with load(number):
                ends_of[number] = measure(ground, launches, count, options.flying)
            (out / "ends.json").write_text(
                json.dumps({key: [vars(end) for end in ends] for key, ends in ends_of.items()})
            )
            print(table.markdown(HEAD, [row(number, ends_of[number])]), flush=True)
        facts = {**ground.facts(), "nodes of the lab": str(LAB_NODES), "date": datetime.date.today().isoformat()}
    rows = [row(number, ends) for number, ends in ends_of.items()]
    text = "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n\n"
    text += table.markdown(HEAD, [*rows, row_of_all(ends_of)])
    (out / "ends.md").write_text(text)
    print(text)
    everything = [end for ends in ends_of.values() for end in ends]
    good = all(end.success and end.job is not None and end.job <= LATE_SECONDS for end in everything)
    return 0 if good else 1


def script_alone(runtime: str, count: int) -> int:
    """Let a step end at the moment of a signal, with stand-ins: how often is the end lost, and how often waited for?"""
    rows = 4
    lines = []
    for name, case in many_ends.CASES.items():
        with tempfile.TemporaryDirectory(prefix="rankzero-ends-") as folder:
            endings = many_ends.run(runtime, Path(folder), case, count // rows, rows, bound=20, patience=count)
        lines.append([name, len(endings.ends) + endings.lost, endings.lost])
    print(table.markdown(["at the moment of a signal", "ends", "lost"], lines))
    return 1 if any(line[2] for line in lines) else 0


def row_of_all(ends_of: dict[int, list[End]]) -> list[object]:
    return ["all", *row(0, [end for ends in ends_of.values() for end in ends])[1:]]


if __name__ == "__main__":
    sys.exit(main())
