# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan in a few lines, for people: first what decides, and apart from it what explains. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import ENVIRONMENT, PACKAGES
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import first
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import (
    inside_job,
    parallelism,
    program,
    script,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import components
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec, Role
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import Environment
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import GPUS_OF_NODE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Options, time_shown

KEY_DIGITS = 12
_LONGEST = 100


def summary(plan: Plan) -> list[str]:
    """Return the name, the lines that decide whether this is the launch that was meant, and the warnings."""
    parts = [
        ("runs", _program(plan.spec)),
        ("on", _place(plan)),
        ("time", _time(plan)),
        ("in", _surroundings(plan)),
        ("success", _success(plan)),
    ]
    lines = [f"{plan.name} · key {short_key(plan.key)}", *(f"{title:<7} {text}" for title, text in parts)]
    lines += _role_lines(plan)
    told = (*parallelism.warnings(plan.spec), *program.warnings(plan.spec), *script.warnings(plan.spec))
    return lines + [f"warning: {text}" for text in told]


def details(plan: Plan) -> list[str]:
    """Return what explains a plan further: the site's own launcher, trackers and judge."""
    shape, lines = plan.topology, []
    if shape.starter.own:
        words = shlex.join(shape.words)
        lines.append(
            f"launcher {shape.starter.kind} (launch_cluster.launchers), one task a {shape.starter.per}: {words}"
        )
    if plan.spec.trackers:
        run = f"{plan.name}-{short_key(plan.key)}-<generation>"
        lines.append(f"trackers {', '.join(plan.spec.trackers)}: one run for all attempts, {run}")
        lines += [
            f"tracker {kind.name} (launch_cluster.trackers): sets {', '.join(row.name for row in kind.variables)}"
            for kind in plan.trackers
            if kind.own
        ]
    if plan.judge:
        lines.append(f"proof is judged by {shlex.join(plan.judge.command)} (launch_cluster.artifact_formats)")
    return lines


def _program(spec: LaunchSpec) -> str:
    if spec.script is not None:
        return " ".join(["the script", shlex.join(spec.script_args)]).strip()[:_LONGEST]
    return (spec.shell or shlex.join(spec.command)).replace("\n", " ")[:_LONGEST]


def _role_lines(plan: Plan) -> list[str]:
    """A line for each role. What the deciding one runs is said before."""
    lines: list[str] = []
    own_images = len({step.container.image if step.container else "" for step in plan.roles}) > 1
    for step in plan.roles:
        shape, role = step.topology, plan.spec.roles[step.name]
        first_rank = int(dict(step.exports)["RANKZERO_FIRST_RANK"])
        logs = f"rank-{first_rank:04d}.log"
        if shape.world_size > 1:
            logs += f" to rank-{first_rank + shape.world_size - 1:04d}.log"
        words = [f"runs {_program(role.spec)}"] if lines else []
        words += [f"{shape.nodes} x {shape.ranks_per_node} by {shape.starter.shown}", logs]
        words.append(f"on exit {role.keys.on_exit}" if lines else "decides")
        if own_images:
            words.append(f"in {step.container.image} by {step.container.runtime}" if step.container else "no container")
        words += [*_own_words(plan, role, step.built), *_setup_words(step.modules, step.commands)]
        words += [f"on nodes of {plan.spec.host(role)}"] if role.keys.share else []
        words += [f"after {' and '.join(role.keys.after_ready)} ready"] if role.keys.after_ready else []
        words += [f"ready by {role.keys.ready.way} {role.keys.ready.value}".strip()] if role.keys.ready else []
        lines.append(f"role {step.name}: {'; '.join(words)}")
    return lines


def _own_words(plan: Plan, role: Role, built: str | None) -> list[str]:
    """What not every role has: its environment (`built`: its key), and the secrets and datasets that are its own."""
    words = [] if plan.spec.one_environment else [_environment(role.spec.environment, built) or "no environment"]
    for section, of_all in (("secrets", plan.spec.all_secrets), ("data", plan.spec.all_data)):
        having = [getattr(each.spec, section) for each in plan.spec.roles.values()]
        own = [name for name in of_all if name in getattr(role.spec, section) and not all(name in of for of in having)]
        words += [f"{section} {', '.join(own)}"] if own else []
    return words


def _place(plan: Plan) -> str:
    """How many nodes and ranks, what a node gives, and where."""
    shape, ask = plan.topology, plan.spec.resources
    node = ["all its CPUs, shared by its ranks" if plan.job.all_cpus else _count(plan.job.cpus_per_node, "CPU")]
    if plan.gpus_per_node:
        node.append(_count(plan.gpus_per_node, ask.gpu_type or "GPU"))
    if ask.memory:
        # As sbatch, which takes a number without a unit for megabytes.
        shown = f"{ask.memory} MB" if ask.memory.isdecimal() else ask.memory
        node.append("all its memory" if ask.memory == "0" else f"{shown} of memory")
    node += ask.gres
    if plan.further:
        kinds = (_nodes_of(*each) for each in zip(components(plan.spec), (plan.header, *plan.further)))
        return f"{_count(plan.job.nodes, 'node')} for {_count(len(plan.roles), 'role')}: {'; '.join(kinds)}"
    spares = f" (and {_count(ask.spares, 'spare node')})" if ask.spares else ""
    by = f"x {_count(shape.ranks_per_node, 'rank')} = {_count(shape.world_size, 'rank')} by {shape.starter.shown}"
    if ask.gpus_per_node and plan.spec.launcher.gpus == GPUS_OF_NODE:
        by += ", each with all GPUs of its node"
    if plan.spec.script is not None:
        by = "with the script on the first"
    if plan.roles:
        by = f"for {_count(len(plan.roles), 'role')}"
    inside, aside = plan.spec.launcher.inside_job, inside_job.ignored(plan.spec)
    where = f"partition {ask.partition or '(default)'}"
    if ask.any_of:
        ways = (" ".join(f"{name} {value}" for name, value in sorted(given.items())) for given in ask.any_of)
        where = f"{where}; started by the first of: {'; '.join(ways)}"
    if inside:
        where = f"inside job {inside}" + (f", so not asked of Slurm: {', '.join(aside)}" if aside else "")
    return f"{_count(plan.job.nodes, 'node')}{spares} {by}; a node: {', '.join(node)}; {where}"


def _nodes_of(component: LaunchSpec, header: Options) -> str:
    """How many nodes a component of the job has, for whom, and what it asks of each."""
    lines = dict(header)
    node = [_count(int(str(lines["cpus-per-task"])), "CPU")]
    node += [
        f"{name} {lines[name]}" for name in ("gpus-per-node", "mem", "constraint", "account", "qos") if name in lines
    ]
    where = f"partition {lines.get('partition', '(default)')}"
    return f"{lines['nodes']} of {where} (a node: {', '.join(node)}) for {' and '.join(component.roles)}"


def _time(plan: Plan) -> str:
    if plan.spec.launcher.inside_job:
        return f"what is left of job {plan.spec.launcher.inside_job}"
    limit = dict(plan.header).get("time")
    return f"at most {time_shown(limit)}" if limit else "the partition's limit"


def _environment(wanted: Environment, key: str | None) -> str:
    """The Python environment of a program, `key` if it is built; empty without one."""
    if wanted.mode == "path":
        return f"the environment {wanted.path}"
    source = wanted.file or wanted.requirements or "pyproject.toml"
    if wanted.project not in (".", "./"):
        source = f"{source} of {wanted.project}"
    return f"{wanted.mode} environment {key[:KEY_DIGITS]} from {source}" if wanted.built and key else ""


def _surroundings(plan: Plan) -> str:
    """The container, and the environment in it."""
    parts = [f"{plan.container.image} by {plan.container.runtime}"] if plan.container else []
    ref = first(plan.refs, ENVIRONMENT) or first(plan.refs, PACKAGES)
    environment = _environment(plan.spec.environment, ref.key if ref else None)
    if not plan.spec.one_environment:
        parts.append("the environments of its roles")
    elif environment:
        parts.append(environment)
    elif not parts:
        parts.append("the containers of its roles" if plan.containers else "the nodes' own Python")
    setup = plan.spec.setup
    parts += _setup_words(setup.modules, setup.commands)
    around = (("before", setup.before_ranks), ("after", setup.after_ranks))
    parts += [f"{_count(len(lines), 'line')} {when} the ranks on each node" for when, lines in around if lines]
    return ", ".join(parts)


def _setup_words(modules: Sequence[str], commands: Sequence[str]) -> list[str]:
    loaded = [f"modules {' '.join(modules)}"] if modules else []
    return [*loaded, *([f"{_count(len(commands), 'command')} of setup"] if commands else [])]


def _success(plan: Plan) -> str:
    artifact = plan.spec.artifact
    if not artifact:
        return "exit code 0; no artifact is declared that would prove a result"
    wanted = [
        f"{key} {' '.join(f'{name} {json.dumps(value)}' for name, value in conditions.items())}".strip()
        for key, conditions in artifact.require.items()
    ]
    return (
        f"{artifact.path}{'/' + artifact.complete if artifact.complete else ''}"
        + (f" with {', '.join(wanted)}" if wanted else "")
        + ("; then the job ends itself" if artifact.then == "end" else "")
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
