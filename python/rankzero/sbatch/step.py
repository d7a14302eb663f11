# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that starts the ranks: srun, a container, a launcher, the program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rankzero.sbatch.declared import STARTERS
from rankzero.sbatch.job import OUR_STEP, Job, container, integer, mount, take
from rankzero.sbatch.options import of_step
from rankzero.sbatch.text import is_plain, names, options

PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
#: The values of launcher.kind whose commands have a reader here. Others are read by their declarations.
READ_HERE = ("srun", "torchrun", "standalone")
#: Options of the launchers without a value.
LAUNCHER_SWITCHES = names(
    "standalone no-python no_python module m run-path run_path multi_gpu multi-gpu use_deepspeed use_fsdp cpu "
    "no_ssh no_local_rank save_pid same_network"
)
APPTAINER_SWITCHES = names(
    "nv nvccli rocm cleanenv contain containall no-home writable writable-tmpfs no-mount-home fakeroot ipc pid"
)
APPTAINER_LETTERS = {"-B": "bind", "-e": "cleanenv", "-c": "contain", "-C": "containall", "-W": "workdir", "-H": "home"}


@dataclass
class Step:
    """What a command starts on the nodes. `by`: the launcher, if there is one."""

    line: int
    srun: dict[str, str] = field(default_factory=dict)
    by: str = ""
    launcher: dict[str, str] = field(default_factory=dict)
    image: dict[str, str] = field(default_factory=dict)
    program: list[str] = field(default_factory=list)
    shell: str = ""


def read(line: int, words: list[str]) -> Step:
    """Read the nested parts of a command: srun, container, uv run, launcher, program."""
    step = Step(line)
    rest = list(words)
    while rest:
        head = os.path.basename(rest[0])
        if head == "srun":
            step.srun, rest = of_step(rest[1:])
        elif head in ("apptainer", "singularity") and rest[1:2] in (["exec"], ["run"]):
            step.image, rest = options(rest[2:], APPTAINER_SWITCHES, APPTAINER_LETTERS)
            step.image["image"], rest = (rest or [""])[0], rest[1:]
        elif head == "uv" and rest[1:2] == ["run"]:
            rest = rest[2:]
            while rest and rest[0].startswith("--"):
                rest = rest[1:]
        elif declared(rest)[0]:
            return _launched(step, rest)
        elif head in ("exec", "time", "numactl") and not (head == "numactl" and len(rest) < 2):
            rest = rest[1:]
            while head == "numactl" and rest and rest[0].startswith("-"):
                rest = rest[1:]
        else:
            return _launched(step, rest)
    return step


def declared(words: list[str]) -> tuple[str, int]:
    """(launcher.kind, how many words are its command's first ones) of a command by a launcher that the collection
    declares, and that needs no reader of its own here; ("", 0) for any other one.
    """
    for kind, (_per, first, _options) in STARTERS.items():
        if kind in READ_HERE:
            continue
        given = ["{python}" if PYTHON.fullmatch(word) else os.path.basename(word) for word in words[: len(first)]]
        if first and given == list(first):
            return kind, len(first)
        if first and os.path.basename(words[0]) == kind:
            return kind, 2 if words[1:2] == ["launch"] else 1
    return "", 0


def _launched(step: Step, rest: list[str]) -> Step:
    head = os.path.basename(rest[0])
    kind, count = declared(rest)
    if kind:
        wanted = STARTERS[kind][2]
        switches = LAUNCHER_SWITCHES | {each for name, value in wanted.items() if not value for each in _spelled(name)}
        given, step.program = options(rest[count:], switches, {})
        step.launcher = {name.replace("-", "_"): value for name, value in given.items()}
        step.by, step.program = kind, _without_python(step.program) if _is_python(step.program) else step.program
        return step
    if PYTHON.fullmatch(rest[0]):
        plain = [word for word in rest[1:3] if word != "-u"]
        if plain[:1] == ["-m"] and len(rest) > 2 and rest[rest.index("-m") + 1].startswith("torch.distributed."):
            step.by, rest = "torchrun", rest[rest.index("-m") + 2 :]
        else:
            step.program = _without_python(rest)
            return step
    elif head == "torchrun":
        step.by, rest = head, rest[1:]
    elif head == "accelerate" and rest[1:2] == ["launch"]:
        step.by, rest = head, rest[2:]
    elif head == "deepspeed":
        step.by, rest = head, rest[1:]
    elif head in ("bash", "sh") and rest[1:2] and re.fullmatch(r"-l?c|-cl", rest[1]) and len(rest) > 2:
        step.shell = rest[2]
        return step
    else:
        step.program = rest
        return step
    given, program = options(rest, LAUNCHER_SWITCHES, {})
    step.launcher = {name.replace("-", "_"): value for name, value in given.items()}
    step.program = ["python", "-m", *program] if {"module", "m"} & set(step.launcher) else program
    return step


def _spelled(name: str) -> tuple[str, str]:
    return name, name.replace("_", "-")


def _is_python(words: list[str]) -> bool:
    return bool(words) and PYTHON.fullmatch(words[0]) is not None


def _without_python(words: list[str]) -> list[str]:
    """Leave out python before a program that ends in .py: the environment's Python runs it anyway."""
    rest = [word for word in words[1:2] if word != "-u"] + words[2:]
    return rest if rest and rest[0].endswith(".py") else ["python", *rest]


def apply(job: Job, step: Step) -> None:
    """Write the settings of the step to the job."""
    for name, value in step.srun.items():
        if name.removeprefix("no-").startswith("container-"):
            if not container(job, name, value):
                job.unknown(step.line, f"srun --{name}={value}")
        elif name in ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "gres"):
            if is_plain(value):
                take(job, step.line, name, value)
        elif name not in OUR_STEP:
            job.spec.setdefault("launcher", {}).setdefault("srun", {})[name] = value or True
    if step.image:
        _apptainer(job, step)
    of_declaration = step.by in STARTERS and step.by not in READ_HERE
    (_of_declaration if of_declaration else LAUNCHERS[step.by])(job, step)
    _sizes(job, step)
    if step.shell:
        job.spec["shell"] = step.shell
        return
    job.spec["command"] = step.program
    for word in step.program:
        if not is_plain(word):
            job.unknown(
                step.line, word, "a variable that the script does not set; the program gets it as it stands here"
            )


def _apptainer(job: Job, step: Step) -> None:
    image = step.image
    job.put("container", "runtime", "apptainer")
    job.put("container", "image", image.pop("image"))
    if "bind" in image:
        job.put("container", "mounts", [mount(part) for part in image.pop("bind").split(",")])
    if not {"no-home", "contain", "containall"} & set(image):
        job.put("container", "mount_home", True)
    if "pwd" in image:
        job.put("container", "workdir", image.pop("pwd"))
    if {"writable", "writable-tmpfs"} & set(image):
        job.put("container", "writable", True)
    for pair in filter(None, image.pop("env", "").split(",")):
        name, _equals, value = pair.partition("=")
        job.put("env", name, value)
    known = {"nv", "rocm", "cleanenv", "contain", "containall", "no-home", "writable", "writable-tmpfs"}
    for name in sorted(set(image) - known):
        job.unknown(step.line, f"apptainer --{name} {image[name]}".rstrip())


def _srun(job: Job, step: Step) -> None:
    job.put("launcher", "kind", "srun")


def _torchrun(job: Job, step: Step) -> None:
    given = step.launcher
    job.put("launcher", "kind", "standalone" if "standalone" in given else "torchrun")
    if given.get("rdzv_backend") == "c10d" and "standalone" not in given:
        job.put("launcher", "rendezvous", "c10d")
    port = integer(given.get("master_port", ""))
    if port:
        job.put("launcher", "port", port)
    _ranks(job, given.get("nproc_per_node", ""))
    nodes = given.get("nnodes", "").partition(":")[0]
    if nodes.isdecimal() and not job.get("resources", "nodes"):
        job.put("resources", "nodes", int(nodes))
    known = (
        "nproc_per_node nnodes node_rank master_addr master_port rdzv_backend rdzv_endpoint rdzv_id standalone "
        "no_python module m"
    )
    _rest(job, step, known, "torchrun")


def _accelerate(job: Job, step: Step) -> None:
    given = step.launcher
    job.put("launcher", "kind", "torchrun")
    machines = integer(given.get("num_machines", "")) or job.get("resources", "nodes", 1)
    job.put("resources", "nodes", job.get("resources", "nodes", machines))
    processes = integer(given.get("num_processes", ""))
    if processes:
        _ranks(job, str(processes // machines))
    if "mixed_precision" in given:
        job.put("env", "ACCELERATE_MIXED_PRECISION", given["mixed_precision"])
    known = (
        "num_processes num_machines machine_rank main_process_ip main_process_port mixed_precision multi_gpu "
        "rdzv_backend same_network dynamo_backend module m"
    )
    _rest(job, step, known, "accelerate launch")


def _deepspeed(job: Job, step: Step) -> None:
    job.put("launcher", "kind", "torchrun")
    job.covered(step.line, "deepspeed", "torchrun starts the ranks, with the variables that DeepSpeed reads")
    _ranks(job, step.launcher.get("num_gpus", ""))
    nodes = integer(step.launcher.get("num_nodes", ""))
    if nodes and not job.get("resources", "nodes"):
        job.put("resources", "nodes", nodes)
    _rest(job, step, "num_gpus num_nodes hostfile master_addr master_port node_rank no_ssh launcher", "deepspeed")


LAUNCHERS: dict[str, Callable[[Job, Step], None]] = {
    "": _srun,
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
}


def _of_declaration(job: Job, step: Step) -> None:
    """A launcher by its declaration: the options that its command sets from the launch are read, others are not."""
    _per, _first, wanted = STARTERS[step.by]
    job.put("launcher", "kind", step.by)
    told = {wanted[name]: integer(value) for name, value in step.launcher.items() if name in wanted}
    nodes = told.get("nodes") or job.get("resources", "nodes", 1)
    job.put("resources", "nodes", job.get("resources", "nodes", nodes))
    ranks = told.get("ranks_per_node") or (told.get("world_size") or 0) // nodes
    _ranks(job, str(ranks or ""))
    _rest(job, step, " ".join(wanted), step.by)


def _ranks(job: Job, value: str) -> None:
    """Ranks per node. A value known only on the node (gpu, auto, a Slurm variable) means one per GPU, the default."""
    number = integer(value)
    if number and number != job.get("resources", "gpus_per_node"):
        job.put("launcher", "ranks_per_node", number)


def _rest(job: Job, step: Step, known: str, what: str) -> None:
    for name in sorted(set(step.launcher) - set(known.split())):
        job.unknown(step.line, f"{what} --{name} {step.launcher[name]}".rstrip())


def _sizes(job: Job, step: Step) -> None:
    """Turn Slurm's tasks into the job's ranks. One task of torchrun contains all ranks of its node."""
    nodes, gpus = int(job.get("resources", "nodes", 1)), int(job.get("resources", "gpus_per_node", 0))
    tasks = job.tasks_per_node or (job.ntasks // nodes if job.ntasks else 1)
    if not job.get("resources", "nodes") and job.ntasks and job.tasks_per_node:
        job.put("resources", "nodes", job.ntasks // job.tasks_per_node)
    ranks = job.get("launcher", "ranks_per_node") or gpus or 1
    if not step.by or (step.by in STARTERS and STARTERS[step.by][0] == "rank"):
        if tasks != (gpus or 1):
            job.put("launcher", "ranks_per_node", tasks)
        ranks = tasks
    if job.cpus_per_task:
        job.put("resources", "cpus_per_rank", max(1, job.cpus_per_task * (tasks if step.by else ranks) // ranks))
