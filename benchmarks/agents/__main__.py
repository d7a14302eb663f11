# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Twenty tasks on a lab that any agent can be run on, each with a checker: benchmarks/run agents --agent COMMAND.

The command is run by bash in a folder of its own, reads the task from its standard input, and has `rankzero` in PATH.
Without --agent the reference solutions play, which prove that each task can be solved, and then an agent that does
nothing, which proves that each checker can fail.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import results
from benchmarks.agents import finding, running
from benchmarks.agents.ground import Ground, Task
from tests.cluster.conftest import booted, instance_name, lab_of
from tests.cluster.launching import Site

TASKS: tuple[Task, ...] = (*running.TASKS, *finding.TASKS)
#: What an agent is told before its task.
BEFORE = """\
You work in the current folder. A Slurm cluster is reached by the command `rankzero`, whose inventory is in the folder
inventory; `rankzero --help` and `rankzero spec` say what it can do. There is no other way to the cluster.

"""
#: Lines of an agent's output that are kept.
LINES = 20


@dataclass(frozen=True)
class Score:
    """How an agent did with a task. `wrong`: what is not as it should be; nothing: it is solved. `code`: None where it
    was ended.
    """

    task: str
    agent: str
    wrong: tuple[str, ...]
    code: int | None
    seconds: float
    calls: int
    printed: str


def play(task: Task, site: Site, agent: str, command: str, seconds: float) -> Score:
    """One agent and one task, in an empty folder and with a state root of its own."""
    ground = Ground(site)
    with task.played(ground):
        begun = time.monotonic()
        code, printed = ground.agent(command, BEFORE + task.text + "\n", seconds)
        taken, calls = time.monotonic() - begun, ground.calls()
        try:
            wrong = tuple(task.check(ground))
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
            # What an agent has left may have any shape.
            wrong = (f"{type(error).__name__}: {error}",)
    kept = "\n".join(printed.splitlines()[-LINES:])
    return Score(task.name, agent, wrong, code, round(taken, 1), calls, kept)


def agents_of(options: argparse.Namespace) -> dict[str, Callable[[Task], str]]:
    """The agents that play, by name: each gives the command for a task."""
    if options.agent:
        return {"agent": lambda _task: str(options.agent)}
    return {"reference": lambda task: task.solution, "nothing": lambda _task: "true"}


def table(scores: Sequence[Score]) -> str:
    """A line for each task, and the sums."""
    lines = ["| task | agent | solved | commands | seconds | what is wrong |", "| --- | --- | --- | --- | --- | --- |"]
    for score in scores:
        solved, wrong = "no" if score.wrong else "yes", re.sub(r"[|\n]", " ", "; ".join(score.wrong))[:200]
        lines.append(f"| {score.task} | {score.agent} | {solved} | {score.calls} | {score.seconds} | {wrong} |")
    for agent in dict.fromkeys(score.agent for score in scores):
        own = [score for score in scores if score.agent == agent]
        lines.append(f"| **all {len(own)}** | {agent} | {sum(not score.wrong for score in own)} | | | |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run agents", description=__doc__)
    parser.add_argument(
        "--agent", metavar="COMMAND", help="what solves the tasks; default: the references, and nothing"
    )
    parser.add_argument("--only", metavar="NAME,NAME", help="only these tasks", default="")
    parser.add_argument("--seconds", type=float, default=600, help="how long an agent may take for a task")
    parser.add_argument("--list", action="store_true", help="print the tasks as an agent reads them, and play none")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [task.name for task in TASKS]
    if unknown := sorted({*wanted} - {task.name for task in TASKS}):
        parser.error(f"--only: no task {', '.join(unknown)}; there are {', '.join(task.name for task in TASKS)}")
    chosen = [task for task in TASKS if task.name in wanted]
    if options.list:
        print("\n\n".join(f"{task.name}: {task.text}" for task in chosen))
        return 0
    scores = []
    with (
        booted(lab_of(instance_name("agents"))) as lab,
        tempfile.TemporaryDirectory(prefix="rankzero-agents-") as folder,
    ):
        for task in chosen:
            for agent, command in agents_of(options).items():
                place = Path(folder) / task.name / agent
                place.mkdir(parents=True)
                site = Site(lab, place, f"agents-{task.name}")
                scores.append(play(task, site, agent, command(task), options.seconds))
                print(table(scores[-1:]).splitlines()[2], file=sys.stderr)
    text = table(scores)
    print(text)
    results.save("agents", text, [asdict(score) for score in scores])
    # Without an agent it is a test of the tasks themselves.
    right = all(bool(score.wrong) == (score.agent == "nothing") for score in scores)
    return 0 if options.agent or right else 1


if __name__ == "__main__":
    sys.exit(main())
