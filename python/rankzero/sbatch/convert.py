# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert a complete script to the text of a job file."""

from __future__ import annotations

import copy
import os
import textwrap
from dataclasses import dataclass
from typing import Any

from rankzero.errors import RankzeroError
from rankzero.sbatch import step as steps
from rankzero.sbatch.body import Body
from rankzero.sbatch.job import Job, take
from rankzero.sbatch.options import header, launch_name
from rankzero.sbatch.step import Step
from rankzero.sbatch.text import Command, commands, words

ORDER = (
    *("name", "seed", "resources", "launcher", "setup", "command", "shell", "code", "environment", "container"),
    *("env", "secrets", "checkpoint", "monitor", "logs"),
)


@dataclass(frozen=True)
class Converted:
    """The job file of a script. `notes`: what the user should know at once."""

    name: str
    text: str
    notes: list[str]


def converted(path: str, folder: str) -> Converted:
    """Convert a script. `folder`: the folder of the job file, to which its paths are relative."""
    try:
        with open(path, encoding="utf-8") as stream:
            script = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RankzeroError(f"--from {path}: the script cannot be read: {error}") from None
    job = job_of(script, os.path.basename(path))
    source = os.path.relpath(os.path.dirname(os.path.abspath(path)), os.path.abspath(folder))
    job.spec["code"] = {"src": source}
    if job.spec.get("environment", {}).get("mode") == "venv":
        job.spec["environment"]["project"] = source
    lines = sum(1 for line in job.not_understood if line.startswith("line "))
    notes = [f"{lines} parts of {path} were not understood: they stand at the end of the file"] if lines else []
    if job.spec.get("secrets"):
        notes.append(f"export {', '.join(job.spec['secrets'])} before you run it")
    return Converted(job.spec["name"], _text(job, os.path.basename(path)), notes)


def job_of(script: str, name: str = "train.sbatch") -> Job:
    """The job that a script describes. Raises RankzeroError if it starts no program."""
    job = Job()
    values, problems = header(script)
    for given in values:
        take(job, *given)
    for line, sentence in problems:
        job.unknown(line, sentence)
    if job.spec.get("container", {}).get("level") and job.spec["container"].get("runtime") != "pyxis":
        del job.spec["container"]["level"]
    job.spec["name"] = launch_name(job.spec.get("name") or name.partition(".")[0], "train")
    if "%t" in job.output or "%n" in job.output:
        job.put("logs", "style", "slurm")
    body = Body(job)
    for command in commands(script):
        body.take(command)
    _start(job, body.steps)
    body.finish()
    return job


def _start(job: Job, body: list[tuple[Command, Step]]) -> None:
    """Choose the step of the ranks: the last one that starts a program on all nodes. The others prepare or inspect."""
    ranks = [pair for pair in body if _is_ranks(pair[1])]
    if not ranks:
        raise RankzeroError(
            "no line of the script starts a program: expected srun, torchrun, accelerate launch, deepspeed or python"
        )
    chosen = ranks[-1]
    for command, step in body:
        if step is chosen[1]:
            _inside(job, step)
            steps.apply(job, step)
        elif step.program[:2] == ["uv", "sync"] or "uv sync" in step.shell:
            job.spec["environment"] = {"mode": "venv", "project": ".."}
            job.covered(command.line, "a step that prepares the environment", "built once, before the job")
        elif step.program[:1] == ["nvidia-smi"]:
            job.put("monitor", "gpu", 15)
            job.covered(command.line, "nvidia-smi", "monitor.gpu")
        elif step.program[:1] and step.program[0] in ("hostname", "echo", "date", "true"):
            job.covered(command.line, command.text, "the preflight shows every node")
        elif "import " in command.text or "proj=" in command.text or "pkgs=" in command.text:
            job.covered(command.line, "a check of every node", "preflight")
        else:
            job.unknown(command.line, command.text)


def _is_ranks(step: Step) -> bool:
    if step.by:
        return True
    if step.shell:
        inner = steps.read(step.line, words(step.shell))
        return ("python" in step.shell and "import " not in step.shell) or bool(inner.by)
    return (
        bool(step.program)
        and (step.program[0].endswith(".py") or step.program[0] == "python")
        and "-c" not in step.program
    )


def _inside(job: Job, step: Step) -> None:
    """Read the line in `srun bash -c "export A=1; python train.py"` like the script, if it is simple enough."""
    if not step.shell:
        return
    attempt = copy.deepcopy(job)
    body = Body(attempt)
    for command in commands(step.shell):
        body.take(Command(step.line, command.text, command.block))
    starts = [start for _line, start in body.steps if _is_ranks(start)]
    understood = attempt.not_understood == job.not_understood and not body.commands and not body.modules
    if len(starts) == 1 and understood:
        job.__dict__.update(attempt.__dict__)
        inner = starts[0]
        step.by, step.launcher, step.program, step.shell = inner.by, inner.launcher, inner.program, inner.shell
        step.image = step.image or inner.image


def _text(job: Job, script: str) -> str:
    spec = {key: job.spec[key] for key in ORDER if key in job.spec}
    spec.update({key: value for key, value in job.spec.items() if key not in spec})
    parts = [f"# Read from {script}. Every key is described in docs/job-spec.md. Paths are relative to this file."]
    for key, value in spec.items():
        line = f"{key}: {_flow(value)}"
        if isinstance(value, dict) and len(line) > 90:
            parts += [f"{key}:", *(f"  {name}: {_flow(item)}" for name, item in value.items())]
        else:
            parts.append(line)
    if not job.spec.get("artifact"):
        parts += _comment(
            "", [f"artifact: {{path: {job.awaited or 'result.json'}, then: end}}   # the file that proves success"]
        )
    if job.left_out:
        parts += _comment("\n# Not needed any more:", job.left_out)
    if job.not_understood:
        parts += _comment("\n# Not understood, and not part of this job:", job.not_understood)
    return "\n".join(parts) + "\n"


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, width=10_000, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _comment(title: str, lines: list[str]) -> list[str]:
    wrapped = [
        part
        for line in lines
        for part in textwrap.wrap(line, 116, subsequent_indent="      ", drop_whitespace=False) or [""]
    ]
    return [*([title] if title else []), *(f"# {line.rstrip()}" for line in wrapped)]
