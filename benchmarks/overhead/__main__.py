# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what the runtime costs inside the job, compared with a bare srun: benchmarks/run overhead.

See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import yaml

from benchmarks import results
from benchmarks.launch import table
from benchmarks.launch.ground import NODES, Ground, prepared
from benchmarks.launch.timing import Command, start
from benchmarks.releases import collections_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
Size = tuple[int, int]
SIZES = tuple((nodes, ranks) for nodes in (1, 4, NODES) for ranks in (1, 8))


@dataclass(frozen=True)
class Start:
    """Seconds from the call of sbatch until the first and the last rank's program began."""

    first: float
    last: float


#: What the login of every node does: a job that reads it starts so much later.
PROFILE, PROFILE_SECONDS = "/etc/profile.d/rankzero-overhead.sh", 3


class Overhead:
    """All ways on one ground."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.numbers: Iterator[int] = count(1)
        self.project = ground.scratch / "overhead"
        shutil.copytree(HERE / "project", self.project)
        hosts = yaml.safe_load(Path(ground.inventory).read_text())
        # Says when sbatch is called, and calls it.
        self.submitted = ground.path("bench", "submitted")
        said = f'[ "${{0##*/}}" != sbatch ] || date +%s.%N > {ground.inside("bench", "submitted")}\n'
        self.first_in_path = ground.wrappers("timing", said)
        # Only with namespaces of its own has a node a profile of its own.
        nodes = ground.on_head("sinfo", "--noheader", "--Node", "--format=%N").split() if os.geteuid() == 0 else []
        for node in sorted(set(nodes)):
            ground.on_node(node, f"echo sleep {PROFILE_SECONDS} > {PROFILE}")
        self.cluster = hosts["slurm_login"]["vars"]["launch_cluster"]

    def plain(self, nodes: int, ranks: int) -> Start:
        """Run a script with a single srun."""
        name = f"overhead-{next(self.numbers)}"
        folder, inside = self.ground.path("bench", "runs", name), self.ground.inside("bench", "runs", name)
        folder.mkdir()
        shutil.copy(HERE / "plain.sh", folder)
        size = [f"--nodes={nodes}", f"--ntasks-per-node={ranks}", "--cpus-per-task=1", "--time=5", "--wait"]
        words = [f"{self.first_in_path}/sbatch", *size, "--output=/dev/null", f"{inside}/plain.sh", inside]
        self.ground.on_head(*words, str(nodes), str(ranks))
        return self.times(folder, nodes * ranks)

    def release(self, ref: str) -> str:
        """A folder of collections that contains ours as of a commit, tag or branch."""
        return collections_of(ref, self.ground.scratch / "other")

    def ours(self, nodes: int, ranks: int, preflight: bool, collections: str = "") -> Start:
        """Run the same through the collection and wait for the end. `collections`: the folder of another release."""
        job = f"overhead-{next(self.numbers)}"
        overrides = {"name": job, "nodes": nodes, "ranks_per_node": ranks, "preflight": preflight}
        variables = {"job": "job.yml", "launch_cluster": self.cluster, "launch_overrides": overrides}
        play = ["ansible-playbook", "--inventory", self.ground.inventory, "rankzero.slurm.train"]
        environment = self.ground.environment(self.first_in_path)
        if collections:
            environment["ANSIBLE_COLLECTIONS_PATH"] = collections
        start(Command([*play, "-e", json.dumps(variables)], self.project, environment)).finish()
        (run,) = self.ground.path("rankzero", "state", "runs", job).glob("*/1")
        return self.times(run, nodes * ranks)

    def times(self, folder: Path, ranks: int) -> Start:
        """Read the times that the call of sbatch and the ranks have left."""
        begun = float(self.submitted.read_text())
        ranks_begun = sorted(float((folder / f"rank.{rank}").read_text()) - begun for rank in range(ranks))
        return Start(ranks_begun[0], ranks_begun[-1])


def measure(
    ground: Ground, rounds: int, against: str = "", sizes: Sequence[Size] = SIZES
) -> dict[str, dict[tuple[int, int], list[Start]]]:
    """Run every way at every size once per round, after one launch of each that does not count."""
    bench = Overhead(ground)
    ways: dict[str, Callable[[int, int], Start]] = {
        "`srun` in a script": bench.plain,
        "ours, without preflight": lambda nodes, ranks: bench.ours(nodes, ranks, False),
        "ours": lambda nodes, ranks: bench.ours(nodes, ranks, True),
    }
    if against:
        other = bench.release(against)
        ways[f"{against}, without preflight"] = lambda nodes, ranks: bench.ours(nodes, ranks, False, other)
        ways[against] = lambda nodes, ranks: bench.ours(nodes, ranks, True, other)
    for way in ways.values():
        way(1, 1)
    starts: dict[str, dict[tuple[int, int], list[Start]]] = {name: {size: [] for size in sizes} for name in ways}
    for number in range(rounds):
        print(f"[bench] round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for size in sizes:
            for name, way in ways.items():
                ground.settle()
                starts[name][size].append(way(*size))
    return starts


def report(facts: dict[str, str], starts: dict[str, dict[tuple[int, int], list[Start]]], rounds: int) -> str:
    plain = next(iter(starts.values()))
    rows: list[Sequence[object]] = []
    for nodes, ranks in plain:
        for name, sizes in starts.items():
            firsts = [start.first for start in sizes[nodes, ranks]]
            lasts = [start.last for start in sizes[nodes, ranks]]
            base = [start.first for start in plain[nodes, ranks]]
            more = None if sizes is plain else table.more(firsts, base)
            late = None if sizes is plain else table.more(lasts, [start.last for start in plain[nodes, ranks]])
            rows.append([f"{nodes} x {ranks}", name, table.spread(firsts), table.spread(lasts), more, late])
    return "\n".join(
        [
            "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n",
            f"Seconds from the call of sbatch; a login takes {PROFILE_SECONDS} s; median (least - most) of {rounds}.\n",
            table.markdown(["nodes x ranks", "", "first rank runs", "last rank runs", "more than srun", "last"], rows),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="launches of each way at each size (5)")
    parser.add_argument("--against", default="", metavar="REF", help="measure the collection at this commit as well")
    parser.add_argument("--sizes", default="", metavar="NxR,...", help="nodes x ranks a node (all six)")
    options = parser.parse_args()
    pairs = (size.split("x") for size in options.sizes.split(",") if size)
    sizes = [(int(nodes), int(ranks)) for nodes, ranks in pairs] or SIZES
    with prepared(ROOT, instance="overhead") as ground:
        before = os.getloadavg()[0]
        starts = measure(ground, options.rounds, options.against, sizes)
        facts = ground.facts()
    facts["load"] = f"{before:.1f} to {os.getloadavg()[0]:.1f}"
    facts["nodes of the lab"] = str(NODES)
    facts["measured while others used the machine"] = f"{ground.restless} of {ground.settled}"
    facts["date"] = datetime.date.today().isoformat()
    text = report(facts, starts, options.rounds)
    raw = {
        name: {f"{n}x{r}": [(s.first, s.last) for s in v] for (n, r), v in sizes.items()}
        for name, sizes in starts.items()
    }
    results.save("overhead", text, {"facts": facts, "seconds": raw})
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
