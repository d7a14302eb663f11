# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A class whose students have handed in, built by code: run directories as jobs leave them, and what Slurm recorded.

Times are those of now: nobody can set when a file system saw a file change, and so neither can a test.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.course import checkoff
from ansible_collections.rankzero.slurm.plugins.module_utils.course.folders import Course, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.course.students import students
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import SACCT_COLUMNS, SQUEUE_COLUMNS
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import FIELD, RECORD
from tests.unit.slurm.recorded import NO_ACCOUNTING, UNKNOWN_ID, said
from tests.writers import Run, record_of_launch

CODE = "c0de" * 16
# Columns of sacct, and what squeue calls them.
IN_SQUEUE = {
    "JobID": "JobArrayID",
    "State": "State",
    "ExitCode": "exit_code",
    "Submit": "SubmitTime",
    "Start": "StartTime",
    "End": "EndTime",
    "ElapsedRaw": "TimeUsed",
    "NNodes": "NumNodes",
    "NodeList": "NodeList",
    "Account": "Account",
    "User": "UserName",
    "WorkDir": "WorkDir",
    "JobName": "Name",
}


def spec_of(nodes: int, **changes: Any) -> dict[str, Any]:
    return {
        "name": "ddp-lab",
        "command": ["ddp.py"],
        "resources": {"nodes": str(nodes)},
        "launcher": {"kind": "torchrun", "ranks_per_node": "2"},
        "artifact": {"path": "result.json"},
        **changes,
    }


def launch_of(nodes: int) -> dict[str, Any]:
    """launch.json of a run on so many nodes."""
    return record_of_launch(spec_of(nodes), code_key=CODE)


def hosts(nodes: int) -> list[str]:
    return [f"node{number:02d}" for number in range(1, nodes + 1)]


class Semester:
    """`rows` is what accounting has, `queue` what squeue has; `accounting` is a result where sacct fails."""

    def __init__(self, root: Path, ids: Sequence[str] = ("ada", "ben"), *, mode: str = "projects") -> None:
        self.root = root
        self.class_ = {one.id: one for one in students("ddp", ids, mode=mode, login="teacher")}
        self.course = Course("ddp", mode, tuple(self.class_.values()), accounts=True)
        for one in ids:
            (root / "students" / one).mkdir(parents=True)
        (root / "class.json").write_text(record_of(self.course))
        self.rows: dict[str, dict[str, str]] = {}
        self.steps: dict[str, list[dict[str, str]]] = {}
        self.queue: dict[str, dict[str, str]] = {}
        self.accounting: CommandResult | None = None
        self.programs: list[str] = []

    def hand_in(
        self,
        student: str,
        nodes: int,
        job_id: int,
        *,
        generation: int = 1,
        world_size: int | None = None,
        epoch: float = 0.02,
        spec: Mapping[str, Any] | None = None,
        recorded: Mapping[str, str] | None = None,
    ) -> Path:
        """A good run. `world_size`: what its ranks believe. `recorded`: what Slurm has otherwise."""
        asked = spec_of(nodes, **(spec or {}))
        key = record_of_launch(asked, code_key=CODE)["key"][:16]
        job = Run.below(self.root / "students" / student / "state", "ddp-lab", key, generation)
        job.job_id = str(job_id)
        now, world, run = time.time(), world_size or 2 * nodes, job.path
        names = hosts(nodes)
        job.launch(asked, code_key=CODE).journal({"time": now - 9, "event": "intent"}).claimed()
        job.started(at=now - 8, nodes=names, ranks=world)
        for folder in ("preflight/0", "work"):
            (run / folder).mkdir(parents=True)

        def write(name: str, content: object) -> None:
            text = content if isinstance(content, str) else json.dumps(content)
            (run / name).write_text(text)

        result = {
            "world_size": world,
            "ranks": list(range(world)),
            "world_size_proven": True,
            "models_identical": True,
            "hosts": names,
            "epochs": 30,
            "seconds_per_epoch": epoch + job_id * 1e-6,
        }
        write(
            "preflight/0/table", "".join(f"{name} proj=ok env=ok run=ok cpus=2\n" for name in names) + "interface ib0\n"
        )
        for rank in range(2 * nodes):
            host = names[rank // 2]
            write(
                f"logs/0/ddp-lab.{job_id}.{host}.{rank}.out",
                f"[rankzero] RANK={rank} LOCAL_RANK={rank % 2} WORLD_SIZE={world} NODE_RANK={rank // 2} host={host} "
                "attempt=0 master=node01:15000 interface=ib0\n",
            )
        write("work/result.json", result)
        write("work/model.pt", "weights")
        job.ended(began=now - 8)
        self.rows[str(job_id)] = self.row(student, nodes, job_id, run, now, **(recorded or {}))
        self.steps[str(job_id)] = [
            {**self.rows[str(job_id)], "JobID": f"{job_id}.{number}", "JobName": "bash", "User": "", "WorkDir": ""}
            for number in range(2)
        ]
        return run

    def row(self, student: str, nodes: int, job_id: int, run: Path, now: float, **changes: str) -> dict[str, str]:
        who = self.class_[student]
        name, key, generation = run.parts[-3:]
        return {
            **dict.fromkeys(SACCT_COLUMNS, ""),
            "JobID": str(job_id),
            "State": "COMPLETED",
            "ExitCode": "0:0",
            "Submit": f"{now - 9:.0f}",
            "Start": f"{now - 8:.0f}",
            "End": f"{now:.0f}",
            "ElapsedRaw": "8",
            "NNodes": str(nodes),
            "NodeList": f"node[01-{nodes:02d}]",
            "Account": who.account,
            "User": who.user,
            "WorkDir": str(run),
            "JobName": f"{name}.{key}.{generation}",
            **changes,
        }

    def lose_the_name(self, job_id: int, *, work_dir: bool = True) -> None:
        """As slurmdbd does that hears of the batch step first: with the only node of that. The queue knows better."""
        row = self.rows[str(job_id)]
        self.queue[str(job_id)] = {
            **dict.fromkeys(SQUEUE_COLUMNS, ""),
            **{to: row[name] for name, to in IN_SQUEUE.items()},
        }
        row.update(JobName="allocation", NodeList="node[01-01]", **({} if work_dir else {"WorkDir": ""}))

    def run(self, argv: Sequence[str], *_ignored: object) -> CommandResult:
        """Slurm's commands, as far as the check-off asks."""
        program = argv[0].rsplit("/", 1)[-1]
        self.programs.append(program)
        if program == "sacct":
            if self.accounting is not None:
                return self.accounting
            (asked,) = [word.partition("=")[2].split(",") for word in argv if word.startswith("--jobs=")]
            rows = [row for one in asked if one in self.rows for row in (self.rows[one], *self.steps[one])]
            return said("".join(FIELD.join(row[column] for column in SACCT_COLUMNS) + "\n" for row in rows))
        if program == "squeue" and self.queue:
            (asked,) = [word.partition("=")[2].split(",") for word in argv if word.startswith("--jobs=")]
            rows = [self.queue[one] for one in asked if one in self.queue]
            return said("".join(FIELD.join(row[column] for column in SQUEUE_COLUMNS) + RECORD for row in rows))
        if list(argv[1:3]) == ["show", "hostnames"]:
            spans = [part.split("-") for part in re.findall(r"node\[([0-9-]+)\]", argv[3])]
            numbers = [number for first, last in spans for number in range(int(first), int(last) + 1)]
            return said("".join(f"node{number:02d}\n" for number in numbers))
        return UNKNOWN_ID

    def without_accounting(self) -> None:
        self.accounting = NO_ACCOUNTING

    def check(self, **options: Any) -> dict[str, Any]:
        slurm = Slurm(self.run, environment={"PATH": "/usr/bin"}, which=lambda name, path: f"/usr/bin/{name}")  # type: ignore[arg-type]
        defaults = {name: option.get("default") for name, option in checkoff.ARGUMENTS.items()}
        return checkoff.check(slurm, {**defaults, "root": str(self.root), **options})


def results(checked: Mapping[str, Any], student: str) -> dict[str, str]:
    """The tasks of a student that are not passed: {"record 3": "failed", ...}."""
    (sheet,) = [one for one in checked["students"] if one["id"] == student]
    return {
        f"{task['task']} {task['nodes'] or ''}".strip(): task["result"]
        for task in sheet["tasks"]
        if task["result"] != "passed"
    }


def against(checked: Mapping[str, Any], student: str, task: str, nodes: int | None = 3) -> list[tuple[str, str]]:
    """(source, text) of what does not speak for a task."""
    (sheet,) = [one for one in checked["students"] if one["id"] == student]
    (verdict,) = [one for one in sheet["tasks"] if (one["task"], one["nodes"]) == (task, nodes)]
    return [(one["source"], one["text"]) for one in verdict["evidence"] if one["ok"] is not True]
