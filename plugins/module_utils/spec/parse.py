# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse merged layers into the typed spec. Reports all mistakes at once, each with its path and origin. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import meant, places, short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec, Role
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, Merged, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import Setup
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import (
    ADDED,
    INHERITED,
    OF_A_ROLE,
    OF_ITS_NODES,
    ROLES,
    WHOLE,
    RoleKeys,
    deciding,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.own import DECLARES

# The override that adds to `command`, or to `script_args`, instead of replacing it. Its short name is also a keyword of
# Ansible's tasks, and Ansible warns of a variable with that name.
ARGUMENTS, SHORT_ARGUMENTS = "program_args", "args"


def further_arguments(values: Parameters) -> tuple[list[object], list[str]]:
    """Return the further arguments of the program that overrides contain, and their mistakes."""
    name = next((name for name in (ARGUMENTS, SHORT_ARGUMENTS) if values.get(name) is not None), ARGUMENTS)
    given = values.get(name)
    if isinstance(given, (list, tuple)):
        return list(given), []
    wrong = f"{name}: must be a list of arguments, such as [--lr, 3e-4], not {t.shown(given)}"
    return [], [] if given is None else [wrong]


def with_arguments(merged: Merged, arguments: Sequence[object]) -> list[str]:
    """Add further arguments to the program of the merged layers. Return the mistakes."""
    if not arguments:
        return []
    program = "script_args" if "script" in merged.data else "command"
    given = merged.data.get(program, [] if program == "script_args" else None)
    if not isinstance(given, list):
        problem = (
            f"{ARGUMENTS}: further arguments are added to the list `command`, which this job does not have; a line in "
            "`shell` can read variables, which `env` sets"
        )
        return [problem]
    merged.data[program] = [*given, *arguments]
    return []


def override_layer(values: Parameters) -> tuple[JsonObject, list[str]]:
    """Return overrides by short name (`nodes`), dotted path (`resources.nodes`) or section (`resources: {nodes: 2}`) as
    a layer's data, and their mistakes.
    """
    names = short_names()
    paths = {*(info.path for info in fields_of(LaunchSpec)), *names.values()}
    lists = {info.path for info in fields_of(LaunchSpec) if info.meta["type"].schema.get("type") == "array"}
    sections = {path.partition(".")[0] for path in paths if "." in path}
    data: dict[str, Any] = {}
    problems = []
    for given, value in values.items():
        name = str(given)
        if name in (ARGUMENTS, SHORT_ARGUMENTS):
            continue
        of_roles = _role_nodes(value) if name == "nodes" else None
        if of_roles is not None:
            for role, nodes in of_roles.items():
                data.setdefault("roles", {}).setdefault(role, {})["nodes"] = nodes
            continue
        if name in sections and isinstance(value, Mapping):
            # Also where the name is a short one, as launcher is for launcher.kind.
            data.setdefault(name, {}).update(value)
            continue
        path = names.get(name, name)
        if path not in paths:
            problems.append(f"override {name}: {_unknown(name, paths, sorted(names))}")
            continue
        if name in names and path in lists and isinstance(value, str):
            # `-e exclude=node07` on a command line.
            value = [value]
        target = data
        *parents, leaf = path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = value
    return data, problems


def _role_nodes(value: object) -> dict[str, Any] | None:
    """Return role -> nodes of an override such as `trainer=4,rollout=2`, or a map; None where it is a number."""
    if isinstance(value, Mapping):
        return {str(name): nodes for name, nodes in value.items()}
    if not isinstance(value, str) or "=" not in value:
        return None
    pairs = [part.partition("=") for part in value.split(",")]
    return {name.strip(): nodes.strip() for name, _equals, nodes in pairs}


def _unknown(name: str, paths: Collection[str], short: Sequence[str]) -> str:
    """What is wrong with an override that names no key, and which names there are."""
    whole = next((path for path in sorted(paths) if name.startswith(f"{path}.")), None)
    if whole:
        return f"{whole} is set as a whole; give all of its value as {whole} (on a command line as JSON)"
    if "." not in name:
        near = places().get(name.replace("-", "_"))
        hint = f"; did you mean {near}?" if near else t.suggestion(name, short)
        return f"unknown{hint}; short names: {', '.join(short)}"
    section = name.partition(".")[0]
    known = sorted(path for path in paths if path.startswith(f"{section}."))
    listed = f"known there: {', '.join(known)}" if known else f"sections: {', '.join(_sections(paths))}"
    return f"unknown{t.suggestion(name, sorted(path for path in paths if '.' in path))}; {listed}"


def _sections(paths: Collection[str]) -> list[str]:
    return sorted({path.partition(".")[0] for path in paths if "." in path})


Table = TypeVar("Table")


@dataclass(frozen=True)
class Parsed:
    """The result of parsing: the spec (defaults where a value is wrong), the mistakes, and the paths with mistakes."""

    spec: LaunchSpec
    problems: list[str]
    bad_paths: set[str]


def parse(merged: Merged) -> Parsed:
    """Parse every value of the merged layers. Mistakes are collected, each with its path and its origin."""
    if merged.data.get("roles"):
        return _with_roles(merged)
    reader = _Reader(merged)
    spec = reader.table(LaunchSpec, merged.data, "")
    return Parsed(spec, merged.problems + reader.problems, reader.bad_paths)


def _with_roles(merged: Merged) -> Parsed:
    """Parse a job with roles. Each is read as a job of its own: what it says, over what the job says at the top. The
    spec of the launch is that of the role that decides.
    """
    top = {name: value for name, value in merged.data.items() if name != "roles"}
    problems, bad_paths, roles = [*merged.problems], set[str](), []
    given = ROLES.parse({"none": {}})
    first, path = "", "roles"
    try:
        given = ROLES.parse(merged.data["roles"])
        path, artifact = "artifact.role", top.get("artifact")
        chosen = artifact.get("role") if isinstance(artifact, Mapping) else None
        first = deciding([*given], None if chosen is None else str(chosen))
    except t.Invalid as error:
        problems.append(f"{path}: {error} (set in {merged.origin(path) or merged.origin('roles')})")
        bad_paths.add(path)
    for path, sentence in _misplaced(top, given):
        problems.append(f"{path}: {sentence} (set in {merged.origin(path)})")
        bad_paths.add(path)
        given.pop(path.partition(".")[2] if path.startswith("roles.") else "", None)
    for name in sorted(given, key=lambda name: name != first) if first else ():
        inherited = top if name == first else {key: top[key] for key in INHERITED if key in top}
        reader = _Reader(merged, name)
        roles.append(reader.role(inherited, given[name]))
        problems += [problem for problem in reader.problems if problem not in problems]
        bad_paths |= reader.bad_paths
    spec = LaunchSpec()
    if roles:
        # A mistake in it has been named with the first role.
        above = top.get("setup")
        setup = _Reader(merged).table(Setup, above, "setup.") if isinstance(above, Mapping) else Setup()
        spec = dataclasses.replace(roles[0].spec, roles={role.name: role for role in roles}, setup=setup)
    return Parsed(spec, problems, bad_paths)


def _misplaced(top: Mapping[str, Any], roles: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(path, what is wrong) of what no role of a job takes, and of a role that is nothing but a number of nodes."""
    wrong = [
        (key, "each role has its own, so none is at the top") for key in ("command", "shell", "script") if key in top
    ]
    own = [name for name, keys in roles.items() if set(keys) != {"nodes"}]
    for name in [name for name in roles if name not in own]:
        wrong.append((f"roles.{name}", f"is no role of this job{t.suggestion(name, own)}; roles: {', '.join(own)}"))
    resources = top.get("resources")
    if isinstance(resources, Mapping) and "nodes" in resources and all("nodes" in roles[name] for name in own):
        example = ",".join(f"{name}={roles[name]['nodes']}" for name in own)
        wrong.append(("resources.nodes", f"each role has its own number; to change some, give nodes as {example}"))
    return wrong


def split_cluster(cluster: Parameters) -> tuple[JsonObject, JsonObject]:
    """Split `launch_cluster` into (its own settings, the layer below the job).

    An unknown key goes to the part with the most similar known key, so that its error suggests that key. Of `trackers`,
    records are settings, and options of a tracker belong to the layer.
    """
    own = [attribute.name for attribute in dataclasses.fields(ClusterSettings)]
    job = [attribute.name for attribute in dataclasses.fields(LaunchSpec)]

    def is_setting(key: object) -> bool:
        return key in own or (key not in job and t.nearest(str(key), [*own, *job]) in own)

    settings = {key: value for key, value in cluster.items() if is_setting(key)}
    below = {key: value for key, value in cluster.items() if key not in settings}
    trackers = settings.pop("trackers", None)
    if isinstance(trackers, Mapping):
        records = {name: row for name, row in trackers.items() if isinstance(row, Mapping) and DECLARES in row}
        settings.update({"trackers": records} if records else {})
        trackers = {name: value for name, value in trackers.items() if name not in records}
    return settings, {**below, **({"trackers": trackers} if trackers else {})}


def parse_cluster(merged: Merged) -> tuple[ClusterSettings, list[str]]:
    """Parse the cluster's own settings; returns them and their mistakes."""
    reader = _Reader(merged)
    return reader.table(ClusterSettings, merged.data, ""), merged.problems + reader.problems


def _as_map(table: type[Any], value: Any) -> str:
    """How to write a value that is one of the choices of a section's field, such as `launcher: torchrun`."""
    for field in dataclasses.fields(table):
        kind = field.metadata.get("type")
        names = () if kind is None else (*kind.schema.get("enum", ()), *kind.schema.get("examples", ()))
        if isinstance(value, str) and value in names:
            return f"; write {{{field.name}: {value}}}"
    # What a section says of itself: the key that a text in its place is for, written as there.
    meant_for = getattr(table, "TEXT_IS", "")
    short = isinstance(value, str) and len(value) <= 60
    return f"; write {meant_for.format(json.dumps(value) if short else '...')}" if meant_for else ""


def _leaf_paths(data: Parameters, prefix: str = "") -> list[str]:
    """The dotted paths of the values in a layer; a map that is a value itself counts with its keys."""
    paths = []
    for name, value in data.items():
        paths += _leaf_paths(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else [f"{prefix}{name}"]
    return paths


def _added(data: JsonObject, above: Parameters, own: Parameters) -> JsonObject:
    """The values of a role, whose lines of set-up come after those of the job."""
    first, then = above.get("setup"), own.get("setup")
    if not isinstance(first, Mapping) or not isinstance(then, Mapping):
        return data
    lists = {name: (first.get(name), then.get(name)) for name in ADDED}
    joined = {name: [*a, *b] for name, (a, b) in lists.items() if isinstance(a, list) and isinstance(b, list)}
    return {**data, "setup": {**data["setup"], **joined}}


class _Reader:
    """`role`: the role whose values are read; what stands in it is named there."""

    def __init__(self, merged: Merged, role: str = "") -> None:
        self.merged = merged
        self.problems: list[str] = []
        self.bad_paths: set[str] = set()
        self.name = role
        self.own: dict[str, str] = {}

    def role(self, inherited: Parameters, own: Mapping[str, Any]) -> Role:
        """The role of this reader. `inherited`: what it has from the top of the job; `own`: what stands in it."""
        keys = {attribute.name for attribute in dataclasses.fields(RoleKeys)}
        program, problems = override_layer({name: value for name, value in own.items() if name not in keys})
        here, allowed = f"roles.{self.name}", [*OF_A_ROLE, *sorted(keys)]
        self.problems += [problem.replace("override ", f"{here}.", 1) for problem in problems]
        self.own = {short_names().get(path, path): f"{here}.{path}" for path in _leaf_paths(own)}
        for path in _leaf_paths(program):
            if not any(path == known or path.startswith(f"{known}.") for known in OF_A_ROLE):
                self.complain(
                    path,
                    f"is of the whole launch: write it at the top of the job; a role may have {', '.join(allowed)}",
                )
        above = {name: value for name, value in inherited.items() if name not in WHOLE or name not in program}
        spec = self.table(LaunchSpec, _added(merge([Layer("", above), Layer("", program)]).data, above, program), "")
        started = self.table(RoleKeys, {name: value for name, value in own.items() if name in keys}, "")
        for path in (f"resources.{name}" for name in OF_ITS_NODES if started.share):
            if path in _leaf_paths(program):
                self.complain(path, "is of nodes, and a role with share has those of another; write it in that role")
        # The nodes of a job with roles differ in their ranks: their CPUs are not shared out by a count.
        resources = dataclasses.replace(spec.resources, cpus_per_rank=spec.resources.cpus_per_rank or 1)
        return Role(self.name, dataclasses.replace(spec, resources=resources), started)

    def complain(self, path: str, sentence: str) -> None:
        known = next((name for name in self.own if path == name or path.startswith(f"{name}.")), None)
        if known is not None:
            path = self.own[known] + path[len(known) :]
        elif any(name.startswith(f"{path}.") for name in self.own):
            path = f"roles.{self.name}.{path}"
        origin = self.merged.origin(path)
        self.bad_paths.add(path)
        self.problems.append(f"{path}: {sentence}" + (f" (set in {origin})" if origin else ""))

    def table(self, table: type[Table], data: Mapping[str, Any], prefix: str) -> Table:
        known = {attribute.name: attribute for attribute in dataclasses.fields(table)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        for name, value in data.items():
            path = prefix + name
            attribute = known.get(name)
            if attribute is None:
                note = getattr(table, "UNKNOWN", "")
                near = t.suggestion(name, list(known)) if note else meant(name, list(known), value)
                self.complain(path, f"unknown key{near}; known here: {', '.join(known)}{'' if near else note}")
                continue
            nested = attribute.metadata.get("section")
            if nested and isinstance(value, Mapping):
                values[name] = self.table(nested, value, path + ".")
            elif nested:
                keys = ", ".join(inner.name for inner in dataclasses.fields(nested))
                self.complain(
                    path, f"must be a map with some of the keys {keys}; not {t.shown(value)}{_as_map(nested, value)}"
                )
            else:
                try:
                    values[name] = attribute.metadata["type"].parse(value)
                except t.Invalid as error:
                    template = isinstance(value, str) and "{{" in value
                    self.complain(path, f"{error}{'; a job file is no template, write the value' if template else ''}")
        for name, attribute in known.items():
            if attribute.metadata.get("required") and name not in data:
                self.complain(prefix + name, f"is required: {attribute.metadata['doc']}")
        return table(**values)
