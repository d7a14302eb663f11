# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LaunchSpec -> Plan: everything the job's script needs, decided. Pure; no I/O, no Slurm process.

The generation is not known yet: the cluster's own run directory decides it when the job is submitted. Rendered text
therefore carries a token in its place, which `generation.with_generation` replaces. The token holds the launch key, a
digest of the whole spec, so no value that a user gives can contain it.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placement import digest_token
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import inside_job
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import (
    node_copies,
    parallelism,
    sealed_environment,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import Entry, built_file, entry
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key, short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import Topology, topology
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import Variable, variables
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import checkpoint, data, preflight
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import ClusterSettings, LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import PLAIN

Options = tuple[tuple[str, "str | bool"], ...]


@dataclass(frozen=True)
class Ref:
    """Something a launch needs on the cluster: `kind` code, environment, packages, image or dataset, `key` of its
    inputs, `path` once there.
    """

    kind: str
    key: str
    path: str


def mounted(refs: Iterable[Ref]) -> list[str]:
    """The paths that a container shows; its image is around it."""
    return [ref.path for ref in refs if ref.kind != "image"]


@dataclass(frozen=True)
class Upstream:
    """A launch that must have succeeded before: its name, its key, and where its results lie (with its own token)."""

    name: str
    key: str
    path: str

    @property
    def variable(self) -> str:
        """The name under which the ranks find `path`."""
        return "RANKZERO_AFTER_" + re.sub(r"[^A-Za-z0-9]", "_", self.name).upper()


@dataclass(frozen=True)
class Plan:
    """A launch, decided: what Slurm is asked, what the ranks run, where everything lies."""

    name: str
    key: str
    token: str
    spec: LaunchSpec
    topology: Topology
    header: Options
    step: Options
    probe: Options
    life: tuple[tuple[str, str], ...]
    preflight: tuple[tuple[str, str], ...]
    argv: tuple[str, ...]
    variables: tuple[Variable, ...]
    python: str
    run_dir: str
    runtime_dir: str
    refs: tuple[Ref, ...]
    container: Entry | None = None
    stage: tuple[tuple[str, str], ...] = ()
    environment_dir: str = ""
    caches: str | None = None
    conda: bool = False
    # One script for the elements of a sweep: what they have of their own comes from the array's file.
    array: bool = False

    @property
    def sealed(self) -> bool:
        return self.spec.environment.mode == "sealed"

    def recorded(self) -> list[dict[str, str]]:
        """The refs, those of large files with the digest that the nodes compare with."""
        compared = {one.key for one in self.spec.data.values() if one.file}
        compared |= {
            ref.key for ref in self.refs if ref.kind == "packages" or (ref.kind == "environment" and self.sealed)
        }
        digests = {key: {"sha256": digest_token(key)} for key in compared}
        return [{**dataclasses.asdict(ref), **digests.get(ref.key, {})} for ref in self.refs]

    def ref(self, kind: str) -> Ref | None:
        return next((ref for ref in self.refs if ref.kind == kind), None)

    def runs_dir(self) -> str:
        """The directory of all generations of this key."""
        return self.run_dir[: -len(self.token) - 1]


def plan(
    spec: LaunchSpec,
    merged: Merged,
    *,
    code_key: str,
    environment_key: str | None,
    packages_key: str | None = None,
    runtime_key: str,
    state_root: str,
    store_root: str,
    settings: ClusterSettings | None = None,
    caches: str | None = None,
    adopted_key: str | None = None,
    conda: bool = False,
    container_places: tuple[str, str | None] | None = None,
    after: Sequence[Upstream] = (),
    image_key: str | None = None,
) -> Plan:
    """Decide a launch. Roots are absolute; keys are digests known before anything is built. The roots in `settings` are
    not looked at: they may still begin with ~ or $NAME. `caches` is launch_cluster.caches as an absolute path.

    `environment_key` is that of an environment to be built, `packages_key` that of the packages from which each node
    makes its own, `adopted_key` that of the one at `environment.path`, which is a conda environment or a venv.
    `image_key` is that of an image to be built. `container_places`: what the container mounts in place of this
    launch's own runs and checkpoints, where it serves the elements of a sweep. `after`: the launches that this one
    follows.
    """
    settings = settings or ClusterSettings()
    inputs = {"code": code_key}
    refs = [Ref("code", code_key, f"{store_root}/code/{code_key}")]
    if environment_key:
        inputs["environment"] = environment_key
        refs.append(Ref("environment", environment_key, f"{store_root}/environments/{environment_key}"))
    environment_path = refs[1].path if environment_key else spec.environment.path
    if packages_key:
        inputs["environment"] = packages_key
        refs.append(Ref("packages", packages_key, f"{store_root}/packages/{packages_key}"))
    if adopted_key:
        inputs["environment"] = adopted_key
    if image_key:
        inputs["image"] = image_key
        refs.append(Ref("image", image_key, f"{store_root}/images/{image_key}"))
    inputs.update({f"after.{upstream.name}": upstream.key for upstream in after})
    inputs.update({f"data.{name}": one.key for name, one in spec.data.items()})
    staged = sorted({(one.key, one.tree) for one in spec.data.values() if one.tree})
    datasets = [Ref("dataset", digest, path) for digest, path in staged if path]
    key = launch_key(spec, inputs)
    token = f"GENERATION-{key[-24:]}"
    shape = topology(spec)
    run_dir = f"{state_root}/runs/{spec.name}/{short_key(key)}/{token}"
    python = f"{environment_path}/bin/python" if environment_path else "python3"
    # Beside the runs, and not in the store: a node that sees no store still has to start.
    runtime_dir = f"{state_root}/runtime/{runtime_key}"
    exported = tuple(variables(spec, merged, environment_path, settings.fabrics, caches, conda))
    runs_mounted, checkpoints = container_places or (run_dir[: -len(token) - 1], spec.checkpoint.dir)
    container = entry(
        dataclasses.replace(spec, checkpoint=dataclasses.replace(spec.checkpoint, dir=checkpoints)),
        runs_dir=runs_mounted,
        built=f"{refs[-1].path}/{built_file(spec.container.runtime)}" if image_key else None,
        places=[posixpath.dirname(upstream.path) for upstream in after]
        + mounted(refs)
        + [one.folder for one in spec.data.values()]
        + [runtime_dir]
        + ([spec.environment.path] if spec.environment.path else []),
        writable=[caches] if caches else [],
        variables=[variable.name for variable in exported],
    )
    return Plan(
        name=spec.name,
        key=key,
        token=token,
        spec=spec,
        topology=shape,
        header=_header(spec, shape, f"{spec.name}.{short_key(key)}.{token}", run_dir)
        + (container.header if container else ()),
        step=_step(spec, shape) + inside_job.step(spec) + (container.step if container else ()),
        probe=_probe(spec, shape) + inside_job.probe(spec),
        life=tuple(
            [("RANKZERO_WAIT", str(spec.launcher.wait))]
            + checkpoint.exports(spec.checkpoint, spec.monitor, spec.logs, spec.resources.spares)
            + parallelism.exports(spec)
            + [(upstream.variable, upstream.path) for upstream in after]
            + list(data.exports(spec.data))
        ),
        preflight=tuple(preflight.exports(spec.preflight, spec.checkpoint, spec.resources.gpus_per_node)),
        argv=_argv(spec, python),
        variables=exported,
        python=python,
        run_dir=run_dir,
        runtime_dir=runtime_dir,
        refs=(*refs, *datasets),
        container=container,
        stage=tuple(
            {
                **dict(node_copies.exports(spec, settings, state_root)),
                **sealed_environment.exports(spec, settings, state_root),
            }.items()
        ),
        environment_dir=environment_path or "",
        caches=caches,
        conda=conda,
    )


def _header(spec: LaunchSpec, shape: Topology, job_name: str, run_dir: str) -> Options:
    """The #SBATCH lines, in the order a person reads them (sbatch(1))."""
    ask = spec.resources
    options: list[tuple[str, str | bool]] = [("job-name", job_name), *_size(shape, shape.nodes + ask.spares)]
    options += [(row.sbatch.name, value) for row in PLAIN if (value := row.line(spec))]
    if "comment" not in ask.sbatch:
        options.append(("comment", f"rankzero.slurm {job_name}"))
    options += [
        ("output", f"{run_dir}/logs/job.%j.log"),
        ("open-mode", "append"),
        ("chdir", run_dir),
        # The job's environment is the plan's, not that of whoever submits. With NONE pyxis
        # leaves the batch script on the node, which is where it has to be (spec/pyxis.md, trap 2).
        ("export", "NONE" if spec.container.level == "job" else "NIL"),
    ]
    options += checkpoint.header(spec.checkpoint, ask.spares)
    options += preflight.header(spec.preflight, spec.checkpoint)
    options += [(name, value) for name, value in sorted(ask.sbatch.items()) if value is not False]
    return tuple(options)


def _size(shape: Topology, nodes: int) -> Options:
    """What each job and each step says of its size on some nodes."""
    return (
        ("nodes", str(nodes)),
        ("ntasks-per-node", str(shape.tasks_per_node)),
        ("cpus-per-task", str(shape.cpus_per_task)),
    )


def _step(spec: LaunchSpec, shape: Topology) -> Options:
    """srun's options: every step repeats its own size (srun stopped inheriting --cpus-per-task in 22.05)."""
    options: list[tuple[str, str | bool]] = [
        ("nodes", str(shape.nodes)),
        ("ntasks", str(shape.tasks)),
        ("ntasks-per-node", str(shape.tasks_per_node)),
        ("cpus-per-task", str(shape.cpus_per_task)),
        ("kill-on-bad-exit", "1"),
        ("export", "ALL"),
    ]
    if "cpu-bind" not in spec.launcher.srun:
        options.append(_cpu_bind(shape))
    options += [(name, value) for name, value in sorted(spec.launcher.srun.items()) if value is not False]
    return tuple(options)


def _cpu_bind(shape: Topology) -> tuple[str, str]:
    """Each rank of srun keeps to its own cores, near each other. Under torchrun the one task of a node starts all its
    ranks: they share the task's CPUs."""
    return ("cpu-bind", "none" if shape.launcher == "torchrun" else "cores")


# Options of srun that decide what a task is bound to: the preflight is placed as the ranks will be.
_BINDING = (
    "accel-bind",
    "cores-per-socket",
    "cpu-bind",
    "distribution",
    "gpu-bind",
    "gpus-per-task",
    "hint",
    "mem-bind",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-socket",
    "sockets-per-node",
    "threads-per-core",
    "tres-bind",
)


def _probe(spec: LaunchSpec, shape: Topology) -> Options:
    """srun's options for the preflight: on every node the ranks' own size and binding, so that it sees what they will
    have.

    A node that fails, or that cannot even be reached, must not take the reports of the others with it, whatever the
    site's KillOnBadExit and WaitTime say.
    """
    given = {name: value for name, value in spec.launcher.srun.items() if name in _BINDING and value is not False}
    nodes = shape.nodes + spec.resources.spares
    return (
        ("nodes", str(nodes)),
        ("ntasks", str(nodes * shape.tasks_per_node)),
        ("ntasks-per-node", str(shape.tasks_per_node)),
        ("cpus-per-task", str(shape.cpus_per_task)),
        *(() if "cpu-bind" in given else (_cpu_bind(shape),)),
        *((name, str(value)) for name, value in sorted(given.items())),
        ("kill-on-bad-exit", "0"),
        ("wait", "0"),
        ("no-kill", True),
    )


def _argv(spec: LaunchSpec, python: str) -> tuple[str, ...]:
    if spec.shell is not None:
        return ("/bin/bash", "-c", spec.shell)
    if spec.command[0].endswith(".py"):
        return (python, *spec.command)
    return spec.command


def contract(spec: LaunchSpec) -> dict[str, Any]:
    """What the runtime in the job must know to judge the artifact: the content of contract.json."""
    return {"artifact": dataclasses.asdict(spec.artifact) if spec.artifact else None}


def manifest(plan: Plan, merged: Merged, facts: Mapping[str, Any]) -> dict[str, Any]:
    """launch.json: the spec with who set each value, the digests, the versions. Itself a runnable spec."""
    return {
        "rankzero_launch": 1,
        "name": plan.name,
        "key": plan.key,
        "spec": merged.data,
        "origins": merged.origins,
        "world_size": plan.topology.world_size,
        "refs": plan.recorded(),
        # The folder's name is the digest of its files.
        "runtime": plan.runtime_dir,
        "variables": [dataclasses.asdict(variable) for variable in plan.variables],
        **facts,
    }


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def summary(plan: Plan) -> list[str]:
    """The plan in a few lines, for people."""
    shape, ask = plan.topology, plan.spec.resources
    place = [_count(shape.cpus_per_node, "CPU")]
    if ask.gpus_per_node:
        place.append(_count(ask.gpus_per_node, ask.gpu_type or "GPU"))
    place += ask.gres
    spares = f" (and {_count(ask.spares, 'spare node')})" if ask.spares else ""
    where = f"limit {ask.time}; partition {ask.partition or '(default)'}"
    inside, aside = plan.spec.launcher.attach, inside_job.ignored(plan.spec)
    if inside:
        where = f"inside job {inside}" + (f", so not asked of Slurm: {', '.join(aside)}" if aside else "")
    lines = [
        f"{plan.name} · key {short_key(plan.key)}",
        (
            f"{_count(shape.nodes, 'node')}{spares} x {_count(shape.ranks_per_node, 'rank')} = "
            f"{_count(shape.world_size, 'rank')} by {shape.launcher}; a node: {', '.join(place)}; {where}"
        ),
        "runs "
        + (plan.spec.shell or shlex.join(plan.spec.command)).replace("\n", " ")[:100]
        + (f" in {plan.container.image} by {plan.container.runtime}" if plan.container else ""),
    ]
    artifact = plan.spec.artifact
    if artifact:
        wanted = [
            f"{key} {' '.join(f'{name} {json.dumps(value)}' for name, value in conditions.items())}".strip()
            for key, conditions in artifact.require.items()
        ]
        lines.append(
            f"proof {artifact.path}{'/' + artifact.complete if artifact.complete else ''}"
            + (f" with {', '.join(wanted)}" if wanted else "")
            + ("; then the job ends itself" if artifact.then == "end" else "")
        )
    return lines + [f"warning: {text}" for text in parallelism.warnings(plan.spec)]
