# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a LaunchSpec into a Plan: everything that the job's script needs. Pure; no I/O, no Slurm process.

The generation is not known yet: the run directory on the cluster decides it when the job is submitted. Rendered text
therefore contains a token in its place, which `placeholders.with_generation` replaces. The token contains part of the
launch key, a digest of the whole spec, so no value from a user can contain it.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import digest_token, generation_token
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import DATASET, ENVIRONMENT, IMAGE, InputKind
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref, first
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import script
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.registry import ASPECTS
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import Entry, built_file, entry
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.environments import Environments
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Inputs, Site, mounted
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key, short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.roles import RoleStep, steps
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import Topology, job_gpus, topology
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import Variable, tracker_variables
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_formats import OwnFormat
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import Kind
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.mlflow import MLFLOW, MLFLOW_RUN
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.registry import chosen
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Options


@dataclass(frozen=True)
class Plan:
    """A planned launch: what Slurm is asked for, what the ranks run, and where all files are."""

    key: str
    token: str
    spec: LaunchSpec
    topology: Topology
    # What the job asks of Slurm: of a launch with roles the nodes of all.
    job: Topology
    header: Options
    # The lines of further components, where roles ask for nodes that differ; none of an ordinary job.
    further: tuple[Options, ...]
    step: Options
    probe: Options
    exports: tuple[tuple[str, str], ...]
    argv: tuple[str, ...]
    variables: tuple[Variable, ...]
    python: str
    run_dir: str
    runtime_dir: str
    refs: tuple[Ref, ...]
    # The container of all programs; None where each role has its own.
    container: Entry | None = None
    environment_dir: str = ""
    caches: str | None = None
    conda: bool = False
    # The folder of the environments that jobs make inside the image; empty if this launch needs none.
    environments_inside: str = ""
    # True for the array of a sweep: one script for all elements, whose own values come from the array's file.
    array: bool = False
    trackers: tuple[Kind, ...] = ()
    # The cluster's own format of the artifact.
    judge: OwnFormat | None = None
    # The steps of the roles, the deciding one first; none of a launch with one program.
    roles: tuple[RoleStep, ...] = ()

    @property
    def launcher(self) -> str:
        """Whose variables tell a process its rank, as the job's scripts read it; of roles, each says so itself."""
        return STARTERS[0].names if self.roles else self.topology.launcher

    @property
    def gpus_per_node(self) -> int:
        """The GPUs that the job asks of each node."""
        return job_gpus(self.spec)

    @property
    def containers(self) -> tuple[Entry, ...]:
        """The containers of all programs that run in one."""
        return tuple(filter(None, [role.container for role in self.roles] or [self.container]))

    @property
    def name(self) -> str:
        """The name of the launch."""
        return self.spec.name

    @property
    def sealed(self) -> bool:
        """Whether the environment is one read-only file that the nodes mount."""
        return self.spec.environment.mode == "sealed"

    @property
    def mlflow_run(self) -> bool:
        """Whether the job creates the launch's run in MLflow. A job that names a run itself does not."""
        named = {*self.spec.env, *self.spec.all_secrets}
        return MLFLOW.name in self.spec.trackers and MLFLOW_RUN not in named

    def ref(self, kind: str) -> Ref | None:
        """Return the ref of this kind (code, environment, ...) that the launch needs; None if it needs none."""
        return next((ref for ref in self.refs if ref.kind == kind), None)

    def runs_dir(self) -> str:
        """Return the directory of all generations of this key."""
        return self.run_dir[: -len(self.token) - 1]


# Lines of the header that concern the batch script, or the job as a whole.
OF_THE_SCRIPT = (
    *("job-name", "dependency", "comment", "output", "open-mode", "chdir", "export", "signal"),
    *("mail-type", "mail-user"),
)
# The folders of the runs and of the checkpoints.
Places = Optional[tuple[str, Optional[str]]]


def plan(spec: LaunchSpec, merged: Merged, inputs: Inputs, site: Site, container_places: Places = None) -> Plan:
    """Plan a launch. Raises SpecError. `container_places`: what a sweep's container mounts for runs and checkpoints."""
    refs = site.refs(inputs, spec)
    key = launch_key(spec, inputs.keyed(spec) | site.keyed(spec))
    token = generation_token(key)
    runs_dir = f"{site.state_root}/runs/{spec.name}/{short_key(key)}"
    runtime_dir = f"{site.state_root}/runtime/{inputs.runtime}"
    built = {ref.key: ref.path for ref in refs if ref.kind == ENVIRONMENT.name}
    environments = Environments(spec, merged, site, inputs, built)
    trackers = chosen(spec.trackers, site.settings.trackers)
    of_all = _named(refs)
    of_all += tracker_variables(spec, merged, trackers, _tracked(spec, key, token, runs_dir, inputs.commit))
    exported = environments.variables(spec) + of_all
    runs_mounted, checkpoints = container_places or (runs_dir, spec.checkpoint.dir)
    inside = _environments_inside(spec, inputs, site, refs)
    read = [*(posixpath.dirname(artifact.path) for artifact in inputs.after), *mounted(refs)]
    containers = _Containers(spec, site, runs_mounted, checkpoints, inside, read, runtime_dir, _built(spec, site, refs))

    def container_of(program: LaunchSpec) -> Entry | None:
        return containers.of(program, [*environments.variables(program), *of_all])

    container = container_of(spec) if spec.one_container else None
    context = Context(
        spec=spec,
        site=site,
        topology=topology(spec, site.settings.launchers),
        job_name=f"{spec.name}.{short_key(key)}.{token}",
        run_dir=f"{runs_dir}/{token}",
        after=inputs.after,
        container=container,
        given=frozenset(merged.origins),
    )
    return Plan(
        key=key,
        token=token,
        spec=spec,
        topology=context.topology,
        job=context.job,
        header=_header(context, 0),
        further=tuple(_header(context, number) for number in range(1, len(context.components))),
        step=_step(context),
        probe=tuple(option for aspect in ASPECTS for option in aspect.probe(context)),
        exports=(*_exports(context), *script.for_its_steps(spec, _names(spec, exported))),
        argv=_argv(spec, environments.python(spec)),
        variables=tuple(exported),
        python=environments.python(spec),
        run_dir=context.run_dir,
        runtime_dir=runtime_dir,
        refs=(*refs, *_datasets(spec)),
        container=container,
        environment_dir=environments.folder(spec),
        caches=site.caches,
        conda=inputs.conda(spec),
        environments_inside=inside,
        trackers=trackers,
        judge=site.judge(spec),
        roles=steps(context, _step, _argv, environments, container_of),
    )


@dataclass(frozen=True)
class _Containers:
    """What the containers of a launch have in common: the folders of runs, checkpoints and environments made inside,
    those that are read, and the image that is built for the job.
    """

    spec: LaunchSpec
    site: Site
    runs_dir: str
    checkpoints: str | None
    environments: str
    read: Sequence[str]
    runtime: str
    built: str | None

    def of(self, program: LaunchSpec, given: Sequence[Variable]) -> Entry | None:
        """Return what a program runs in; None without a container. `given`: its variables."""
        spec = self.spec
        data = [source.folder for source in program.data.values()]
        return entry(
            dataclasses.replace(program, checkpoint=dataclasses.replace(spec.checkpoint, dir=self.checkpoints)),
            runs_dir=self.runs_dir,
            built=self.built if program.container == spec.container else None,
            environments=self.environments,
            places=[*self.read, *data, self.runtime, *filter(None, [program.environment.path])],
            writable=[self.site.caches] if self.site.caches else [],
            variables=_names(spec, given),
            own=self.site.settings.containers,
        )


def _names(spec: LaunchSpec, given: Sequence[Variable]) -> list[str]:
    """Return the names of the variables that a launch sets, with the one that its job finds out."""
    return [*(variable.name for variable in given), *([MLFLOW_RUN] if MLFLOW.name in spec.trackers else [])]


def _header(context: Context, number: int) -> Options:
    """Return the lines of a component of the job. Only the first has a batch script."""
    component = dataclasses.replace(context, spec=context.components[number])
    options = tuple(option for aspect in ASPECTS for option in aspect.header(component))
    if not number:
        return options
    # Under the name of the first it would wait for that, which is `singleton`, and be taken for the launch.
    name = ("job-name", f"{context.job_name}.{next(iter(component.spec.roles))}")
    return (name, *(option for option in options if option[0] not in OF_THE_SCRIPT))


def _step(context: Context) -> Options:
    """Return the options of the step of a program."""
    return tuple(option for aspect in ASPECTS for option in aspect.step(context))


def _built(spec: LaunchSpec, site: Site, refs: Sequence[Ref]) -> str | None:
    """Return the file or folder of the image that is built for the job; None if none is."""
    image = _path(refs, IMAGE)
    return f"{image}/{built_file(spec.container.runtime, site.settings.containers)}" if image else None


def _named(refs: Sequence[Ref]) -> list[Variable]:
    """Return the variables in which the ranks find the inputs that the job names by their keys."""
    kinds = [(ref, ref.declared) for ref in refs]
    return [
        Variable(kind.variable, ref.path, f"{kind.option} names it", kind.name) for ref, kind in kinds if kind.option
    ]


def _exports(context: Context) -> tuple[tuple[str, str], ...]:
    """Return the variables of all aspects. Two aspects may export the same one."""
    return tuple({name: value for aspect in ASPECTS for name, value in aspect.exports(context)}.items())


def _environments_inside(spec: LaunchSpec, inputs: Inputs, site: Site, refs: Sequence[Ref]) -> str:
    """Return where jobs make the environment inside the image: if there are packages for one, and a container."""
    image = _built(spec, site, refs) or spec.container.image
    if not inputs.packages or not image or spec.container.runtime == "none":
        return ""
    return site.environments_inside(inputs.packages, image)


def _tracked(spec: LaunchSpec, key: str, token: str, runs_dir: str, commit: str | None) -> dict[str, str]:
    """Return what the trackers are told about a launch: the names of the run and its group, tags, the run directory."""
    group = f"{spec.name}-{short_key(key)}"
    tags = [f"key-{short_key(key)}", f"generation-{token}", *([f"commit-{commit[:12]}"] if commit else [])]
    known = {"run": f"{group}-{token}", "group": group, "tags": ",".join(tags), "run_dir": f"{runs_dir}/{token}"}
    return {**known, "commit": commit or ""}


def _path(refs: Sequence[Ref], kind: InputKind) -> str | None:
    ref = first(refs, kind)
    return ref.path if ref else None


def _datasets(spec: LaunchSpec) -> list[Ref]:
    staged = sorted({(source.key, source.tree) for source in spec.all_data.values() if source.tree})
    packed = {source.key for source in spec.all_data.values() if source.file}
    return [
        Ref(DATASET.name, key, path, sha256=digest_token(key) if key in packed else "") for key, path in staged if path
    ]


def _argv(spec: LaunchSpec, python: str) -> tuple[str, ...]:
    if spec.script is not None:
        return spec.script_args
    if spec.shell is not None:
        return ("/bin/bash", "-o", "pipefail", "-c", spec.shell)
    if spec.command[0].endswith(".py"):
        return (python, *spec.command)
    return spec.command


def contract(spec: LaunchSpec, settings: ClusterSettings | None = None) -> JsonObject:
    """Return the content of contract.json: what the runtime in the job needs to check the artifact, and to say where
    the launch is found in its trackers. `settings`: what the cluster declares.
    """
    declared = settings or ClusterSettings()
    trackers = [kind.found() for kind in chosen(spec.trackers, declared.trackers)]
    artifact: JsonObject | None = dataclasses.asdict(spec.artifact) if spec.artifact else None
    judge = declared.artifact_formats.get(spec.artifact.format) if spec.artifact else None
    return {
        "artifact": {**artifact, "reader": judge.reader()} if artifact and judge else artifact,
        **({"trackers": trackers} if trackers else {}),
    }


def manifest(plan: Plan, merged: Merged, facts: Mapping[str, object]) -> JsonObject:
    """Return launch.json: the spec with the origin of each value, the digests and the versions. It is a runnable spec
    itself.
    """
    return {
        "rankzero_launch": 1,
        "name": plan.name,
        "key": plan.key,
        "spec": merged.data,
        "origins": merged.origins,
        "world_size": plan.topology.world_size,
        **({"roles": [step.record() for step in plan.roles]} if plan.roles else {}),
        **({"launcher": plan.topology.starter.record()} if plan.topology.starter.own else {}),
        **(
            {"container": own[0]} if (own := [made.kind.record for made in plan.containers if made.kind.record]) else {}
        ),
        **({"artifact_format": plan.judge.record()} if plan.judge else {}),
        **({"trackers": rows} if (rows := [kind.record() for kind in plan.trackers if kind.own]) else {}),
        "refs": [ref.record() for ref in plan.refs],
        # The folder's name is the digest of its files.
        "runtime": plan.runtime_dir,
        "variables": [dataclasses.asdict(variable) for variable in plan.variables],
        **facts,
    }
