# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the values of a spec, checked all at once before anything is rendered. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import container, inside_job
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import parallelism
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import topology
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import conflicts, reserved
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import checkpoint, preflight, slurm_options, sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import Setting
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse, short_names

# What a shell would take for a variable, as $NAME or ${NAME}.
_EXPANDED = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
# A rule yields the paths it looked at and a sentence. It is dropped where one of the paths is already wrong.
Finding = tuple[Sequence[str], str]


def validated(
    merged: Merged, known_problems: Sequence[str] = (), fabrics: Mapping[str, tuple[Setting, ...]] | None = None
) -> LaunchSpec:
    """The spec of merged layers, or a SpecError with all mistakes: those known, of single values, between values."""
    parsed = parse(merged)
    problems = [*known_problems, *parsed.problems]
    for paths, sentence in [*_findings(parsed.spec), *conflicts(parsed.spec, fabrics or {})]:
        if not any(_touches(path, parsed.bad_paths) for path in paths):
            origins = list(dict.fromkeys(origin for path in paths if (origin := merged.origin(path))))
            problems.append(sentence + (f" (set in {', '.join(origins)})" if origins else ""))
    if problems:
        raise SpecError(problems)
    return parsed.spec


def _touches(path: str, bad_paths: set[str]) -> bool:
    return any(path == bad or path.startswith(bad + ".") or bad.startswith(path + ".") for bad in bad_paths)


def _findings(spec: LaunchSpec) -> Iterator[Finding]:
    yield from _program(spec)
    yield from _placement(spec)
    yield from slurm_options.findings(spec)
    yield from _environment(spec)
    yield from _artifact(spec)
    yield from parallelism.findings(spec)
    yield from checkpoint.findings(spec.checkpoint, spec.resources.time, spec.resources.spares)
    yield from preflight.findings(spec.preflight, spec.resources, spec.checkpoint)
    yield from container.findings(spec)
    yield from inside_job.findings(spec)
    yield from _staging(spec)
    yield from sweep.findings(spec, short_names())


def _program(spec: LaunchSpec) -> Iterator[Finding]:
    if spec.command and spec.shell:
        yield ["command", "shell"], "command, shell: both are given; keep one"
    if not spec.command and not spec.shell:
        yield ["command", "shell"], "command: is required (a list of arguments), or shell (a line for bash)"
    if spec.command and not spec.command[0].strip():
        yield ["command"], "command: the program (first item) is empty"


def _placement(spec: LaunchSpec) -> Iterator[Finding]:
    gpus, ranks = spec.resources.gpus_per_node, topology(spec).ranks_per_node
    if gpus and ranks != gpus:
        yield (
            ["launcher.ranks_per_node", "resources.gpus_per_node"],
            (
                f"launcher.ranks_per_node: {ranks} ranks on nodes with {gpus} GPUs: local ranks would map to wrong "
                f"GPUs; set it to {gpus} or auto, or resources.gpus_per_node to {ranks}"
            ),
        )
    if spec.launcher.kind == "standalone" and spec.resources.nodes != 1:
        yield (
            ["launcher.kind", "resources.nodes"],
            f"launcher.kind: standalone runs on one node, not on {spec.resources.nodes}; use torchrun",
        )
    if spec.launcher.rendezvous != "static" and spec.launcher.kind != "torchrun":
        yield (
            ["launcher.rendezvous", "launcher.kind"],
            f"launcher.rendezvous: {spec.launcher.rendezvous} needs launcher.kind torchrun, not {spec.launcher.kind}",
        )
    seen: set[str] = set()
    for text in spec.resources.gres:
        name = re.sub(r":[0-9].*", "", text)
        if name.partition(":")[0] == "gpu":
            sentence = "is of GPUs; use resources.gpus_per_node and resources.gpu_type"
        elif name in ("none", "help"):
            sentence = "is no resource, but a word of sbatch; leave it out"
        elif name in seen:
            sentence = f"names {name} once more; give its whole count once"
        else:
            sentence = ""
        seen.add(name)
        if sentence:
            yield ["resources.gres"], f"resources.gres: {text} {sentence}"
    if spec.resources.gpu_type and not gpus:
        yield (
            ["resources.gpu_type", "resources.gpus_per_node"],
            f"resources.gpu_type: {spec.resources.gpu_type} without resources.gpus_per_node; say how many",
        )


def _environment(spec: LaunchSpec) -> Iterator[Finding]:
    for where, names in (("env", spec.env), ("secrets", spec.secrets)):
        for name in names:
            reason = reserved(name)
            if reason:
                yield [f"{where}.{name}"], f"{where}.{name}: may not be set: it {reason}"
    for name, value in spec.env.items():
        if any(name in both for both in _EXPANDED.findall(value)):
            yield (
                [f"env.{name}"],
                (
                    f"env.{name}: names itself, but a value is taken as it is written; put "
                    f"'export {name}=...' into setup.commands instead"
                ),
            )
    yield from _threads(spec)
    wanted = spec.environment
    if (wanted.mode == "path") != (wanted.path is not None):
        sentence = (
            "environment.path: is required with environment.mode path: the folder of a venv or conda environment"
            if wanted.mode == "path"
            else f"environment.path: has no effect with environment.mode {wanted.mode}; set the mode to path"
        )
        yield ["environment.path", "environment.mode"], sentence
    yield from _packages(spec)
    for name in sorted(set(spec.env) & set(spec.secrets)):
        yield [f"env.{name}", f"secrets.{name}"], f"env.{name}: is also a secret; keep it under secrets only"


def _packages(spec: LaunchSpec) -> Iterator[Finding]:
    """Environments that each node makes for itself, and those of conda."""
    wanted = spec.environment
    if (wanted.mode == "conda") != (wanted.file is not None):
        yield (
            ["environment.file", "environment.mode"],
            "environment.file: is required with environment.mode conda: environment.yml, an explicit lock or an archive"
            if wanted.mode == "conda"
            else f"environment.file: has no effect with environment.mode {wanted.mode}; set the mode to conda",
        )
    for name, given in (("extras", wanted.extras), ("python", wanted.python), ("torch", wanted.torch != "auto")):
        if wanted.mode == "conda" and given:
            yield (
                [f"environment.{name}", "environment.mode"],
                f"environment.{name}: has no effect with environment.mode conda; write it into environment.file",
            )
    if wanted.mode not in ON_NODES:
        if wanted.platform:
            yield (
                ["environment.platform", "environment.mode"],
                (
                    f"environment.platform: has no effect with environment.mode {wanted.mode}; it goes with "
                    f"{' and '.join(ON_NODES)}"
                ),
            )
        return
    if wanted.platform and not wanted.python:
        yield (
            ["environment.platform", "environment.python"],
            f"environment.platform: {wanted.platform} needs environment.python as well, the version on the nodes",
        )
    if spec.container.runtime != "none":
        yield (
            ["environment.mode", "container.runtime"],
            (
                f"environment.mode: {wanted.mode} makes an environment for the node, which a container of runtime "
                f"{spec.container.runtime} does not see; use venv, or the Python of the image (none)"
            ),
        )


def _threads(spec: LaunchSpec) -> Iterator[Finding]:
    """Ranks x threads against the CPUs that Slurm is asked for."""
    shape = topology(spec)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        # Nested levels are given as a list; the first one counts.
        first = spec.env.get(name, "").split(",")[0].strip()
        threads = int(first) if first.isdecimal() and len(first) < 10 else 0
        if threads * shape.ranks_per_node > shape.cpus_per_node:
            yield (
                [f"env.{name}", "resources.cpus_per_rank", "launcher.ranks_per_node"],
                (
                    f"env.{name}: {shape.ranks_per_node} ranks x {threads} threads = "
                    f"{shape.ranks_per_node * threads} on {shape.cpus_per_node} CPUs of a node; set "
                    f"resources.cpus_per_rank to {threads}, or leave the variable out"
                ),
            )


def _staging(spec: LaunchSpec) -> Iterator[Finding]:
    if spec.preflight.stage != "always":
        return
    if not spec.preflight.enabled:
        yield (
            ["preflight.stage", "preflight.enabled"],
            "preflight.stage: always needs the preflight, which does the copying; leave preflight.enabled out",
        )
    if spec.container.runtime != "none":
        yield (
            ["preflight.stage", "container.runtime"],
            (
                f"preflight.stage: always has no effect with container.runtime {spec.container.runtime}, which mounts "
                "code and environment from shared storage; leave it out"
            ),
        )


def _artifact(spec: LaunchSpec) -> Iterator[Finding]:
    if spec.artifact is None:
        return
    path = spec.artifact.path
    if posixpath.isabs(path) or path in (".", "..") or path.startswith("../"):
        yield (
            ["artifact.path"],
            (
                f"artifact.path: {path!r} is outside the run directory; give a path relative to the ranks' working "
                "directory"
            ),
        )
    if (spec.artifact.format == "directory") != bool(spec.artifact.complete):
        yield (
            ["artifact.complete", "artifact.format"],
            (
                "artifact.complete: names the file that is written last into a directory; it goes with artifact.format "
                "directory, which needs it"
            ),
        )
    if spec.artifact.complete and spec.artifact.complete.startswith((".." + "/", "/")):
        yield (
            ["artifact.complete"],
            f"artifact.complete: {spec.artifact.complete!r} is outside the directory; give a path in it",
        )
    if spec.artifact.require and spec.artifact.format == "any":
        yield (
            ["artifact.require", "artifact.format"],
            (
                "artifact.require: needs an artifact.format that has values (json, yaml, csv, safetensors, directory), "
                "not any"
            ),
        )
    if spec.artifact.grace and spec.artifact.then != "end":
        yield (
            ["artifact.grace", "artifact.then"],
            f"artifact.grace: {spec.artifact.grace} has no effect unless artifact.then is end",
        )
