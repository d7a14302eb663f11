# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the cost of a launch with the alternatives: benchmarks/run launch. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import datetime
import glob
import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks import results
from benchmarks.launch import table
from benchmarks.launch.ground import NODES, Ground, prepared
from benchmarks.launch.timing import Run, kill_tree, start
from benchmarks.launch.ways import Trial, Way, Ways

ROOT = Path(__file__).resolve().parents[2]
LINGERS = 20.0  # seconds the program continues after its artifact
PROGRAM_SECONDS = 2.0  # how long the program of a batch script runs
JOB_NODES = 2
WATCHED = {"plain `sbatch`": "`sbatch`, poll in shell, `scancel`", "ours, warm": "ours, `then: end`"}

Item = TypeVar("Item")


class Comparison:
    """One run of all measurements on one ground."""

    def __init__(self, ground: Ground, ways: Ways) -> None:
        self.ground = ground
        self.ways = ways
        self.numbers: Iterator[int] = itertools.count(1)

    def trial(self, **options: object) -> Trial:
        return Trial(next(self.numbers), **options)  # type: ignore[arg-type]

    # -- start to job id ---------------------------------------------------------------------------------------------

    def ids(self, rounds: int) -> dict[str, list[Run]]:
        """Run every way once per round, each round in another order, after a warm-up round."""
        ways = self.ways.for_ids()
        for way in ways:
            self._launch(way)
        runs: dict[str, list[Run]] = {way.name: [] for way in ways}
        for number in range(rounds):
            say(f"start to job id: round {number + 1} of {rounds}, load {load()}")
            for way in rotated(ways, number):
                self.ground.settle()
                runs[way.name].append(self._launch(way))
        self.ground.wait_for_empty_queue()
        return runs

    def _launch(self, way: Way, first_in_path: str = "") -> Run:
        run = start(way.command(self.trial(first_in_path=first_in_path))).finish()
        if way.submits and run.job_id is None:
            raise RuntimeError(f"{way.name} named no job:\n{run.text}")
        if not way.submits:
            run.id_at = None
        return run

    def slurm_commands(self) -> dict[str, int]:
        """Slurm commands on the head during one launch. Not timed, because counting takes time."""
        folder, log = self.ground.counting()
        counts = {}
        for way in self.ways.for_ids():
            self.ground.wait_for_empty_queue()
            log.write_text("")
            self._launch(way, folder)
            counts[way.name] = len(log.read_text().split())
        self.ground.wait_for_empty_queue()
        return counts

    # -- after the artifact ------------------------------------------------------------------------------------------

    def artifacts(self, rounds: int) -> dict[str, dict[str, list[float]]]:
        """Seconds from the artifact's modification time to free nodes, and to the end of the command."""
        ways = self.ways.for_artifacts()
        seconds: dict[str, dict[str, list[float]]] = {way.name: {"released": [], "returned": []} for way in ways}
        for number in range(rounds):
            say(f"after the artifact: round {number + 1} of {rounds}, load {load()}")
            for way in rotated(ways, number):
                self.ground.settle()
                trial = self.trial(lingers=LINGERS, watch=True)
                run = start(way.command(trial))
                landed = self._await_artifact(way.artifact(trial), run)
                released = self.ground.wait_for_empty_queue()
                run.finish()
                assert run.ended_at is not None
                seconds[way.name]["released"].append(released - landed)
                seconds[way.name]["returned"].append(run.ended_at - landed)
        return seconds

    def _await_artifact(self, pattern: str, run: Run) -> float:
        until = time.time() + 90
        while time.time() < until:
            for path in glob.glob(pattern):
                return os.stat(path).st_mtime
            time.sleep(0.05)
        kill_tree(run.process.pid)
        raise RuntimeError(f"no artifact appeared:\n{run.text}")

    # -- from a batch script to its result ---------------------------------------------------------------------------

    def scripts(self, rounds: int) -> dict[str, list[float]]:
        """Seconds of one command that runs a batch script to its end, after a round that does not count."""
        ways = self.ways.for_scripts()
        seconds: dict[str, list[float]] = {way.name: [] for way in ways}
        for number in range(rounds + 1):
            say(f"batch script: round {number} of {rounds}, load {load()}")
            for way in rotated(ways, number):
                self.ground.settle()
                run = start(way.command(self.trial(before=PROGRAM_SECONDS))).finish()
                seconds[way.name] += [run.to_end] if number else []
        return seconds

    # -- killed between sbatch and the record ------------------------------------------------------------------------

    def killed(self) -> dict[str, tuple[int, int]]:
        """(jobs, runs of the program) after SIGKILL once sbatch has submitted, and the same launch again. One trial."""
        folder, mark = self.ground.hanging()
        counts = {}
        for way in self.ways.for_artifacts():
            self.ground.wait_for_empty_queue()
            before = self.ground.job_ids()
            number = next(self.numbers)
            first = start(way.command(Trial(number, lingers=8, first_in_path=folder)))
            until = time.time() + 60
            while not mark.exists() and time.time() < until:
                time.sleep(0.02)
            if not mark.exists():
                kill_tree(first.process.pid)
                raise RuntimeError(f"{way.name} never called sbatch:\n{first.text}")
            kill_tree(first.process.pid)
            mark.unlink()
            start(way.command(Trial(number, lingers=8))).finish()
            self.ground.wait_for_empty_queue()
            ran = self.ways.record(Trial(number)).read_text().splitlines()
            counts[way.name] = (len(self.ground.job_ids() - before), len(ran))
        return counts


def rotated(items: Sequence[Item], by: int) -> list[Item]:
    """Rotate the order, so that no way always runs first or after the same one."""
    start_at = by % len(items)
    return [*items[start_at:], *items[:start_at]]


def load() -> str:
    return Path("/proc/loadavg").read_text().split()[0]


def say(text: str) -> None:
    print(f"[bench] {text}", file=sys.stderr, flush=True)


# -- report ------------------------------------------------------------------------------------------------------------


def report(
    facts: dict[str, str],
    runs: dict[str, list[Run]],
    commands: dict[str, int],
    artifacts: dict[str, dict[str, list[float]]],
    killed: dict[str, tuple[int, int]],
    missing: dict[str, str],
) -> str:
    ends = {name: [run.to_end for run in values] for name, values in runs.items()}
    ids = {name: [run.to_id for run in values if run.to_id is not None] for name, values in runs.items()}
    tasks = {name: values[-1].tasks for name, values in runs.items()}
    plain, empty = next(iter(ends.values())), ends["empty play"]
    rows = [
        [
            name,
            table.spread(ids[name], 3),
            table.spread(ends[name], 3),
            table.ratio(ends[name], plain),
            table.more(ends[name], empty) if tasks[name] is not None else None,
            table.spread([run.cpu for run in runs[name]]),
            commands[name],
            tasks[name],
        ]
        for name in runs
    ]
    rows += [[name, f"not measured: {reason}", *[None] * 6] for name, reason in missing.items()]
    parts = [
        "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n",
        "## Start to job id\n",
        f"Seconds from the start of the command: median (least - most) of {len(plain)}.\n",
        table.markdown(
            [
                "",
                "id on screen",
                "command back",
                "x sbatch",
                "above empty play",
                "CPU seconds",
                "Slurm commands",
                "tasks",
            ],
            rows,
        ),
        "Target: ours warm <= empty play + 0.7 s, and <= 2 Slurm commands.\n",
        "## After the artifact\n",
    ]
    if artifacts:
        rounds = len(next(iter(artifacts.values()))["released"])
        parts += [
            f"{JOB_NODES} nodes; the program goes on for {LINGERS:g} s after its artifact.\n",
            f"Seconds, median (least - most) of {rounds}.\n",
            table.markdown(
                ["", "artifact to free nodes", "artifact to control back", "node-seconds held"],
                [
                    [
                        WATCHED.get(name, name),
                        table.spread(values["released"]),
                        table.spread(values["returned"]),
                        table.spread([seconds * JOB_NODES for seconds in values["released"]], 1),
                    ]
                    for name, values in artifacts.items()
                ],
            ),
            "Target: ours ends itself <= 1 s after the artifact, control back <= 1 s later, <= 2 node-seconds.\n",
        ]
    parts += [
        "## Killed between sbatch and the record of the id, then launched again\n",
        table.markdown(
            ["", "jobs", "runs of the program"],
            [[name.replace("ours, warm", "ours"), jobs, ran] for name, (jobs, ran) in killed.items()],
        ),
        "Target: ours 1 and 1.\n",
    ]
    return "\n".join(parts)


def of_scripts(seconds: dict[str, list[float]]) -> str:
    """The section about a batch script that is there already."""
    plain = next(iter(seconds.values()))
    rows = [[name, table.spread(values), table.ratio(values, plain)] for name, values in seconds.items()]
    told = f"A program of {PROGRAM_SECONDS:g} s on {JOB_NODES} nodes. Ours proves its result, and fetches its logs."
    return "\n".join(
        [
            "\n## From a batch script to its result\n",
            f"{told}\n",
            f"Seconds, median (least - most) of {len(plain)}.\n",
            table.markdown(["", "command back", "x sbatch"], rows),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run launch", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="launches of each way for the time to the job's id (7)")
    parser.add_argument("--artifact-rounds", type=int, default=3, help="watched launches of each way (3)")
    options = parser.parse_args()

    say(f"booting a lab cluster of {NODES} nodes")
    with prepared(ROOT) as ground:
        ways = Ways(ground)
        loads = [load()]
        comparison = Comparison(ground, ways)
        runs = comparison.ids(options.rounds)
        commands = comparison.slurm_commands()
        artifacts = comparison.artifacts(options.artifact_rounds)
        scripts = comparison.scripts(options.artifact_rounds)
        killed = comparison.killed()
        loads.append(load())
        facts = {**ground.facts(), "submitit": ways.submitit_version or "-"}
    facts["nodes of the lab"] = str(NODES)
    facts["load at start and end"] = " and ".join(loads)
    facts["measured while others used the machine"] = f"{ground.restless} of {ground.settled}"
    facts["date"] = datetime.date.today().isoformat()
    text = report(facts, runs, commands, artifacts, killed, ways.missing) + of_scripts(scripts)
    raw = {
        "facts": facts,
        "to_end": {name: [run.to_end for run in values] for name, values in runs.items()},
        "cpu": {name: [run.cpu for run in values] for name, values in runs.items()},
        "to_id": {name: [run.to_id for run in values] for name, values in runs.items()},
        "artifacts": artifacts,
        "scripts": scripts,
        "killed": killed,
        "slurm_commands": commands,
    }
    results.save("launch", text, raw)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
