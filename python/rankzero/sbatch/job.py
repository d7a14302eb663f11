# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job read from a script: its spec, and a row for each thing that the script says."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from rankzero.sbatch.declared import OPTIONS

#: Options that rankzero sets itself, with what it does instead.
OURS = {
    "output": "every rank's log is kept in the run directory",
    "error": "every rank's log is kept in the run directory",
    "open-mode": "logs are appended to",
    "comment": "the comment names the launch",
    "parsable": "nothing: it is about one call of sbatch",
    "quiet": "nothing: it is about one call of sbatch",
    "verbose": "nothing: it is about one call of sbatch",
    "wait": "nothing: it is about one call of sbatch",
}
#: Options of sbatch of which each further one adds to the ones before.
ADDED = ("mail-type",)
KEPT = "kept in the script"


@dataclass(frozen=True)
class Row:
    """A row of the table: a line of the script (0: none), what it says by name and never by value, and the key of the
    job that it becomes. `why`: why it has none.
    """

    line: int
    what: str
    becomes: str = KEPT
    why: str = ""

    @property
    def kept(self) -> bool:
        """Whether only the script itself can say it."""
        return self.becomes == KEPT


@dataclass
class Job:
    """`spec`: the job as written to the file. The numbers are Slurm's, for tasks. `rows`: what became of each thing.
    `exports`: the line of each variable that the script exports. `secrets`: the values of secrets that it came to.
    """

    spec: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    exports: dict[str, int] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    nodes: int | None = None
    ntasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus: int | None = None
    output: str = ""
    #: The value of --array that a sweep can have; "" without one.
    array: str = ""

    def put(self, section: str, key: str, value: Any) -> None:
        """Set a key of a section."""
        self.spec.setdefault(section, {})[key] = value

    def get(self, section: str, key: str, default: Any = None) -> Any:
        """A key of a section."""
        return self.spec.get(section, {}).get(key, default)

    def becomes(self, line: int, what: str, key: str) -> None:
        """Note what something of the script becomes."""
        self.rows.append(Row(line, what, key))

    def keep(self, line: int, what: str, why: str) -> None:
        """Note what only the script itself can say."""
        self.rows.append(Row(line, what, KEPT, why))

    @property
    def kept(self) -> list[Row]:
        """What only the script itself can say; empty if the job says everything."""
        return [row for row in self.rows if row.kept]


def integer(text: str) -> int | None:
    """The number in an option of Slurm; None if it is not a plain number."""
    return int(text) if text.isdecimal() else None


def read_option(job: Job, line: int, name: str, value: str) -> None:
    """Read one option of the header, or one resource of the ranks' step."""
    shown = f"--{name}"
    if name in NUMBERS:
        number = integer(value)
        if number is None:
            job.keep(line, shown, "a job has a plain number here")
        else:
            setattr(job, NUMBERS[name], number)
            job.becomes(line, shown, SIZES)
    elif name == "job-name":
        job.spec["name"] = value
        job.becomes(line, shown, "name")
    elif name in ("gres", "gpus-per-node", "gpus"):
        _gpus(job, line, name, value)
    elif name in ("requeue", "no-requeue"):
        job.put("checkpoint", "requeue", name == "requeue")
        job.becomes(line, shown, "checkpoint.requeue")
    elif name == "signal":
        _signal(job, line, value)
    elif name.removeprefix("no-").startswith("container-"):
        _container(job, line, name, value)
    elif name == "export":
        exported(job, line, value)
    elif name == "array" and tasks_of(value):
        job.array = value
        job.becomes(line, shown, "sweep")
    elif name == "chdir":
        job.keep(line, shown, "a job works in its run directory; call the program from that folder")
    elif name in OURS:
        job.output = value if name == "output" else job.output
        job.becomes(line, shown, OURS[name])
    elif not _declared(job, line, name, value):
        options = job.spec.setdefault("resources", {}).setdefault("sbatch", {})
        options[name] = f"{options[name]},{value}" if name in ADDED and name in options else value or True
        job.becomes(line, shown, f"resources.sbatch.{name}")


#: Where the sizes of a step arrive.
SIZES = "resources.nodes, resources.cpus_per_rank, launcher.ranks_per_node"
NUMBERS = {
    "nodes": "nodes",
    "ntasks": "ntasks",
    "ntasks-per-node": "tasks_per_node",
    "tasks-per-node": "tasks_per_node",
    "cpus-per-task": "cpus_per_task",
}


def _declared(job: Job, line: int, name: str, value: str) -> bool:
    """Set the key of `resources` that the collection declares for an option. False if it declares none, or if the value
    is none of the key's: `--exclusive=mcs`, and `--no-kill`, which spare nodes need.
    """
    key, kind = OPTIONS.get(name, ("", ""))
    switched = kind == "switch" and value in ("", "user")
    if not key or not (switched or (kind != "switch" and value)):
        return False
    job.put("resources", key, True if switched else _listed(value) if kind == "list" else value)
    job.becomes(line, f"--{name}", f"resources.{key}")
    return True


def tasks_of(value: str) -> tuple[list[int], int | None] | None:
    """(the numbers, how many run at once) in a value of --array; None for one that no sweep can have."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch import arrays

    return arrays.tasks_of(value)


def _listed(text: str) -> list[str]:
    """Elements with commas between them, except those in brackets."""
    return re.split(r",(?![^\[]*\])", text)


def _gpus(job: Job, line: int, option: str, value: str) -> None:
    """`gpu:h100:8`, `h100:8` or `8`. Other generic resources are kept in `gres`."""
    others = []
    for part in value.split(","):
        words = part.split(":")
        if option == "gres" and words[0] != "gpu":
            others.append(part)
            continue
        kind, count = [*words[option == "gres" :], ""][:2]
        if kind.isdecimal() or not kind:
            kind, count = "", kind or "1"
        number = integer(count or "1")
        if number is None:
            job.keep(line, f"--{option}", "a job has a plain number of GPUs")
            continue
        if option == "gpus":
            job.gpus = number  # of all nodes, whose number may follow
        else:
            job.put("resources", "gpus_per_node", number)
        if kind:
            job.put("resources", "gpu_type", kind)
        job.becomes(line, f"--{option}", "resources.gpus_per_node")
    if others:
        job.put("resources", "gres", others)
        job.becomes(line, f"--{option}", "resources.gres")


def _signal(job: Job, line: int, value: str) -> None:
    match = re.fullmatch(r"(?:[BR]+:)?(?:SIG)?(\w+)@(\d+)", value)
    if match is None or match[1] not in ("TERM", "INT", "HUP", "USR1", "USR2"):
        job.keep(line, "--signal", "a job's ranks can get TERM, INT, HUP, USR1 or USR2, as USR1@SECONDS")
        return
    job.put("checkpoint", "signal_before_end", int(match[2]))
    if match[1] != "TERM":
        job.put("checkpoint", "signal", match[1])
    job.becomes(line, "--signal", "checkpoint.signal_before_end, checkpoint.signal")


def exported(job: Job, line: int, value: str) -> None:
    """`ALL,NAME=VALUE` of sbatch or srun. What of it a program gets is seen in its environment."""
    if value.split(",")[0] in ("NONE", "NIL"):
        job.keep(line, "--export", "the ranks get the variables of the job; NONE has no key")
    else:
        job.becomes(line, "--export", "env")


def _container(job: Job, line: int, name: str, value: str) -> None:
    if not container(job, name, value):
        job.keep(line, f"--{name}", "has no key in the section `container`")
        return
    if name == "container-image":
        job.put("container", "level", "job")
    job.becomes(line, f"--{name}", "container")


def container(job: Job, name: str, value: str) -> bool:
    """Read an option of pyxis. False if the job spec has no equivalent."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers import pyxis

    keys = pyxis.section(name, value)
    for key, said in (keys or {}).items():
        job.put("container", key, [mount(part) for part in value.split(",") if part] if key == "mounts" else said)
    return keys is not None


def mount(text: str) -> str:
    """A mount with its target, which may be omitted if it is the same path."""
    return text if ":" in text else f"{os.path.normpath(text)}:{os.path.normpath(text)}"
