# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job read from a script: its spec, and comments about everything else."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from rankzero.sbatch.declared import OPTIONS
from rankzero.sbatch.text import names

#: Options that rankzero sets itself, with what it does instead.
OURS = {
    "output": "every rank's log is kept in the run directory",
    "error": "every rank's log is kept in the run directory",
    "open-mode": "logs are appended to",
    "chdir": "the ranks run in the run directory",
    "export": "the ranks get the variables of the job",
    "comment": "the comment names the launch",
    "parsable": "",
}
#: Options of the ranks' step that rankzero sets itself.
OUR_STEP = names(
    "label output error export kill-on-bad-exit cpu-bind wait unbuffered jobid overlap exact open-mode no-kill "
    "chdir mem time distribution"
)


@dataclass
class Job:
    """`spec`: the job as written to the file. The numbers are Slurm's, for tasks. The lists become comments."""

    spec: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    not_understood: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    ntasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    output: str = ""
    awaited: str = ""

    def put(self, section: str, key: str, value: Any) -> None:
        """Set a key of a section."""
        self.spec.setdefault(section, {})[key] = value

    def get(self, section: str, key: str, default: Any = None) -> Any:
        """A key of a section."""
        return self.spec.get(section, {}).get(key, default)

    def unknown(self, line: int, text: str, why: str = "") -> None:
        """Keep what is not understood as a comment."""
        first, *rest = text.splitlines() or [""]
        self.not_understood += [
            f"line {line}: {first}{f'  ({why})' if why else ''}",
            *(f"    {rest_line}" for rest_line in rest),
        ]

    def covered(self, line: int, what: str, instead: str) -> None:
        """Record something that a job does not need."""
        self.left_out.append(f"line {line}: {what}: {instead}")


def integer(text: str) -> int | None:
    """The number in an option of Slurm; None if it is not a plain number."""
    return int(text) if text.isdecimal() else None


def take(job: Job, line: int, name: str, value: str) -> None:
    """Read one option of the header, or one resource of the ranks' step."""
    if name in NUMBERS or name in WORDS:
        {**NUMBERS, **WORDS}[name](job, value)
    elif name in ("gres", "gpus-per-node", "gpus"):
        _gpus(job, line, name, value)
    elif name in ("requeue", "no-requeue"):
        job.put("checkpoint", "requeue", name == "requeue")
    elif name == "signal":
        _signal(job, line, value)
    elif name.removeprefix("no-").startswith("container-"):
        if not container(job, name, value):
            job.unknown(line, f"--{name}={value}")
        elif name == "container-image":
            job.put("container", "level", "job")
    elif name in OURS:
        job.output = value if name == "output" else job.output
        if OURS[name]:
            job.covered(line, f"--{name}={value}", OURS[name])
    elif name == "array":
        job.unknown(line, f"--{name}={value}", "a job array; see the section `sweep` of the job spec")
    elif not _declared(job, name, value):
        job.spec.setdefault("resources", {}).setdefault("sbatch", {})[name] = value or True


def _declared(job: Job, name: str, value: str) -> bool:
    """Set the key of `resources` that the collection declares for an option. False if it declares none, or if the value
    is none of the key's: `--exclusive=mcs`, and `--no-kill`, which spare nodes need.
    """
    key, kind = OPTIONS.get(name, ("", ""))
    switched = kind == "switch" and value in ("", "user")
    if not key or not (switched or (kind != "switch" and value)):
        return False
    job.put("resources", key, True if switched else _listed(value) if kind == "list" else value)
    return True


def _listed(text: str) -> list[str]:
    """Elements with commas between them, except those in brackets."""
    return re.split(r",(?![^\[]*\])", text)


def _nodes(job: Job, value: str) -> None:
    job.put("resources", "nodes", integer(value.partition("-")[0]) or 1)


def _tasks(job: Job, value: str) -> None:
    job.ntasks = integer(value)


def _tasks_per_node(job: Job, value: str) -> None:
    job.tasks_per_node = integer(value)


def _cpus(job: Job, value: str) -> None:
    job.cpus_per_task = integer(value)


NUMBERS = {"nodes": _nodes, "ntasks": _tasks, "ntasks-per-node": _tasks_per_node, "cpus-per-task": _cpus}


def _name(job: Job, value: str) -> None:
    job.spec["name"] = value


WORDS = {"job-name": _name}


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
        if option == "gpus" and number is not None:
            number = number // max(1, int(job.get("resources", "nodes", 1)))
        if number is None:
            job.unknown(line, f"--{option}={value}")
            continue
        job.put("resources", "gpus_per_node", number)
        if kind:
            job.put("resources", "gpu_type", kind)
    if others:
        job.put("resources", "gres", others)


def _signal(job: Job, line: int, value: str) -> None:
    match = re.fullmatch(r"(?:[BR]+:)?(?:SIG)?(\w+)@(\d+)", value)
    if match is None or match[1] not in ("TERM", "INT", "HUP", "USR1", "USR2"):
        job.unknown(line, f"--signal={value}")
        return
    job.put("checkpoint", "signal_before_end", int(match[2]))
    if match[1] != "TERM":
        job.put("checkpoint", "signal", match[1])


def container(job: Job, name: str, value: str) -> bool:
    """Read an option of pyxis. False if the job spec has no equivalent."""
    switches = {
        "container-remap-root": ("remap_root", True),
        "no-container-remap-root": ("remap_root", False),
        "container-mount-home": ("mount_home", True),
        "no-container-mount-home": ("mount_home", False),
        "container-writable": ("writable", True),
        "container-readonly": ("writable", False),
    }
    if name == "container-image":
        job.put("container", "runtime", "pyxis")
        job.put("container", "image", value)
    elif name == "container-mounts":
        job.put("container", "mounts", [mount(part) for part in value.split(",") if part])
    elif name == "container-workdir":
        job.put("container", "workdir", value)
    elif name == "container-env":
        job.put("container", "env", value.split(","))
    elif name in switches:
        job.put("container", *switches[name])
    else:
        return name == "no-container-entrypoint"
    return True


def mount(text: str) -> str:
    """A mount with its target, which may be omitted if it is the same path."""
    return text if ":" in text else f"{os.path.normpath(text)}:{os.path.normpath(text)}"
