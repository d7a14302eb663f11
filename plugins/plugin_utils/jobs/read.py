# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers of a job on the controller: job files, cluster settings, overrides.

A job file is data: every plain scalar stays text (YAML's types would turn 12:00:00 into 43200), nothing in it is
templated, tags and merge keys are refused. `null`, `~` and an empty value delete a value that a lower layer has set.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.allowances import refused
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, Merged, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import (
    further_arguments,
    override_layer,
    parse_cluster,
    split_cluster,
    with_arguments,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import nearest, suggestion
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.script_file import script_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.documents import json_document, text_document

# The layer of a job that is given as a command line of sbatch.
COMMAND_LINE = "the command line of sbatch"
_KINDS: dict[type, str] = {type(None): "nothing: it is empty", list: "a list; remove the `-` before its first key"}


def _what_yaml_met(error: yaml.YAMLError, text: str) -> str:
    """What is wrong with the text, and how to mend it where that is known."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if not problem or mark is None:
        return str(error)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return f"{problem}; indent with spaces"
    opened = getattr(error, "context_mark", None)
    if opened is not None and "flow" in str(getattr(error, "context", "")):
        return f"{problem}; the bracket opened in line {opened.line + 1} is not closed"
    if "mapping values are not allowed" in problem:
        return f"{problem}; quote a value that contains a colon, and indent all keys of a section alike"
    return str(problem)


def parse_job_text(text: str, name: str) -> Layer:
    """The layer in a job file's text. Raises RankzeroError with file and line if it is not a YAML map."""
    # launch.json of an earlier run contains its spec. Read as YAML, surrogate pairs of escaped characters would stay
    # apart.
    document = json_document(text, f"job: {name} is not a job file")
    if isinstance(document, dict) and "rankzero_launch" in document:
        spec = document.get("spec")
        if not isinstance(spec, dict):
            raise RankzeroError(f"job: {name} is a launch manifest without a `spec`")
        return Layer(name, spec)
    try:
        data, lines = text_document(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        raise RankzeroError(f"job: {where} is not a job file: {_what_yaml_met(error, text)}") from error
    if not isinstance(data, dict):
        raise RankzeroError(
            f"job: {name} must hold a map with at least `name` and `command`, not {_KINDS.get(type(data), 'text')}"
            + ("; a batch script begins with #!/bin/bash" if "#SBATCH" in text else "")
        )
    # Editors read the schema's address from this key. It says nothing about the job.
    if isinstance(data.get("$schema"), str):
        data = {key: value for key, value in data.items() if key != "$schema"}
    return Layer(name, data, lines)


def load_job_file(path: str, cwd: str) -> tuple[Layer, str]:
    """(layer, folder of the file) of a job file, a batch script, or a command line of sbatch. A relative path starts at
    `cwd`.
    """
    if batch_script.is_command_line(path):
        return _command_line(path), cwd
    full = os.path.join(cwd, os.path.expanduser(path))
    if os.path.isdir(full):
        names = sorted(name for name in os.listdir(full) if name.endswith((".yml", ".yaml", ".json")))
        raise RankzeroError(
            f"job: {full} is a folder; name one job file (files there: {short_list(names)}), or launch a folder of job "
            "files with the playbook reconcile"
        )
    if full.endswith(".py"):
        raise RankzeroError(
            f"job: {path} is a Python program, and a job file is needed that names it, with a line such as "
            f"command: [{os.path.basename(path)}]; `rankzero init` writes one"
        )
    try:
        text = named_text(full, "job")
    except FileNotFoundError:
        near = _similar(path, cwd)
        raise RankzeroError(
            f"job: there is no file {full} on the controller{near or _what_it_may_be(path)}; give a path relative to "
            f"{cwd} or an absolute one"
        ) from None
    shown = os.path.relpath(full, cwd) if full.startswith(cwd + os.sep) else full
    if batch_script.is_script(text):
        # As for sbatch, the folder of the submission is the working directory, not that of the script.
        return Layer(shown, {"script": full}), cwd
    return parse_job_text(text, shown), os.path.dirname(full)


def _what_it_may_be(path: str) -> str:
    """What a job is, where nothing of a similar name is there; what a name of torchx is here."""
    if re.fullmatch(r"(dist|utils|serve|metrics)\.[a-z_]+", path):
        return (
            f"; {path} is a component of torchx, and a job here is a file with a line such as command: [train.py] and, "
            "for ranks by torchrun, launcher: {kind: torchrun}; `rankzero init` writes one"
        )
    return "" if os.sep in path else "; a job is a YAML file or a batch script, and `rankzero init` writes one"


def _command_line(text: str) -> Layer:
    """The layer of `sbatch --nodes=4 train.sh a b`. Raises SpecError with every mistake in it."""
    given = batch_script.read_command_line(text)
    if given.header.problems or given.script is None:
        raise SpecError([f"job: sbatch: {sentence}" for _line, sentence in given.header.problems])
    program = {"script": given.script, "script_args": given.arguments}
    return Layer(COMMAND_LINE, {**given.header.data, **program})


def _job_of_that_name(name: str, cwd: str) -> str:
    """The path of the job file or batch script that is called so without its folder and ending; "" without one."""
    paths: dict[str, str] = {}
    for folder in ("", "jobs"):
        with contextlib.suppress(OSError):
            for file in sorted(os.listdir(os.path.join(cwd, folder))):
                stem, ending = os.path.splitext(file)
                if ending in (".yml", ".yaml", ".json", ".sbatch", ".slurm", ".sh"):
                    paths.setdefault(stem, os.path.join(folder, file))
    return paths.get(nearest(name, list(paths), likeness=0.7) or "", "")


def _similar(path: str, cwd: str) -> str:
    """Ask about a file of a similar name: each part of the path is compared with what is in the folder so far."""
    similar = ""
    if os.sep not in path and "." not in path:
        similar = _job_of_that_name(path, cwd)
    for part in () if similar else os.path.normpath(path).split(os.sep):
        try:
            names = os.listdir(os.path.join(cwd, similar))
        except OSError:
            return ""
        known = part if part in (*names, "", "..") else nearest(part, names, likeness=0.7)
        if known is None:
            return ""
        similar = os.path.join(similar or ("" if part else os.sep), known)
    return f"; did you mean {similar}?"


@dataclass(frozen=True)
class Job:
    """A launch as defined by its layers: the spec, the layer that set each value, the cluster's settings, and the start
    of relative paths. `folder` is the job file's.
    """

    spec: LaunchSpec
    merged: Merged
    settings: ClusterSettings
    code_src: str
    project: str
    folder: str
    containerfile: str | None = None
    context: str | None = None
    script: str | None = None
    # The layer of the #SBATCH lines of a script job, with the line of each value.
    header: Layer | None = None
    roots: Roots = ANYWHERE
    # The folders of the projects of the roles' environments.
    projects: Mapping[str, str] = field(default_factory=dict)

    def header_lines(self) -> list[str]:
        """What becomes of each #SBATCH line of a script job: its key, and what replaces its value."""
        if self.header is None:
            return []
        lines = []
        for path in sorted(self.header.lines, key=self.header.lines.__getitem__):
            # A value of --export may be a secret.
            shown = "" if path.startswith("env.") else f" {_at(self.header.data, path)}"
            own, last = self.header.origin(path), self.merged.origin(path)
            lines.append(f"{own}: {path}{shown}{'' if last == own else f'; replaced by {last}'}")
        return lines

    def at_environments(self, paths: Mapping[str, str]) -> Job:
        """The same job with the places of the conda environments that it names, which were found on the cluster."""

        def spec_at(spec: LaunchSpec) -> LaunchSpec:
            path = paths.get(spec.environment.conda or "", spec.environment.path)
            return replace(spec, environment=replace(spec.environment, path=path))

        def data_at(data: Mapping[str, Any]) -> JsonObject:
            given = data.get("environment") or {}
            path = paths.get(given.get("conda") or "")
            return {**data, **({"environment": {**given, "path": path}} if path else {})}

        roles = {name: replace(role, spec=spec_at(role.spec)) for name, role in self.spec.roles.items()}
        data = data_at(self.merged.data)
        if roles:
            data.update(roles={name: data_at(role) for name, role in data.get("roles", {}).items()})
        return replace(self, spec=replace(spec_at(self.spec), roles=roles), merged=replace(self.merged, data=data))

    def of_role(self, name: str | None) -> Job:
        """The program of a role as a job of its own: of the role that decides if none is named. Raises SpecError."""
        roles = list(self.spec.roles)
        if name is not None and name not in roles:
            known = f"{suggestion(name, roles)}; roles: {', '.join(roles)}" if roles else " of this job, which has none"
            raise SpecError([f"role: {name} is no role{known}"])
        chosen = name or roles[0] if roles else ""
        return replace(self, spec=self.spec.roles[chosen].spec, project=self.projects[chosen]) if roles else self

    @property
    def excluded(self) -> tuple[str, ...]:
        """The patterns of files that are not code. The script of a script job is a file of the launch, and its #SBATCH
        lines say nothing about the result, so it is not code unless it names itself.
        """
        inside = self.script is not None and self.script.startswith(self.code_src.rstrip("/") + "/")
        if not inside or os.path.basename(self.script or "") in (self.spec.script or ""):
            return self.spec.code.exclude
        from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import as_pattern

        return (*self.spec.code.exclude, as_pattern(os.path.relpath(self.script or "", self.code_src)))


def _by_name(value: Any) -> Any:
    """The same value with all its maps in the order of their names.

    Ansible keeps the order of an inventory and ansible-inventory does not: what reads the one renders what the other
    does, byte for byte.
    """
    if isinstance(value, Mapping):
        return {name: _by_name(value[name]) for name in sorted(value, key=str)}
    return list(map(_by_name, value)) if isinstance(value, (list, tuple)) else value


def cluster_settings(cluster: Parameters | None) -> tuple[ClusterSettings, JsonObject, list[str]]:
    """(the cluster's own settings, the layer below the job, the problems of the settings)."""
    own, below = split_cluster(_by_name(cluster or {}))
    settings, problems = parse_cluster(merge([Layer("launch_cluster", own)]))
    return settings, below, problems


def read_job(
    job: str | Parameters | None,
    cluster: Parameters | None,
    overrides: Parameters | None,
    command_line: Parameters | None,
    cwd: str,
) -> Job:
    """Merge and check all layers: cluster, job, overrides of the task, overrides of the command line, in that order.

    job: path of a job file or script, a command line of sbatch, or the spec itself. Raises one SpecError with the
    mistakes of all layers.
    """
    job = _given(job)
    settings, below, mistakes = cluster_settings(cluster)
    roots = Roots.of(settings.code_roots, cwd)
    layer, base = _own_layer(job, roots, cwd)
    problems = [f"launch_cluster.{text}" for text in mistakes]
    above, arguments = _override_layers({"overrides": overrides, "command line": command_line}, problems)
    script = script_of([(layer, base), *zip(above, [cwd] * len(above))], roots, cwd)
    merged = merge([Layer("launch_cluster", below), *(script.layers if script else ()), layer, *above])
    if script:
        merged.data.update(script=script.text)
        problems += script.problems
    problems += with_arguments(merged, arguments)

    def located(path: str, dotted: str) -> str:
        # Paths in a job file and defaults are relative to that file; all others to the working directory.
        origin = merged.origins.get(dotted)
        start = base if origin is None or origin == layer.name or origin.startswith(layer.name + ":") else cwd
        return os.path.normpath(os.path.join(start, os.path.expanduser(path)))

    _in_work_tree(merged, lambda path: located(path, "code.src"))
    spec = validated(merged, problems, settings)

    def build_path(name: str) -> str | None:
        path = getattr(spec.container.build, name, None)
        return located(path, f"container.build.{name}") if path else None

    projects = _projects(spec, merged, located)
    code_src = located(spec.code.src, "code.src")
    not_allowed = [problem for problem in (roots.problem("code.src", code_src), *refused(spec, settings)) if problem]
    if not_allowed:
        raise SpecError(not_allowed)
    return Job(
        spec,
        merged,
        settings,
        code_src=code_src,
        project=next(iter(projects.values())),
        folder=base,
        containerfile=build_path("containerfile"),
        context=build_path("context"),
        script=script.path if script else None,
        header=script.layers[-1] if script else None,
        roots=roots,
        projects=projects,
    )


def _at(data: Any, path: str) -> object:
    """The value at a dotted path."""
    for name in path.split("."):
        data = data[name]
    return data


def _given(job: str | Parameters | None) -> str | Parameters:
    """The job, if it can be one. Raises RankzeroError."""
    if job is None or job == "":
        raise RankzeroError(
            "job: is required: the path of a job file (-e job=jobs/train.yml), or a job spec as a map (launch_job)"
        )
    if not isinstance(job, (str, Mapping)):
        raise RankzeroError(f"job: must be the path of a job file or a job spec as a map, not {job!r}")
    return job


def _projects(spec: LaunchSpec, merged: Merged, located: Callable[[str, str], str]) -> dict[str, str]:
    """The folder of the project of each role's environment, the deciding one first; of "" in a job with one program.
    `located`: the absolute path of a value of an option, which a role has of its own, or from the top of the job.
    """
    option = "environment.project"
    own = {name: f"roles.{name}.{option}" for name in spec.roles}
    return {
        name: located(role.spec.environment.project, own[name] if own[name] in merged.origins else option)
        for name, role in spec.roles.items()
    } or {"": located(spec.environment.project, option)}


def _in_work_tree(merged: Merged, located: Callable[[str], str]) -> None:
    """Make a relative environment.path absolute: it is below the code's folder, as that is on the cluster.

    `located`: the absolute path of a value of code.src. Mistakes in the types of values are found later.
    """
    code, roles = (merged.data.get(section) for section in ("code", "roles"))
    given = code if isinstance(code, dict) else {}
    for program in (merged.data, *(roles.values() if isinstance(roles, dict) else ())):
        environment = program.get("environment") if isinstance(program, dict) else None
        path = environment.get("path") if isinstance(environment, dict) else None
        if isinstance(path, str) and path and not path.startswith(("/", "~")):
            start = str(given.get("in_place") or located(str(given.get("src") or ".")))
            program.update(environment={**(environment or {}), "path": os.path.normpath(os.path.join(start, path))})


def _override_layers(
    overrides: Mapping[str, Parameters | None], problems: list[str]
) -> tuple[list[Layer], list[object]]:
    """(the layers above the job, the further arguments of its program). Mistakes are added to `problems`."""
    layers = []
    arguments: list[object] = []
    for name, values in overrides.items():
        data, mistakes = override_layer(values or {})
        further, wrong = further_arguments(values or {})
        problems += [*mistakes, *wrong]
        arguments += further
        layers.append(Layer(name, data))
    return layers, arguments


def _own_layer(job: str | Mapping[str, Any], roots: Roots, cwd: str) -> tuple[Layer, str]:
    """(the layer of the job itself, the folder that its paths are relative to)."""
    if isinstance(job, Mapping):
        return Layer("the job", job), cwd
    if not batch_script.is_command_line(job):
        roots.check("job", os.path.join(cwd, os.path.expanduser(job)))
    return load_job_file(job, cwd)
