# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the preflight of a launch costs with the number of nodes: counts of opens, listings, processes, files,
bytes and connections, and their slopes.

benchmarks/run scale [--nodes 64,256,1024] [--ranks 8] [--lab 8,32,64]. The preflight's real programs run on this
machine: the first node, a node in the middle and the last one look for themselves, the reports of all others are copies
of theirs, and the first node judges all. Of many ranks the real collector brings logs and samples of each node; of few,
the files that rank.sh and the sampler write are counted. Python reports its own opens, listings, processes and
connections (audit events). No cluster is needed. srun alone, without a preflight, does none of this; what it starts on
each node is not counted for either.

--lab boots lab clusters of these sizes, and counts the requests to slurmctld and the files of one whole launch, beside
plain sbatch and srun.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.checkpoint import MOST_LOGS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from benchmarks import results
from benchmarks.scale import logs

PROGRAM = os.path.join(RUNTIME, "preflight", "program.py")
#: Runs a program and writes how often it did what, below a folder only where the event has a path.
TRACED = """\
import json, os, runpy, sys
answer, folder, program = sys.argv[1:4]
sys.argv = sys.argv[3:]
kinds = {"open": "opens", "os.listdir": "listings", "os.scandir": "listings", "socket.connect": "connections",
         "subprocess.Popen": "processes", "os.posix_spawn": "processes", "os.fork": "processes"}
counts = dict.fromkeys(kinds.values(), 0)
def count(event, arguments):
    kind = kinds.get(event)
    if kind and (kind not in ("opens", "listings") or str(arguments[0]).startswith(folder)):
        counts[kind] += 1
sys.addaudithook(count)
code = 0
try:
    runpy.run_path(program, run_name="__main__")
except SystemExit as end:
    code = end.code or 0
with open(answer, "w") as stream:
    json.dump(counts, stream)
sys.exit(code)
"""
#: The first node's judgement, which is the conductor's: JUDGE RUNTIME FOLDER NODES RANKS.
JUDGE = """\
import sys
runtime, folder, nodes, ranks = sys.argv[1:]
sys.path.insert(0, runtime)
from preflight.judge import Question, judge
names = nodes.split(",")
judged = judge(Question(folder, names, wanted=len(names), tasks_per_node=int(ranks)))
assert judged.action == "run", judged.message
"""
KINDS = ("opens", "listings", "processes", "connections")


class Preflight:
    """The preflight of so many nodes in a folder."""

    def __init__(self, folder: Path, nodes: int, ranks: int) -> None:
        self.folder = folder / "run" / "preflight" / "0"
        (self.folder / "heads").mkdir(parents=True)
        self.nodes = [f"node{number:05d}" for number in range(nodes)]
        self.ranks = ranks

    def traced(self, node: int, program: str, *words: str) -> tuple[dict[str, int], float, str]:
        """The counts of one program of the preflight as one node runs it, its CPU seconds, and what it printed."""
        answer = self.folder.parent / "counts.json"
        environment = {**os.environ, "SLURM_NODEID": str(node), "SLURM_JOB_ID": "7", "RANKZERO_RUNTIME": RUNTIME}
        counting = [sys.executable, "-IB", "-c", TRACED, str(answer), str(self.folder), program]
        begun = os.times()
        done = subprocess.run([*counting, *words], env=environment, check=True, stdout=subprocess.PIPE, text=True)
        ended = os.times()
        spent = ended.children_user + ended.children_system - begun.children_user - begun.children_system
        return json.loads(answer.read_text()), spent, done.stdout

    def look(self) -> dict[str, float]:
        """The cost of one node: the mean of the first, a middle and the last one. The others get copies of a report."""
        sampled = sorted({0, len(self.nodes) // 2, len(self.nodes) - 1})
        words = ["node", str(self.folder), ",".join(self.nodes), "--wanted", str(len(self.nodes))]
        words += ["--ranks-per-node", str(self.ranks)]
        traced = {node: self.traced(node, PROGRAM, *words) for node in sampled}
        last, printed = self.nodes[sampled[-1]], traced[sampled[-1]][2]
        for number, name in enumerate(self.nodes):
            lines = [f"[binding] task={number * self.ranks + rank} node={name} cpus=0-3 online=0-3 gpus=none\n"
                     for rank in range(self.ranks)]  # fmt: skip
            own = traced[number][2] if number in traced else printed.replace(f" {last} ", f" {name} ")
            self.said([*lines, *own.splitlines(keepends=True)], number * self.ranks)
        return {kind: statistics.mean(counts[kind] for counts, *_rest in traced.values()) for kind in KINDS}

    def said(self, lines: Sequence[str], task: int) -> None:
        """Write what the tasks of a node said, as srun does it for all nodes."""
        with (self.folder / "_tasks.log").open("a") as stream:
            for line in lines:
                number = line.split("=")[1].split()[0] if line.startswith("[binding] ") else task
                stream.write(f"{number}: {line}")

    def judge(self) -> tuple[dict[str, int], float]:
        """The cost of the first node's judgement of all, and its CPU seconds."""
        program = self.folder.parent / "judge.py"
        program.write_text(JUDGE)
        words = [RUNTIME, str(self.folder), ",".join(self.nodes), str(self.ranks)]
        counts, seconds, _printed = self.traced(0, str(program), *words)
        return counts, seconds

    def files(self) -> tuple[int, int]:
        """(files, bytes) that the preflight has left."""
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        return len(paths), sum(path.stat().st_size for path in paths)


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """How much a value grows with one more node, by least squares."""
    return statistics.linear_regression(sizes, values).slope if len(set(sizes)) > 1 else values[0] / sizes[0]


def table(sizes: Sequence[int], rows: Mapping[str, Sequence[float]]) -> str:
    """The rows as a table, with what one more node adds."""
    lines = [
        "| | " + " | ".join(f"{size} nodes" for size in sizes) + " | a further node |",
        "| --- " * (len(sizes) + 2) + "|",
    ]
    for name, values in rows.items():
        shown = [f"{value:.2f}" if isinstance(value, float) and value % 1 else f"{value:.0f}" for value in values]
        lines.append(f"| {name} | " + " | ".join(shown) + f" | {slope(sizes, values):.4f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="64,256,1024", help="numbers of nodes")
    parser.add_argument("--ranks", type=int, default=8, help="ranks on each node")
    parser.add_argument("--lab", default="", help="also launch on lab clusters with these numbers of nodes")
    options = parser.parse_args()
    sizes = [int(size) for size in options.nodes.split(",")]
    rows: dict[str, list[float]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            preflight = Preflight(Path(folder), size, options.ranks)
            for kind, value in preflight.look().items():
                rows.setdefault(f"each node: {kind}", []).append(value)
            counts, seconds = preflight.judge()
            for kind in KINDS:
                rows.setdefault(f"first node's judgement: {kind}", []).append(counts[kind])
            rows.setdefault("first node's judgement: CPU seconds, its start included", []).append(seconds)
            files, size_of_all = preflight.files()
            rows.setdefault("files of the preflight", []).append(files)
            rows.setdefault("bytes of the preflight", []).append(size_of_all)
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            for name, number in logs.measured(
                Path(folder), size, options.ranks, many=size * options.ranks > MOST_LOGS
            ).items():
                rows.setdefault(name, []).append(number)
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            many = size * options.ranks > MOST_LOGS
            place = Path(folder)
            asked = logs.opens(place, size, options.ranks) if many else logs.looks(place, size)
            for name in (logs.PRINTING, logs.SILENT, logs.LOOKING, logs.TELLING):
                rows.setdefault(name, []).append(asked.get(name, 0.0))
        rows.setdefault("files of preflight, logs and samples", []).append(
            files + rows["files of logs and samples"][-1]
        )
    text = f"{options.ranks} ranks on each node.\n\n{table(sizes, rows)}"
    if options.lab:
        # A lab takes root and Slurm, which the other part does without.
        from benchmarks.scale import launches

        sizes = [int(size) for size in options.lab.split(",")]
        measured = [launches.measured(size) for size in sizes]
        rows = {name: [values[name] for values in measured] for name in measured[0]}
        text += f"\nOne rank on each node of a lab cluster.\n\n{table(sizes, rows)}"
    print(text)
    (results.folder() / "scale.md").write_text(text)


if __name__ == "__main__":
    main()
