# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the roles of a launch: who waits for whom, and what a launch with roles cannot have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.roles import PORT, named_in
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import components
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec, Role
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import FAIL, OF_ITS_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, suggestion


class Roles(Aspect):
    """Several programs in one launch."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield gates that never open, names that are no role, and what does not go with roles."""
        if not spec.roles:
            if spec.artifact and spec.artifact.role:
                yield ["artifact.role", "roles"], "artifact.role: this job has no roles; leave it out"
            return
        roles = spec.roles
        first, *_others = roles
        for role in roles.values():
            here = f"roles.{role.name}"
            yield from _beside(here, role, spec)
            if role.name == first and role.keys.on_exit != FAIL:
                sentence = f"{role.name} decides: the launch ends with it; leave on_exit out, or write it in the others"
                yield [f"{here}.on_exit"], f"{here}.on_exit: {sentence}"
            for name in role.keys.after_ready:
                yield from _gate(here, role, name, roles)
            for name in named_in([*role.spec.command, role.spec.shell or ""]):
                if name not in roles:
                    known = f"{suggestion(name, list(roles))}; roles: {', '.join(roles)}"
                    yield [here], f"{here}.command: {{{name}. ...}} names no role{known}"
            listens = any(PORT in word for word in [*role.spec.command, role.spec.shell or ""])
            if role.keys.ready and role.keys.ready.way == "http" and not listens:
                sentence = f"{here}.ready: asks the port of each process, which the command does not get; write {PORT}"
                yield [f"{here}.ready", here], f"{sentence} where the program takes its port"
        yield from _cycles(roles)
        yield from _not_with_roles(spec, settings)


def _beside(here: str, role: Role, spec: LaunchSpec) -> Iterator[Finding]:
    path, name, nodes = f"{here}.share", spec.host(role), role.spec.resources.nodes
    host = spec.roles.get(name)
    first, *_others = spec.roles.values()
    if name and role is first:
        yield [path], f"{path}: {role.name} decides; write share in the roles that are to run beside it"
    elif name and host is None:
        known = f"{suggestion(name, list(spec.roles))}; roles: {', '.join(spec.roles)}"
        yield [path], f"{path}: {name} is no role{known}; write true for the one that decides"
    elif host and spec.host(host):
        yield (
            [path, f"roles.{name}.share"],
            f"{path}: {name} has no nodes of its own; name {spec.host(host)}, whose nodes it shares",
        )
    elif host and nodes > host.spec.resources.nodes:
        most = host.spec.resources.nodes
        yield (
            [path, f"{here}.nodes", f"roles.{name}.nodes"],
            f"{here}.nodes: {nodes} nodes, but {name}, whose nodes it shares, has {most}; take at most as many",
        )


def _gate(here: str, role: Role, name: str, roles: Mapping[str, Role]) -> Iterator[Finding]:
    path = f"{here}.after_ready"
    if name == role.name:
        yield [path], f"{path}: {name} would wait for itself"
    elif name not in roles:
        yield [path], f"{path}: {name} is no role{suggestion(name, list(roles))}; roles: {', '.join(roles)}"
    elif roles[name].keys.ready is None:
        yield [path, f"roles.{name}"], f"{path}: {name} has no `ready`, which says when it is"


def _cycles(roles: Mapping[str, Role]) -> Iterator[Finding]:
    """Yield each circle of roles that wait for each other, once."""
    seen: set[frozenset[str]] = set()
    for start in roles:
        paths = [[start]]
        while paths:
            path = paths.pop()
            for name in roles[path[-1]].keys.after_ready if path[-1] in roles else ():
                if name == start and len(path) > 1:
                    if frozenset(path) not in seen:
                        seen.add(frozenset(path))
                        circle = " -> ".join([*path, start])
                        yield [f"roles.{each}.after_ready" for each in path], f"roles: wait for each other: {circle}"
                elif name not in path and name in roles:
                    paths.append([*path, name])


def _built_beside(role: Role, first: Role, store_shared: bool) -> Iterator[Finding]:
    """Yield a role whose own environment would be made by the job, or copied to nodes without the store."""
    wanted, path = role.spec.environment, "environment.mode"
    if not wanted.built or wanted == first.spec.environment:
        return
    paths = [f"roles.{role.name}.{path}", path, f"roles.{first.name}.{path}"]
    if wanted.mode in ON_NODES:
        sentence = f"only {first.name}, which decides, may have the mode {wanted.mode}; use venv or sealed"
        yield paths, f"{paths[0]}: {sentence}, which are built once on the cluster"
    elif not store_shared:
        sentence = f"only the environment of {first.name} is copied to nodes that do not see the store"
        yield paths, f"{paths[0]}: {sentence} (launch_cluster.store_shared); use {{mode: path, path: ...}}"


def _two_of_a_name(section: str, roles: Mapping[str, Role]) -> Iterator[Finding]:
    """Yield names that two roles give to different things: the job has one of each."""
    known: dict[str, tuple[str, object]] = {}
    for role in roles.values():
        for name, value in getattr(role.spec, section).items():
            other, first = known.setdefault(name, (role.name, value))
            if value != first:
                paths = [f"roles.{role.name}.{section}.{name}", f"roles.{other}.{section}.{name}"]
                yield paths, f"{paths[0]}: {other} has another one of this name; give one of the two another name"


def _inside_job(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield a role that names another running job, or nodes of it: one job holds all roles."""
    for role in spec.roles.values():
        for name in ("inside_job", "inside_nodes"):
            if getattr(role.spec.launcher, name) != getattr(spec.launcher, name):
                path = f"roles.{role.name}.launcher.{name}"
                yield [path], f"{path}: one job holds all roles; write launcher.{name} at the top of the job"


def _heterogeneous(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield what a job does not have whose roles ask for nodes that differ: Slurm calls it a heterogeneous job."""
    made = components(spec)
    if len(made) < 2:
        return
    asked = {name for name in OF_ITS_NODES if len({getattr(each.resources, name) for each in made}) > 1}
    given = {
        "resources.spares": spec.resources.spares,
        "resources.segment": spec.resources.segment,
        "resources.switches": spec.resources.switches,
        "launcher.inside_job": spec.launcher.inside_job,
        "sweep": spec.sweep,
        **{f"resources.sbatch.{name}": spec.resources.sbatch.get(name) for name in ("nodelist", "nodefile")},
    }
    differ = " and ".join(f"resources.{name}" for name in OF_ITS_NODES if name in asked)
    for path in (path for path, value in given.items() if value):
        paths = [path, *(f"roles.{role}.resources.{name}" for role in spec.roles for name in asked)]
        yield paths, f"{path}: does not go with roles that differ in {differ}; leave one of the two out"


def _not_with_roles(spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
    given = {
        "container.level": any(role.spec.container.level == "job" for role in spec.roles.values()),
        "logs.per": spec.logs.per == "node",
        "launcher.port": any(role.spec.launcher.port for role in spec.roles.values()),
    }
    for path, there in given.items():
        if there:
            yield [path, "roles"], f"{path}: does not go with roles; leave it out, or give this job a single program"
    yield from _inside_job(spec)
    yield from _heterogeneous(spec)
    first, *others = spec.roles.values()
    for role in others:
        yield from _built_beside(role, first, settings.store_shared)
    for section in ("secrets", "data"):
        yield from _two_of_a_name(section, spec.roles)
    if spec.one_container and spec.one_environment:
        return
    instead = f"the roles have not all the same {'environment' if spec.one_container else 'container'}"
    if spec.environment.mode in ON_NODES:
        yield (
            ["environment.mode", "roles"],
            f"environment.mode: {spec.environment.mode} is made once for all, and {instead}; use sealed, or none",
        )
    if spec.preflight.imports:
        yield (
            ["preflight.imports", "roles"],
            f"preflight.imports: looks with one Python for all, and {instead}; leave it out",
        )
    if any(role.spec.container.build for role in others) and not first.spec.container.build:
        sentence = f"container.build: {first.name}, which decides, runs in another image, and only its own is built"
        yield ["container.build", f"roles.{first.name}.container"], sentence
