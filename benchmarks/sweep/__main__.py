# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the cost of submitting a sweep with plain sbatch --array: benchmarks/run sweep. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import results
from benchmarks.launch import table
from benchmarks.launch.ground import NODES, Ground, prepared
from benchmarks.launch.timing import Command, start

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# The requests that slurmctld has received since it started, by kind (sdiag). Requests of its daemons have other names.
BY_KIND = re.compile(r"^\s+(REQUEST_\w+)\s+\(\s*\d+\) count:(\d+)", re.MULTILINE)
# The request of this benchmark itself, and pings.
NOT_OURS = ("REQUEST_STATS_INFO", "REQUEST_PING")


# The job that is swept. It is held, because only the submission is measured, not a thousand jobs.
JOB = {
    "command": ["true", "{number}"],
    "code": {"src": "code"},
    "resources": {"time": "00:05:00", "sbatch": {"hold": True}},
}


@dataclass(frozen=True)
class Cost:
    """Seconds until the command returned, and of CPU time; number of Slurm commands; requests to slurmctld."""

    seconds: float
    cpu: float
    commands: int
    requests: int


class Sweeps:
    """All ways on one ground."""

    def __init__(self, ground: Ground, elements: int) -> None:
        self.ground = ground
        self.elements = elements
        self.project = ground.scratch / "sweep"
        (self.project / "code").mkdir(parents=True)
        (self.project / "code" / "README").write_text("No program: the ranks run `true`.\n")
        self.first_in_path, self.log = ground.counting()

    def measured(self, argv: Sequence[str], counting: bool, settle: bool = True) -> Cost:
        """Run a command. With `counting`, the time is not used, because counting takes time."""
        if settle:
            self.ground.settle()
        self.log.write_text("")
        before = self.requests()
        run = start(
            Command(argv, self.project, self.ground.environment(self.first_in_path if counting else ""))
        ).finish()
        return Cost(run.to_end, run.cpu, len(self.log.read_text().split()), self.requests() - before)

    def requests(self) -> int:
        return sum(
            int(number) for kind, number in BY_KIND.findall(self.ground.on_head("sdiag")) if kind not in NOT_OURS
        )

    def clear(self) -> None:
        """Remove everything of the previous way from the queue."""
        self.ground.on_head("scancel", "--me")
        self.ground.wait_for_empty_queue()

    def plain(self, counting: bool = False) -> Cost:
        shutil.copy(HERE / "plain.sh", self.ground.path("bench", "runs"))
        folder = self.ground.inside("bench", "runs")
        options = [f"--array=0-{self.elements - 1}", f"--chdir={folder}", "--output=/dev/null", "--hold", "--time=5"]
        cost = self.measured([self.ground.head, "sbatch", *options, f"{folder}/plain.sh"], counting)
        self.clear()
        return cost

    def ours(self, name: str, *more: str, counting: bool = False, settle: bool = True) -> Cost:
        """Run the playbook once for the sweep of this name, without waiting."""
        sweep = {"parameters": {"number": [str(number) for number in range(self.elements)]}}
        (self.project / "sweep.json").write_text(json.dumps({**JOB, "name": name, "sweep": sweep}))
        play = ["ansible-playbook", "--inventory", self.ground.inventory, "rankzero.slurm.sweep", *more]
        variables = json.dumps({"job": "sweep.json", "launch_wait": False})
        return self.measured([*play, "-e", variables], counting, settle)


WAYS = ("plain `sbatch --array`", "ours, check mode", "ours, new", "ours again, all of it adopted")


def measure(ground: Ground, rounds: int, elements: int) -> dict[str, list[Cost]]:
    """Run each way once per round, after a round that does not count; then once more to count commands and requests."""
    bench = Sweeps(ground, elements)
    measured: dict[str, list[Cost]] = {name: [] for name in WAYS}
    for number in range(rounds + 2):
        counting = number == rounds + 1
        print(f"[bench] round {number} of {rounds}{' (counting)' if counting else ''}", file=sys.stderr, flush=True)
        name = f"sweep-{number}"
        costs = [
            bench.plain(counting),
            bench.ours(name, "--check", counting=counting),
            bench.ours(name, counting=counting),
            bench.ours(name, counting=counting, settle=False),
        ]
        bench.clear()
        for way, cost in zip(WAYS, costs):
            if number:
                measured[way].append(cost)
    return measured


def report(facts: dict[str, str], costs_of: dict[str, list[Cost]], rounds: int, elements: int) -> str:
    # The last run was counted, so its time is not used.
    plain = [cost.seconds for cost in costs_of[WAYS[0]][:-1]]
    rows: list[Sequence[object]] = []
    for name, costs in costs_of.items():
        seconds, cpu = [cost.seconds for cost in costs[:-1]], [cost.cpu for cost in costs[:-1]]
        counted = costs[-1]
        spread = [table.spread(seconds, 3), table.ratio(seconds, plain), table.spread(cpu)]
        rows.append([name, *spread, counted.commands, counted.requests])
    head = ["", "command back, s", "x sbatch", "CPU seconds", "Slurm commands", "requests to slurmctld"]
    return "\n".join(
        [
            "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n",
            f"A held array of {elements}; median (least - most) of {rounds}.\n",
            table.markdown(head, rows),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run sweep", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="submissions of each way (5)")
    parser.add_argument("--elements", type=int, default=1000, help="elements of the sweep (1000)")
    options = parser.parse_args()
    with prepared(ROOT) as ground:
        costs_of = measure(ground, options.rounds, options.elements)
        facts = ground.facts()
    facts["nodes of the lab"] = str(NODES)
    facts["measured while others used the machine"] = f"{ground.restless} of {ground.settled}"
    facts["date"] = datetime.date.today().isoformat()
    text = report(facts, costs_of, options.rounds, options.elements)
    raw = {name: [vars(cost) for cost in costs] for name, costs in costs_of.items()}
    results.save("sweep", text, {"facts": facts, "costs": raw})
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
