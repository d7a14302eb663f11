# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what watching costs the cluster, and how soon the command returns: benchmarks/run watch.

See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks import results
from benchmarks.launch import table
from benchmarks.launch.ground import Ground, prepared
from benchmarks.launch.timing import Command, start
from benchmarks.launch.ways import Ways
from benchmarks.watch.returning import returning

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
KEY = "0123456789abcdef"
SIZES = (1, 100, 1000)
# Requests that only the nodes and slurmctld send to each other do not count.
ASKED = re.compile(r"^\s+(REQUEST_\w*(?:INFO|PING|STATS)\w*)\s.*count:(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Cost:
    """The cost of one watch: Slurm commands by name, requests that slurmctld answered, CPU seconds on this machine."""

    commands: dict[str, int]
    questions: int
    cpu: float


class Watching:
    """Jobs on a ground, and the commands that watch them."""

    def __init__(self, ground: Ground, ways: Ways) -> None:
        self.ground = ground
        self.ways = ways
        self.numbers = count(1)
        self.path, self.log = ground.counting()

    def jobs(self, size: int) -> tuple[list[str], list[str]]:
        """(run directories on the head, job ids) of `size` launches. Those without free nodes wait."""
        state = f"watch-{next(self.numbers)}"
        shutil.copy(HERE / "job.sh", self.ground.path("bench", "job.sh"))
        run_dirs, ids = [], []
        for number in range(size):
            parts = ("bench", state, "runs", f"watch-{number}", KEY, "1")
            self.ground.path(*parts).mkdir(parents=True)
            run_dirs.append(self.ground.inside(*parts))
        lines = [
            f"sbatch --parsable --job-name=watch-{number}.{KEY}.1 --chdir={run_dir} --output=/dev/null --time=30 "
            f"{self.ground.inside('bench', 'job.sh')} {run_dir}"
            for number, run_dir in enumerate(run_dirs)
        ]
        script = self.ground.path("bench", "submit.sh")
        script.write_text("\n".join(lines) + "\n")
        ids = self.ground.on_head("sh", self.ground.inside("bench", "submit.sh")).split()
        for run_dir, job_id in zip(run_dirs, ids):
            here = self.ground.path(*run_dir[len(self.ground.shared_inside) + 1 :].split("/"))
            events = [
                {"event": "intent", "time": time.time()},
                {"event": "submitted", "time": time.time(), "job_id": job_id},
            ]
            (here / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        return run_dirs, ids

    def ours(self, run_dirs: list[str], seconds: int) -> Cost:
        variables = self.ground.scratch / "variables.json"
        variables.write_text(json.dumps({"run_dirs": run_dirs, "seconds": seconds}))
        play = ["ansible-playbook", "--inventory", self.ground.inventory, str(HERE / "wait.yml"), "-e", f"@{variables}"]
        return self._cost(Command(play, self.ground.scratch, self.ground.environment(self.path)))

    def submitit(self, ids: list[str], seconds: int) -> Cost:
        folder = self.ground.path("bench", "submitit")
        folder.mkdir(exist_ok=True)
        shutil.copy(HERE / "with_submitit.py", folder / "watch.py")
        (folder / "ids").write_text("\n".join(ids))
        inside = self.ground.inside("bench", "submitit")
        python = f"{self.ground.root}/.cache/benchmarks/submitit/bin/python"
        argv = [self.ground.head, python, f"{inside}/watch.py", f"{inside}/logs", str(seconds), f"{inside}/ids"]
        return self._cost(Command(argv, self.ground.scratch, self.ground.environment(self.path)))

    def _cost(self, command: Command) -> Cost:
        self.log.write_text("")
        before = self._questions()
        run = start(command).finish()
        return Cost(dict(Counter(self.log.read_text().split())), self._questions() - before, run.cpu)

    def _questions(self) -> int:
        """The number of requests that slurmctld has answered so far, counted by sdiag."""
        # sdiag's own request is included in both counts.
        return sum(int(number) for _kind, number in ASKED.findall(self.ground.on_head("sdiag"))) - 1

    def cancel(self) -> None:
        self.ground.on_head("scancel", f"--user={os.getuid()}")
        self.ground.wait_for_empty_queue()


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run watch", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long each watch lasts (60)")
    parser.add_argument("--rounds", type=int, default=20, help="launches to their artifact (20)")
    parser.add_argument("--profile", choices=["friendly", "site"], default="friendly", help="of the lab")
    parser.add_argument("--parts", default="cost,artifact", help="which parts (cost,artifact)")
    options = parser.parse_args()
    parts = options.parts.split(",")
    raw: dict[str, object] = {}
    lines = []
    loads = [os.getloadavg()[0]]
    with prepared(ROOT, options.profile) as ground:
        ways = Ways(ground)
        facts = ground.facts()
        facts["submitit"] = ways.submitit_version
        if "cost" in parts:
            raw["rows"] = rows = costs(ground, ways, options.seconds)
            lines.append(f"The first {options.seconds} seconds of each watch.\n")
            head = ["jobs", "", "commands per minute", "which", "requests to slurmctld per minute", "CPU seconds"]
            lines.append(table.markdown(head, rows))
            loads.append(os.getloadavg()[0])
        if "artifact" in parts:
            times_of = {killed: returning(ground, ways, options.rounds, killed) for killed in (False, True)}
            raw["artifact"] = {"killed" if killed else "alive": times for killed, times in times_of.items()}
            shown: list[list[object]] = [
                ["killed" if killed else "alive", table.spread(times["nodes"]), table.spread(times["control"])]
                for killed, times in times_of.items()
            ]
            lines.append(f"Seconds from the artifact, {options.rounds} launches each, profile {options.profile}.\n")
            lines.append(table.markdown(["the command", "to free nodes", "to control back"], shown))
            loads.append(os.getloadavg()[0])
    facts["load"] = f"{min(loads):.0f} to {max(loads):.0f}"
    facts["date"] = datetime.date.today().isoformat()
    text = "\n".join(["Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n", *lines])
    results.save(f"watch-{options.profile}", text, {"facts": facts, **raw})
    print(text)
    return 0


def costs(ground: Ground, ways: Ways, seconds: int) -> list[list[object]]:
    """One row for each number of jobs and each way to watch them."""
    rows: list[list[object]] = []
    watching = Watching(ground, ways)
    for size in SIZES:
        run_dirs, ids = watching.jobs(size)
        time.sleep(10)
        for name in ("ours", "submitit"):
            if name == "submitit" and not ways.submitit_version:
                rows.append([size, name, f"not measured: {ways.missing['submitit']}", None, None, None])
                continue
            print(f"[bench] {size} jobs, {name}", file=sys.stderr, flush=True)
            cost = watching.ours(run_dirs, seconds) if name == "ours" else watching.submitit(ids, seconds)
            commands = ", ".join(f"{number} {command}" for command, number in sorted(cost.commands.items()))
            minute = 60 / seconds
            total = sum(cost.commands.values())
            rows.append(
                [size, name, f"{total * minute:.0f}", commands, f"{cost.questions * minute:.0f}", f"{cost.cpu:.1f}"]
            )
        watching.cancel()
    return rows


if __name__ == "__main__":
    sys.exit(main())
