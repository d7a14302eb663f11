# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a script with --array to a job with a sweep: each task is read alone, and what differs is a parameter.

A sweep numbers its elements itself, so a program that reads the number of its task from its environment cannot be one:
there the whole script is run in each element, which sets that number for it.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rankzero.sbatch.job import Job, tasks_of

#: The variable of a task's number, and what all variables about arrays begin with.
TASK, OF_ARRAYS = "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_"
#: The parameter with the numbers of the tasks, and the variable in which the whole script gets it.
PARAMETER, VARIABLE = "task", "TASK"
#: Files that are read for the name of the variable: larger ones, and more of them, are data.
MOST_BYTES, MOST_FILES = 1 << 20, 2000
OPTION = re.compile(r"--?([A-Za-z][\w-]*)(=?)")
PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")


def variables_of(numbers: Sequence[int], number: int) -> dict[str, str]:
    """What Slurm tells a task of an array."""
    steps = {after - before for before, after in zip(numbers, numbers[1:])} or {1}
    known = {
        "TASK_ID": number, "TASK_COUNT": len(numbers), "TASK_MIN": numbers[0], "TASK_MAX": numbers[-1],
        "TASK_STEP": min(steps),
    }  # fmt: skip
    return {f"{OF_ARRAYS}{name}": str(value) for name, value in known.items()}


def translated(value: str, of_task: Callable[[Mapping[str, str]], Job]) -> Job:
    """The job of a script with --array. of_task: the job of one task, which is told these variables."""
    (numbers, parallel) = tasks_of(value) or ([], None)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = list(pool.map(of_task, [variables_of(numbers, number) for number in numbers]))
    job = next((each for each in jobs if each.kept), jobs[0])
    if job.kept:
        return job
    found = Found([str(number) for number in numbers])
    spec = found.merged([each.spec for each in jobs], ())
    reader = _reader(spec["code"]["src"])
    if found.elsewhere:
        job.keep(0, ".".join(found.elsewhere), "differs between the tasks of --array, and is one for all of a sweep")
    elif not found.parameters:
        job.keep(0, TASK, "is no argument or other variable of the program, and has other values in a sweep")
    elif reader:
        job.keep(0, reader, f"reads {OF_ARRAYS}* itself, which has other values in a sweep")
    if job.kept:
        return job
    job.spec = spec
    _sweep(job, found.parameters, parallel)
    return job


def whole_script(job: Job, words: Sequence[str]) -> None:
    """Give a job the whole script as its program, once in each element. words: the script and its arguments."""
    (numbers, parallel) = tasks_of(job.array) or ([], None)
    kept: dict[str, Any] = {key: job.spec[key] for key in ("name", "resources", "checkpoint") if key in job.spec}
    line = shlex.join(["bash", *words])
    job.spec = {**kept, "shell": f'{TASK}="${VARIABLE}" {line}', "launcher": {"kind": "none"}}
    nodes = job.nodes or 1
    cpus = (job.cpus_per_task or 1) * (job.tasks_per_node or -(-(job.ntasks or 1) // nodes))
    sizes = {"nodes": job.nodes, "cpus_per_rank": cpus if cpus > 1 else None}
    sizes["gpus_per_node"] = job.gpus // nodes if job.gpus else None
    for key, size in sizes.items():
        if size:
            job.put("resources", key, size)
    job.spec["env"] = {VARIABLE: f"{{{PARAMETER}}}"}
    _sweep(job, {PARAMETER: [str(number) for number in numbers]}, parallel)


def _sweep(job: Job, parameters: Mapping[str, Sequence[str]], parallel: int | None) -> None:
    job.spec["sweep"] = {
        **({"method": "zip"} if len(parameters) > 1 else {}),
        "parameters": {name: list(values) for name, values in parameters.items()},
        **({"parallel": parallel} if parallel else {}),
    }


class Found:
    """What differs between the jobs of the tasks. `elsewhere`: the key of a difference that is no parameter."""

    def __init__(self, numbers: list[str]) -> None:
        self.numbers = numbers
        self.parameters: dict[str, list[str]] = {}
        self.elsewhere: tuple[str, ...] = ()

    def merged(self, values: Sequence[Any], path: tuple[str, ...]) -> Any:
        """The same part of all jobs as one, with parameters in the place of what differs."""
        first = values[0]
        if isinstance(first, dict) and all(isinstance(each, dict) and [*each] == [*first] for each in values):
            return {key: self.merged([each[key] for each in values], (*path, key)) for key in first}
        if path == ("command",) and all(len(each) == len(first) for each in values):
            before = ["", *first]
            return [self._text([each[place] for each in values], before[place], path) for place in range(len(first))]
        if path[:1] == ("env",) and len(path) == 2:
            return self._text(values, path[1], path)
        if any(each != first for each in values):
            self.elsewhere = self.elsewhere or path
        return first

    def _text(self, values: Sequence[str], before: str, path: tuple[str, ...]) -> str:
        """A word of the command, or a variable: with a parameter where the tasks have different ones."""
        if len({*values}) == 1:
            return PLACE.sub(r"{{\1}}", values[0])
        template = re.sub(rf"(?<!\d){self.numbers[0]}(?!\d)", "\0", PLACE.sub(r"{{\1}}", values[0]))
        if [template.replace("\0", number) for number in self.numbers] == [*values]:
            self.parameters.setdefault(PARAMETER, self.numbers)
            return template.replace("\0", f"{{{PARAMETER}}}")
        start, own, option = "", OPTION.match(values[0]), OPTION.fullmatch(before)
        called = option[1] if option else before if path[0] == "env" else ""
        if own and own[2] and all(value.startswith(own[0]) for value in values):
            start, called = own[0], own[1]
        return f"{start}{{{self._parameter(called, [value[len(start) :] for value in values])}}}"

    def _parameter(self, called: str, values: list[str]) -> str:
        """The parameter with these values: the one that is there, or a new one, named after its option."""
        for name, there in self.parameters.items():
            if there == values:
                return name
        base = re.sub(r"\W", "_", called).lower()
        base = base if base.isidentifier() and base not in _taken() else "value"
        name = base
        while name in self.parameters:
            name = f"{base}_{len(self.parameters)}"
        self.parameters[name] = values
        return name


def _taken() -> set[str]:
    """Names that set a field of the job, or that a sweep cannot have."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import short_names

    return {PARAMETER, *short_names()}


def _reader(folder: str) -> str:
    """A file of the code, relative to its folder, that reads the variables of an array; empty if none does. Batch
    scripts and job files are no code of a program.
    """
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.launching import launch_files

    found = []
    for path in itertools.islice(_files(folder), MOST_FILES):
        if os.path.isfile(path) and os.path.getsize(path) <= MOST_BYTES:
            with open(path, "rb") as stream:
                text = stream.read()
            if OF_ARRAYS.encode() in text and b"#SBATCH" not in text:
                found.append(os.path.relpath(path, folder))
    return min({*found} - launch_files(folder, found), default="")


def _files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(place, name) for name in names)
