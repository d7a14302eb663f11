# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From two recordings of a script to a job: the one program, its step and its environment."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rankzero.sbatch import arrays
from rankzero.sbatch import step as steps
from rankzero.sbatch.explain import NO_PROGRAMS, OF_THE_NODE, UNKNOWN, Body, unknown
from rankzero.sbatch.job import Job, read_option, tasks_of
from rankzero.sbatch.lines import Piece
from rankzero.sbatch.options import header, names
from rankzero.sbatch.recorder import LISTS, PATH, Allocation, Call, Recording, Script, recorded
from rankzero.sbatch.secret_words import is_secret_name, secret_variables, secret_words, values_of
from rankzero.sbatch.step import Step

#: Variables that rankzero sets for every rank.
RANK_VARIABLES = names("MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK NODE_RANK LOCAL_WORLD_SIZE PYTHONUNBUFFERED")
#: Other names of scripts for the address of the first node.
ADDRESSES = names("HEAD_NODE HEAD_NODE_IP RDZV_ENDPOINT")
#: Sizes that follow from the job (`-n 8`), by the names that scripts give them -> the variable of the job.
COUNTS = {"NNODES": "NODES", "NUM_NODES": "NODES", "GPUS_PER_NODE": "GPUS_PER_NODE"}
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
#: What every shell changes.
OF_THE_SHELL = ("_", "SHLVL", "PWD", "OLDPWD", "BASH_ENV")
EXPORTED = re.compile(r",(?=[A-Za-z_]\w*(?:=|,|$))")
ARGUMENT = re.compile(r"\$[1-9]|\$\{[1-9][}:#%/^]")
DEFAULT = re.compile(r"\$\{[1-9]:?-")
PATTERN = re.compile(r"[*?]|\[.+\]")
#: The value of a variable or of an element, which may be within another one: its brackets are no pattern.
EXPANSION = re.compile(r"\$\{[^{}]*\}")
#: How often nvidia-smi prints, in seconds.
LOOP = re.compile(r"\s(?:--loop[= ]|-l ?|-d ?|-lms? ?)(\d+)")
#: The first word of a step that only prints.
SHOWS = names("hostname echo date true nvidia-smi rocm-smi")


@dataclass(frozen=True)
class Pair:
    """The same call in two recordings, and the environments in which these began."""

    calls: tuple[Call, Call]
    bases: tuple[Mapping[str, str], Mapping[str, str]]


def translated(script: Script) -> Job:
    """The job that a script describes; what only the script itself can say is in `kept`. Raises NoSandboxError."""
    value = next((value for _line, name, value in reversed(header(script.text)[0]) if name == "array"), "")
    if value and tasks_of(value):
        return arrays.translated(value, lambda known: _translated(script, known))
    return _translated(script, {})


def _translated(script: Script, of_array: Mapping[str, str]) -> Job:
    """of_array: the variables of a task of an array."""
    job = Job()
    values, problems = header(script.text)
    for given in values:
        read_option(job, *given)
    for line, _sentence in problems:
        job.keep(line, "#SBATCH", "is no option of sbatch")
    allocation = allocation_of(job, values)
    allocation = replace(allocation, others={**allocation.others, **of_array})
    scripts = (script, script)
    pair, body = _recorded(job, scripts, allocation)
    if pair is None or body is None:
        return job
    line = body.programs[0].line
    step, second = (steps.read(line, call.words) for call in pair.calls)
    step.direct, step.alone = pair.calls[0].words[0] != "srun", not values
    pair = _with_variables(pair, step, second)
    if step.shell or second.shell:
        pair, step, second = _inside(job, pair, (step, second), allocation)
    _compare(job, step, second)
    _patterns(job, body.programs[0], step)
    _environment(job, body, pair)
    _folder(job, script, step, pair)
    if step.of_project:
        if body.has_project:
            body.project()
        else:
            job.keep(line, "uv run", "there is no pyproject.toml where the script starts")
    if body.commands:
        job.put("setup", "commands", body.commands)
    steps.apply(job, step)
    _of_this_machine(job, script, [*step.program, step.shell, *body.commands])
    for name in script.defaults():
        job.becomes(0, name, f"its default in the script; for another value, --set {name}=VALUE")
    hidden = {*secret_words([*step.program, *step.shell.split()]), *secret_variables(body.programs[0].words)}
    for name in sorted(hidden):
        job.keep(line, name, "is a secret: give the program a variable instead, and the job `secrets`")
    return job


def allocation_of(job: Job, values: list[tuple[int, str, str]]) -> Allocation:
    """The allocation that a header asks for."""
    nodes = job.nodes or (-(-job.ntasks // job.tasks_per_node) if job.ntasks and job.tasks_per_node else 1)
    gpus = job.get("resources", "gpus_per_node") or (job.gpus or 0) // nodes
    tasks = job.ntasks or (job.tasks_per_node * nodes if job.tasks_per_node else None)
    others: dict[str, str] = {}
    exported: dict[str, str] = {}
    for _line, name, value in values:
        if name == "export":
            exported.update(exports(value))
        elif name in ("gpus-per-node", "gpus"):
            others[f"SLURM_{name.upper().replace('-', '_')}"] = value
        elif name in ("partition", "account", "qos"):
            others[f"SLURM_JOB_{name.upper()}"] = value
    return Allocation(
        nodes=min(nodes, 99),
        gpus=min(gpus, 64),
        tasks=tasks,
        tasks_per_node=job.tasks_per_node,
        cpus_per_task=job.cpus_per_task,
        name=str(job.spec.get("name", "job")),
        others=others,
        exports=exported,
    )


def exports(value: str) -> dict[str, str]:
    """The variables in a value of --export."""
    pairs = (part.partition("=") for part in EXPORTED.split(value))
    return {name: text for name, equals, text in pairs if equals}


def _recorded(job: Job, scripts: tuple[Script, Script], allocation: Allocation) -> tuple[Pair | None, Body | None]:
    """Record the same script twice, and read it. (None, None) unless exactly one program was called."""
    first = recorded(scripts[0], allocation, 1)
    second = first if first.code < 0 else recorded(scripts[1], allocation, 2)
    for call in (*first.calls, *second.calls):
        job.secrets |= values_of(call.environment.items())
    body = Body(job, (first, second), os.path.isfile(os.path.join(scripts[0].folder, "pyproject.toml")))
    if not first.parsed.startswith("rankzero_script ()"):
        job.keep(1, "the script", "bash cannot read it")
        return None, None
    body.read(first.parsed, scripts[0].text)
    _how_it_ended(job, scripts[0], first)
    programs = tuple(_programs(recording) for recording in (first, second))
    if not len(programs[0]) == len(programs[1]) == len(body.programs):
        seen = f"{len(programs[0])} and {len(programs[1])} were called, and {len(body.programs)} stand in the script"
        job.keep(0, "programs", seen)
        return None, None
    programs = tuple(_in_order(body, calls) for calls in programs)
    shown = [number for number, call in enumerate(programs[0]) if _shows(job, body.programs[number].line, call)]
    left = [number for number in range(len(programs[0])) if number not in shown]
    if len(left) != 1:
        for number in left:
            words = programs[0][number].words
            job.keep(body.programs[number].line, f"a step of {words[0]}", "a job has one program")
        if not left:
            job.keep(0, "the script", "starts no program that was seen")
        return None, None
    body.programs = [body.programs[left[0]]]
    if body.programs[0].after == "&" and not body.waits:
        job.keep(body.programs[0].line, "&", "the script does not wait for its program")
    bases = [script.environment(allocation, number) for number, script in enumerate(scripts, 1)]
    own = [{name: value for name, value in base.items() if name not in allocation.exports} for base in bases]
    return Pair((programs[0][left[0]], programs[1][left[0]]), (own[0], own[1])), body


def _in_order(body: Body, calls: list[Call]) -> list[Call]:
    """The calls in the order of their commands: what runs in the background is written down at any time."""
    left, ordered = list(calls), []
    for piece in body.programs:
        words = {word.strip("\"'") for word in piece.words}
        ordered.append(max(left, key=lambda call: len(words & {*call.words})))
        left.remove(ordered[-1])
    return ordered


def _how_it_ended(job: Job, script: Script, recording: Recording) -> None:
    bare = DEFAULT.sub("", re.sub(r"'[^']*'", "", recording.parsed))
    if ARGUMENT.search(bare) and not script.arguments:
        job.keep(0, "$1", "an argument of the script is not known; give it with --arg")
    if recording.ended and recording.code < 0:
        job.keep(0, "the script", f"its recording was ended: too much {recording.ended}")
    elif recording.code < 0:
        job.keep(0, "the script", "waits for something that did not come while it was recorded")
    elif recording.code:
        job.keep(0, "the script", f"its recording ended with exit code {recording.code}; give variables with --set")


def _programs(recording: Recording) -> list[Call]:
    """The calls that are programs of the job. A Python that is asked for a number is none."""
    return [
        call
        for call in recording.calls
        if call.words[0] not in NO_PROGRAMS
        and not (call.piped and call.words[0].startswith("python") and "-c" in call.words)
    ]


def _shows(job: Job, line: int, call: Call) -> bool:
    """Whether a step only prints something about its nodes: it is noted what a job does instead."""
    program = steps.read(line, call.words).program if call.words[0] == "srun" else []
    if program[:1] == [] or program[0] not in SHOWS:
        return False
    period = LOOP.search(" ".join(program))
    if period and program[0] == "nvidia-smi":
        job.put("monitor", "gpu", int(period[1]))
        job.becomes(line, "a step that samples the GPUs", "monitor.gpu")
    elif period:
        return False
    else:
        job.becomes(line, "a step that prints", "the preflight shows every node")
    return True


def _with_variables(pair: Pair, step: Step, second: Step) -> Pair:
    """The calls with the variables that `srun --export` and `env` add."""
    calls = tuple(
        replace(call, environment={**call.environment, **exports(each.srun.get("export", "")), **each.variables})
        for call, each in zip(pair.calls, (step, second))
    )
    return replace(pair, calls=(calls[0], calls[1]))


def _inside(job: Job, pair: Pair, both: tuple[Step, Step], allocation: Allocation) -> tuple[Pair, Step, Step]:
    """Record the line of `srun bash -c LINE` as two ranks of two jobs would run it. If that is one program as well, the
    program is the job's; else the line is its `shell`.
    """
    step, second = both
    of_ranks = [dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), str(rank)) for rank in (0, 1)]
    scripts = tuple(
        Script(f"#!/bin/bash\n{each.shell}\n", call.folder, inherited={**call.environment, **ranks})
        for call, each, ranks in zip(pair.calls, both, of_ranks)
    )
    attempt = copy.deepcopy(job)
    inner, body = _recorded(attempt, (scripts[0], scripts[1]), allocation)
    if (
        inner is not None
        and body is not None
        and not body.commands
        and not body.modules
        and len(attempt.kept) == len(job.kept)
    ):
        mine, its = (steps.read(step.line, call.words) for call in inner.calls)
        trial = copy.deepcopy(attempt)
        _compare(trial, mine, its)
        if len(trial.kept) == len(job.kept) and not mine.shell and not mine.srun and not mine.around:
            job.spec, job.rows = attempt.spec, [*job.rows]
            mine.srun, mine.direct, mine.alone = step.srun, step.direct, step.alone
            mine.image = mine.image or step.image
            mine_base, its_base = ({**base, **ranks} for base, ranks in zip(pair.bases, of_ranks))
            pair = Pair(inner.calls, (mine_base, its_base))
            return _with_variables(pair, mine, its), mine, replace(its, srun=second.srun)
    return pair, step, second


def _compare(job: Job, step: Step, second: Step) -> None:
    """What differs between the two recordings depends on what no job file can say, except how the ranks meet."""
    for name in sorted({*step.srun, *second.srun}):
        if step.srun.get(name) != second.srun.get(name) and name not in ("jobid", "export"):
            job.keep(step.line, f"srun --{name}", unknown(step.srun.get(name, "")))
    for name in sorted({*step.launcher, *second.launcher} - steps.MEETING):
        if step.launcher.get(name) != second.launcher.get(name):
            job.keep(step.line, f"--{name}", unknown(step.launcher.get(name, "")))
    for mine, its, what in ((step.program, second.program, "the program"), ([step.shell], [second.shell], "the line")):
        if mine != its:
            differing = " ".join(word for word, other in zip(mine, [*its, *[""] * len(mine)]) if word != other)
            job.keep(step.line, what, unknown(differing))
    if step.image != second.image or step.environment != second.environment:
        job.keep(step.line, "the program", unknown(str(step.image) + step.environment))


def _of_this_machine(job: Job, script: Script, words: list[str]) -> None:
    """The path of the folder of the code means nothing on the cluster, where the code is in another one."""
    for what, value in {"the program or its set-up": "\n".join(words), **job.spec.get("env", {})}.items():
        if script.folder in value and script.folder not in script.text:
            job.keep(0, what, "has the path of the folder where the script starts, which is another one on the cluster")


def _patterns(job: Job, piece: Piece, step: Step) -> None:
    """A pattern of files is replaced by their names where the script runs, and nobody knows these here."""
    bare = EXPANSION.sub("", EXPANSION.sub("", re.sub(r"\\.|'[^']*'|\"[^\"]*\"", "", piece.text)))
    words = [word for word in step.program if PATTERN.search(word) and word not in piece.text]
    if PATTERN.search(bare) or (words and "$" in piece.text):
        job.keep(step.line, "a pattern of files", "its files are known only where the script runs")


def _environment(job: Job, body: Body, pair: Pair) -> None:
    """The variables that the program gets and the script began without."""
    (mine, its), (base, other) = (call.environment for call in pair.calls), pair.bases
    removed = [name for name in base if name not in mine and name not in OF_THE_SHELL and not name.startswith("SLURM_")]
    for name in sorted({*removed} - {*body.exports}):
        job.keep(0, name, "is taken away from the program")
    changed = {name for name in mine if mine[name] != base.get(name) and name not in OF_THE_SHELL}
    changed |= {name for name in its if its[name] != other.get(name) and name not in OF_THE_SHELL}
    for name in sorted({*changed, *body.exports}):
        line = body.exports.get(name, 0)
        if name not in changed:
            job.becomes(line, name, "nothing: the program gets it as it was")
        else:
            _variable(job, body, (line, name), (mine.get(name, ""), its.get(name, "")), base.get(name, ""))


def _variable(job: Job, body: Body, place: tuple[int, str], values: tuple[str, str], before: str) -> None:
    (line, name), (value, other) = place, values
    if is_secret_name(name):
        job.put("secrets", name, {"from_env": name})
        job.becomes(line, name, f"secrets.{name}: read from your environment")
    elif name in RANK_VARIABLES:
        job.becomes(line, name, "set for every rank")
    elif name in ADDRESSES:
        job.becomes(line, name, "nothing: MASTER_ADDR and MASTER_PORT are set for every rank")
    elif name in COUNTS and value == other == str(_count(job, name)):
        body.commands.append(f'export {name}="$RANKZERO_{COUNTS[name]}"')
        job.becomes(line, name, "setup.commands")
    elif name == "OMP_NUM_THREADS" and value == str(job.cpus_per_task or ""):
        job.becomes(line, name, "follows from resources.cpus_per_rank")
    elif name in INTERFACES and value != other and not UNKNOWN.search(value):
        job.becomes(line, name, "the interface is found on the nodes")
    elif value != other or UNKNOWN.search(value):
        job.keep(line, name, unknown(value))
    elif name == "PATH" or (name in LISTS and before in value):
        _list(job, body, place, value)
    elif any(secret_words([value])):
        job.keep(line, name, "its value has the form of a token: name the variable as a secret is named")
    else:
        job.put("env", name, value)
        job.becomes(line, name, f"env.{name}")


def _count(job: Job, name: str) -> object:
    return job.nodes if COUNTS[name] == "NODES" else job.get("resources", "gpus_per_node")


def _list(job: Job, body: Body, place: tuple[int, str], value: str) -> None:
    """A list of folders to which the script has added: its own part is set, what is there on the node stays."""
    line, name = place
    kept = value.replace(PATH if name == "PATH" else f"/rankzero/before/{name}", f"${{{name}}}")
    own = re.sub(rf":?\$\{{{name}\}}:?", "", kept)
    if "rankzero/" in kept or re.search(r"[\"\\`$]", own):
        job.keep(line, name, OF_THE_NODE)
    elif name == "PYTHONPATH":
        job.put("env", name, own)
        job.becomes(line, name, f"env.{name}")
    else:
        body.commands.append(f'export {name}="{kept}"')
        job.becomes(line, name, "setup.commands")


def _folder(job: Job, script: Script, step: Step, pair: Pair) -> None:
    """The folder in which the program is called is its code."""
    folder, other = (call.folder for call in pair.calls)
    if folder != other or not os.path.isdir(folder):
        job.keep(step.line, "cd", "the folder of the program is not on this machine")
        return
    job.spec["code"] = {"src": folder}
    program = step.program[0] if step.program else ""
    if program.endswith(".py") and not program.startswith("/") and not os.path.isfile(os.path.join(folder, program)):
        job.keep(step.line, "the program", "is not among the files of the folder where the script starts")
