# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that starts the ranks: srun, a container, a launcher, the program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rankzero.sbatch.declared import PACKAGED, STARTERS
from rankzero.sbatch.job import SIZES, Job, container, exported, integer, mount, read_option
from rankzero.sbatch.launcher_words import MODULES, PYTHON, in_an_image, launcher_of, switches, taken
from rankzero.sbatch.options import names, of_step
from rankzero.sbatch.sizes import STEP_SIZES, sizes

#: Options of srun that a job's own step sets, or that say nothing about it, with what there is instead.
OURS = {
    **dict.fromkeys(("label", "output", "error", "unbuffered", "open-mode"), "every rank's log is kept"),
    **dict.fromkeys(("kill-on-bad-exit", "wait"), "the exit of a rank ends the others"),
    **dict.fromkeys(("overlap", "exact", "jobid", "no-kill"), "the ranks have the job's nodes"),
    **dict.fromkeys(("verbose", "quiet"), "nothing"),
}
#: What an allocation has, and a step inside one does not choose.
OF_AN_ALLOCATION = ("partition", "account", "qos", "time", "job-name", "reservation", "constraint", "exclusive", "mem")
#: Options whose values say where and when the ranks meet: a job says it itself.
MEETING = names(
    "node_rank machine_rank master_addr master_port main_process_ip main_process_port rdzv_endpoint rdzv_id hostfile"
)


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
    #: The folder of an environment whose Python or launcher is called by path.
    environment: str = ""
    #: Programs around the program, which a job does not have.
    around: list[str] = field(default_factory=list)
    #: Variables that `env` sets for it.
    variables: dict[str, str] = field(default_factory=dict)
    #: Whether `uv run` chooses the environment.
    of_project: bool = False
    #: Whether no srun starts it: it runs once, on the first node.
    direct: bool = False
    #: Whether the script has no header: the options of srun are then those of the job.
    alone: bool = False


def read(line: int, words: list[str]) -> Step:
    """Read the nested parts of a command: srun, container, uv run, launcher, program."""
    step = Step(line)
    rest = list(words)
    while rest:
        head = os.path.basename(rest[0])
        if head == "srun":
            given, rest = of_step(rest[1:])
            step.srun = {name.replace("_", "-"): value for name, value in given.items()}
        elif image := in_an_image(rest):
            step.image, rest = image
            step.image["image"], rest = (rest or [""])[0], rest[1:]
        elif head == "uv" and rest[1:2] == ["run"]:
            rest = _uv_run(step, rest[2:])
        elif head == "env":
            rest = _env(step, rest[1:])
        elif (
            head in AROUND
            and not launcher_of(rest, STARTERS)[0]
            and not (head in ("bash", "sh") and len(rest) == 3 and rest[1][:1] == "-")
        ):
            step.around.append(head)
            return step
        else:
            return _launched(step, rest)
    return step


#: Programs that start another one, and change what it gets.
AROUND = names(
    "numactl taskset timeout nice nohup stdbuf setsid chrt nsys ncu poetry pixi conda mamba micromamba hatch pdm "
    "shifter podman-hpc podman docker enroot charliecloud ch-run mpirun mpiexec ray vllm sudo bash sh zsh"
)


def _uv_run(step: Step, rest: list[str]) -> list[str]:
    """Leave out `uv run` with the options that say only that the environment is as it is."""
    step.of_project = True
    while rest and rest[0].startswith("-"):
        if rest[0] not in ("--no-sync", "--frozen", "--locked", "--"):
            step.around.append(f"uv run {rest[0].partition('=')[0]}")
            return []
        rest = rest[1:]
    return rest


def _env(step: Step, rest: list[str]) -> list[str]:
    """Leave out `env NAME=VALUE`."""
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
        name, _equals, value = rest[0].partition("=")
        step.variables[name], rest = value, rest[1:]
    if rest[:1] and rest[0].startswith("-"):
        step.around.append(f"env {rest[0]}")
        return []
    return rest


def _launched(step: Step, rest: list[str]) -> Step:
    head = os.path.basename(rest[0])
    if rest[0].startswith("/") and not step.image and "container-image" not in step.srun:
        folder, _slash, place = os.path.dirname(rest[0]).rpartition("/")
        of_environment = PYTHON.fullmatch(head) or head in PACKAGED
        if place == "bin" and folder not in ("", "/usr", "/usr/local") and of_environment:
            step.environment, rest = folder, [head, *rest[1:]]
    kind, count = launcher_of(rest, STARTERS)
    if kind:
        given, step.program = taken(rest[count:], switches(STARTERS[kind][2]), {})
        step.launcher = {name.replace("-", "_"): value for name, value in given.items()}
        step.by = kind
        if kind != "torchrun" and _is_python(step.program):
            step.program = _without_python(step.program)
        if MODULES & set(step.launcher):
            step.program = ["python", "-m", *step.program]
    elif PYTHON.fullmatch(rest[0]):
        step.program = _without_python(rest)
    elif head in ("bash", "sh") and len(rest) == 3 and rest[1] in ("-c", "-lc", "-cl", "-ec", "-ce"):
        step.shell = rest[2]
    else:
        step.program = rest
    return step


def _is_python(words: list[str]) -> bool:
    return bool(words) and PYTHON.fullmatch(words[0]) is not None


def _without_python(words: list[str]) -> list[str]:
    """Leave out python before a program that ends in .py: the environment's Python runs it anyway."""
    rest = [word for word in words[1:2] if word != "-u"] + words[2:]
    return rest if rest and rest[0].endswith(".py") else ["python", *rest]


def apply(job: Job, step: Step) -> None:
    """Write the settings of the step to the job."""
    for name, value in step.srun.items():
        _of_srun(job, step, name, value)
    for what in step.around:
        job.keep(step.line, what, "a job has no program around its own")
    if step.image:
        _apptainer(job, step)
    if step.environment:
        job.spec["environment"] = {"mode": "path", "path": step.environment}
        job.becomes(step.line, f"{step.environment}/bin", "environment.path")
    LAUNCHERS.get(step.by, _of_declaration)(job, step)
    sizes(job, step, not step.by or (step.by in STARTERS and STARTERS[step.by][0] == "rank"))
    job.spec["shell" if step.shell else "command"] = step.shell or step.program
    job.becomes(step.line, "the program", "shell" if step.shell else "command")


def _of_srun(job: Job, step: Step, name: str, value: str) -> None:
    """One option of the ranks' srun."""
    shown = f"srun --{name}"
    if name.removeprefix("no-").startswith("container-"):
        if container(job, name, value):
            job.becomes(step.line, shown, "container")
        else:
            job.keep(step.line, shown, "has no key in the section `container`")
    elif name in STEP_SIZES:
        job.becomes(step.line, shown, SIZES)
    elif name in ("gpus-per-node", "gres"):
        read_option(job, step.line, name, value)
    elif name == "export":
        exported(job, step.line, value)
    elif name == "cpu-bind" and value.partition(",")[0] in ("none", "cores", "verbose", "quiet", "threads", "sockets"):
        job.becomes(step.line, shown, "the binding that the launcher needs")
    elif name in OURS:
        job.becomes(step.line, shown, OURS[name])
    elif name in OF_AN_ALLOCATION and not step.alone:
        job.keep(step.line, shown, "limits only this step; a job has one")
    elif name in OF_AN_ALLOCATION:
        read_option(job, step.line, name, value)
    elif name in ("chdir", "cpu-bind"):
        job.keep(step.line, shown, "has no key")
    else:
        job.spec.setdefault("launcher", {}).setdefault("srun", {})[name] = value or True
        job.becomes(step.line, shown, f"launcher.srun.{name}")


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
    job.becomes(step.line, "apptainer", "container")
    for name in sorted(set(image) - known):
        job.keep(step.line, f"apptainer --{name}", "has no key in the section `container`")


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
    _ranks(job, given.get("nproc_per_node", "1"))
    _nodes(job, step, given.get("nnodes", "1"))
    known = (
        "nproc_per_node nnodes node_rank master_addr master_port rdzv_backend rdzv_endpoint rdzv_id standalone "
        "no_python module m"
    )
    _rest(job, step, known, "torchrun")


def _accelerate(job: Job, step: Step) -> None:
    """Its launcher tells its ranks that nothing is mixed, and those of torchrun take that from their variables."""
    precision = step.launcher.pop("mixed_precision", "no")
    _of_declaration(job, step, "rdzv_backend", "same_network")
    if precision != "no":
        job.put("launcher", "kind", "torchrun")
        job.put("env", "ACCELERATE_MIXED_PRECISION", precision)
        job.becomes(step.line, "accelerate --mixed_precision", "env, and launcher.kind: torchrun, which leaves it")


def _deepspeed(job: Job, step: Step) -> None:
    _of_declaration(job, step)
    if "no_local_rank" not in step.launcher:
        job.becomes(step.line, "deepspeed", "the program gets LOCAL_RANK, and no argument --local_rank")


LAUNCHERS: dict[str, Callable[[Job, Step], None]] = {
    "": _srun,
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
}


def _of_declaration(job: Job, step: Step, *known: str) -> None:
    """A launcher by its declaration: the options that its command sets from the launch are read, others are not.
    known: those that say nothing about a job.
    """
    _per, _first, wanted = STARTERS[step.by]
    job.put("launcher", "kind", step.by)
    told = {wanted[name]: integer(value) for name, value in step.launcher.items() if name in wanted}
    nodes = told.get("nodes") or job.nodes or 1
    _nodes(job, step, str(told.get("nodes") or ""))
    ranks = told.get("ranks_per_node") or (told.get("world_size") or 0) // nodes
    _ranks(job, str(ranks or ""))
    _rest(job, step, " ".join({*wanted, *MODULES, *known}), step.by)


def _nodes(job: Job, step: Step, value: str) -> None:
    """The number of nodes that a launcher is told: without a header, that of the job."""
    number = integer(value)
    if value and number is None:
        job.keep(step.line, f"{step.by}: nodes", "a job has a plain number here")
    elif number and job.nodes not in (None, number):
        job.keep(step.line, f"{step.by}: nodes", f"the job has {job.nodes}")
    elif number:
        job.nodes = number


def _ranks(job: Job, value: str) -> None:
    """Ranks per node. A value known only on the node (gpu, auto, a Slurm variable) means one per GPU, the default."""
    number = integer(value)
    if number and number != job.get("resources", "gpus_per_node"):
        job.put("launcher", "ranks_per_node", number)


def _rest(job: Job, step: Step, known: str, what: str) -> None:
    for name in sorted(step.launcher):
        if name in known.split():
            job.becomes(step.line, f"{what} --{name}", "launcher")
        else:
            job.keep(step.line, f"{what} --{name}", "the launcher of a job does not set it")
