# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a batch script to the text of a job file: its program as a job, or the script itself as a script job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankzero.errors import RankzeroError
from rankzero.library import importable
from rankzero.sbatch import arrays
from rankzero.sbatch.job import Job, Row
from rankzero.sbatch.options import header, launch_name, name_of
from rankzero.sbatch.recorder import OF_A_LOGIN, NoSandboxError, Script
from rankzero.sbatch.secret_words import hidden, is_secret_name, secret_words, values_in, values_of
from rankzero.sbatch.translate import translated

ORDER = (
    *("name", "seed", "resources", "launcher", "setup", "command", "shell", "script", "script_args", "code"),
    *("environment", "container", "env", "secrets", "checkpoint", "monitor", "logs"),
)
#: The shells that bash can stand for while a script is recorded.
BASH = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-S\s+)?)?(?:\S*/)?(?:ba)?sh(?:\s.*)?")
#: What a script in a step cannot start.
STARTS_STEPS = re.compile(r"\b(?:srun|mpirun|mpiexec|sbcast)\b")
EXPORT = re.compile(r"\b(?:export|setenv|(?:declare|typeset)\s+-\w*x\w*)\s+([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Converted:
    """The job file of a script. `notes`: what the user should know at once; `rows`: what became of each thing."""

    name: str
    text: str
    notes: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Asked:
    """What a script needs to run: its arguments, and values of variables."""

    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None


def converted(path: str, folder: str, asked: Asked | None = None) -> Converted:
    """Convert a script. `folder`: the folder of the job file, to which its paths are relative. Raises RankzeroError."""
    asked = asked or Asked()
    text = _read(path)
    for name in secret_words(list(asked.arguments)):
        raise RankzeroError(f"--arg: {name} is a secret, which would be written into the job file; use a variable")
    folder = os.path.abspath(folder)
    script = Script(text, submitted_from(os.path.abspath(path)), asked.arguments, dict(asked.variables or {}))
    secrets = values_in(text) | values_of(script.given.items())
    job = job_of(script, os.path.basename(path))
    secrets |= job.secrets
    _given(job.spec, script)
    spec = _relative(job.spec, folder)
    if not job.kept:
        for problem in _problems(spec, folder):
            job.keep(0, "the job", problem)
    job.rows = [replace(row, what=hidden(row.what, secrets), why=hidden(row.why, secrets)) for row in job.rows]
    if not job.kept and any(value in _text(spec, path, []) for value in secrets):
        job.keep(0, "the job", "would show the value of a secret: give it as a variable that is named as one")
    if not job.kept:
        return Converted(spec["name"], _text(spec, path, job.rows), _notes(path, job, []), job.rows)
    try:
        return _script_in_array(script, path, folder, job) or _script_job(script, path, folder, job)
    except RankzeroError as error:
        raise RankzeroError(hidden(str(error), secrets)) from None


def submitted_from(path: str) -> str:
    """The folder in which sbatch would start a script, as for a launch of it: the current one where the script is below
    it. Else, and where the current one contains a home, whose files are no code, that of the script.
    """
    here, home = os.getcwd(), os.path.expanduser("~")
    if os.path.commonpath([here, path]) == here != os.path.commonpath([here, home]):
        return here
    return os.path.dirname(path)


def job_of(script: Script, name: str) -> Job:
    """The job that a script describes; what only the script itself can say is in its `kept`."""
    if not BASH.fullmatch(script.text.partition("\n")[0].strip()):
        job = Job()
        job.keep(1, "the script", "only a script of bash is recorded")
    else:
        try:
            job = translated(script)
        except NoSandboxError as error:
            job = Job()
            job.keep(0, "the script", f"was not recorded: {error}")
    job.spec["name"] = launch_name(job.spec.get("name") or name_of(script.text) or name.partition(".")[0], "train")
    if job.spec.get("container", {}).get("level") and job.spec["container"].get("runtime") != "pyxis":
        del job.spec["container"]["level"]
    if "%t" in job.output or "%n" in job.output:
        job.put("logs", "style", "slurm")
    return job


def _read(path: str) -> str:
    """The text of a script. Raises RankzeroError, with the line, for what sbatch itself would not take."""
    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script

    try:
        with open(path, encoding="utf-8", newline="") as stream:
            script = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RankzeroError(f"--from {path}: the script cannot be read: {error}") from None
    problem = batch_script.problem(script)
    if problem:
        raise RankzeroError(f"--from {path}: line 1: {problem}")
    return script


def _given(spec: dict[str, Any], script: Script) -> None:
    """Set the variables that the user has given: under sbatch, the script and its programs get those of his shell."""
    known = values_in(script.text)
    for name, value in script.given.items():
        if name in OF_A_LOGIN or name in {*spec.get("env", {}), *spec.get("secrets", {})}:
            continue
        if is_secret_name(name) or value in known or hidden(value, ()) != value:
            spec.setdefault("secrets", {})[name] = {"from_env": name}
        else:
            spec.setdefault("env", {})[name] = value


def _exported(text: str, job: Job, rows: Sequence[Row]) -> list[Row]:
    """What is kept in the script of the variables that it exports, less those in `rows`."""
    exports = {match[1]: number for number, line in enumerate(text.split("\n"), 1) for match in EXPORT.finditer(line)}
    named = {row.what for row in rows}
    return [Row(line, name) for name, line in {**exports, **job.exports}.items() if name not in named]


def _script_job(script: Script, path: str, folder: str, job: Job) -> Converted:
    """The script as it is, as a job. Raises RankzeroError with every line for which a launch cannot take it."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script

    problems = batch_script.read_header(script.text).problems
    if problems:
        listed = "\n".join(f"  line {line}: {sentence}" for line, sentence in problems)
        kept = "\n".join(f"  {_shown(row)}" for row in job.kept[:5])
        raise RankzeroError(f"--from {path}: a launch cannot run this script as it is:\n{listed}\nas a job:\n{kept}")
    spec: dict[str, Any] = {"name": job.spec["name"], "script": os.path.relpath(path, folder)}
    if script.arguments:
        spec["script_args"] = list(script.arguments)
    spec["code"] = {"src": os.path.relpath(script.folder, folder)}
    _given(spec, script)
    wrong = "\n".join(f"  {_with_line(problem, script.text)}" for problem in _problems(spec, folder))
    if wrong:
        raise RankzeroError(f"--from {path}: a launch cannot run this script as it is:\n{wrong}")
    rows = [row if row.kept else Row(row.line, row.what) for row in job.rows if row.kept or row.what[:2] != "--"]
    rows = [*_of_header(script.text), *rows, *_exported(script.text, job, rows)]
    return Converted(spec["name"], _text(spec, path, rows), _notes(path, job, job.kept), rows)


def _script_in_array(script: Script, path: str, folder: str, job: Job) -> Converted | None:
    """The script with --array as the program of a sweep; None unless that is the only thing for which it is no script
    job, and it starts no steps: one in a step of its own may not start.
    """
    inside = os.path.relpath(path, script.folder)
    options = {(line, f"--{name}") for line, name, _value in header(script.text)[0]}
    if (
        not job.array
        or not BASH.fullmatch(script.text.partition("\n")[0].strip())
        or inside.startswith("..")
        or STARTS_STEPS.search(script.text)
        or [sentence for _line, sentence in header(script.text)[1]]
        or any(row.kept and (row.line, row.what) in options for row in job.rows)
    ):
        return None
    arrays.whole_script(job, [inside, *script.arguments])
    job.spec["code"] = {"src": script.folder}
    _given(job.spec, script)
    spec = _relative(job.spec, folder)
    secrets = values_in(script.text) | values_of(script.given.items()) | job.secrets
    if _problems(spec, folder) or any(value in _text(spec, path, []) for value in secrets):
        return None
    rows = [row if (row.line, row.what) in options or row.kept else Row(row.line, row.what) for row in job.rows]
    rows += _exported(script.text, job, rows)
    return Converted(spec["name"], _text(spec, path, rows), _notes(path, job, job.kept), rows)


def _with_line(problem: str, text: str) -> str:
    """A mistake in a script job with the line of the option that it is about; the first line if it is about several."""
    place = re.search(r" \(set in [^()]*:(\d+)\)$", problem)
    lines = [line for line, name, _value in header(text)[0] if name in problem]
    number = place[1] if place else str((lines or [1])[0])
    return f"line {number}: {problem[: place.start()] if place else problem}"


def _of_header(text: str) -> list[Row]:
    """What each option of a header becomes in a script job: as the launch itself reads it."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script

    rows = []
    for line, name, value in header(text)[0]:
        alone = batch_script.read_header(f"#!/bin/sh\n#SBATCH --{name}{f'={_quoted(value)}' if value else ''}\n")
        paths = ", ".join(alone.lines) or "nothing: it is about one call of sbatch"
        rows.append(Row(line, f"--{name}", paths))
    return rows


def _quoted(value: str) -> str:
    return re.sub(r"([\s\"'\\#])", r"\\\1", value)


def _problems(spec: Mapping[str, Any], folder: str) -> list[str]:
    """Why `rankzero plan` would refuse a job."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError as Refused
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job

    try:
        read_job(dict(spec), {}, {}, {}, folder)
    except Refused as error:
        return list(getattr(error, "problems", [])) or [str(error)]
    return []


def _relative(spec: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The spec with its keys in order, and with paths relative to the job file."""
    spec = {**{key: spec[key] for key in ORDER if key in spec}, **spec}
    if "src" in spec.get("code", {}):
        source = os.path.relpath(spec["code"]["src"], folder)
        spec["code"] = {"src": source}
        if spec.get("environment", {}).get("mode") == "venv":
            spec["environment"] = {"mode": "venv", "project": source}
    return spec


def _notes(path: str, job: Job, kept: list[Row]) -> list[str]:
    """What the user should know at once."""
    if kept:
        how = "in each element of a sweep" if job.array else "a script job"
        notes = [f"the script runs as it is ({how}), because of what a job file cannot say:"]
        notes += [f"  {_shown(row)}" for row in kept[:8]]
        return notes + (["  ... see the table at the end of the file"] if len(kept) > 8 else [])
    notes = ["every line of the script is in the job: see the table at the end of the file"]
    if job.spec.get("secrets"):
        notes.append(f"export {', '.join(job.spec['secrets'])} before you run it")
    return notes


def _shown(row: Row) -> str:
    where = f"line {row.line}: " if row.line else ""
    return f"{where}{row.what} -> {row.becomes}{f': {row.why}' if row.why else ''}"


def _text(spec: Mapping[str, Any], path: str, rows: list[Row]) -> str:
    script = os.path.basename(path)
    parts = [f"# Read from {script}. Every key is described in docs/job-spec.md. Paths are relative to this file."]
    for key, value in spec.items():
        line = f"{key}: {_flow(value)}"
        if isinstance(value, dict) and len(line) > 90:
            parts += [f"{key}:", *(f"  {name}: {_flow(item)}" for name, item in value.items())]
        else:
            parts.append(line)
    parts.append("# artifact: {path: result.json, then: end}   # the file that proves success")
    parts += [f"\n# What became of each part of {script}:"] if rows else []
    parts += list(dict.fromkeys(f"# {_shown(row)}" for row in sorted(rows, key=lambda row: row.line)))
    return "\n".join(parts) + "\n"


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, width=10_000, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")
