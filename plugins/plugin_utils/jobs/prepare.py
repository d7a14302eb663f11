# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the layers to everything that is sent for a launch: plan, script, manifest, runtime.

This is the controller's part of `job`. It reads the project's files (code snapshot, pyproject.toml)
and does not contact the cluster.
"""

from __future__ import annotations

import base64
import functools
import getpass
import json
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import IN_PLACE, short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs import kinds
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import explain
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import slurm_options
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Inputs, Site, Standing, Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import (
    Plan,
    contract,
    manifest,
    plan,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import details, summary
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import expired, fabric
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import (
    exposed_in_script,
    exposed_secrets,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import bundle_key
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import short_digest
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.outbound import EnvironmentSource, Outbound
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.program_file import check_program, program_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import request_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.site_environment import Adopted
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import provenance
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Chosen, Snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import Snapshots

RUNTIME = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "runtime")
#: File name suffixes of the runtime. Its files are in rooms, or next to them if a user's program may call them.
RUNTIME_SUFFIXES = (".py", ".sh", ".txt")
RUNTIME_FILES = tuple(
    sorted(
        os.path.relpath(os.path.join(folder, name), RUNTIME)
        for folder, _folders, names in os.walk(RUNTIME)
        for name in names
        if name.endswith(RUNTIME_SUFFIXES)
    )
)
#: The beginning of the line that names what the command itself is writing into the project.
NOT_CODE = "not code"
#: The file of a run directory that holds the script of a script job.
BATCH_SCRIPT = "slurm_script"
#: The files of every run directory: the script for sbatch, what the launch is, what its artifact must be.
BATCH, MANIFEST, CONTRACT = "job.sbatch", "launch.json", "contract.json"
#: Folders that a script may use without a word in it, as `uv run` does.
VIRTUAL_ENVIRONMENTS = (".venv", "venv")
#: Up to this number of files, the code is compared with an earlier launch's file by file.
MOST_COMPARED = 1000


@dataclass(frozen=True)
class Prepared:
    """A rendered launch: its request, whose files contain the generation's token, and what belongs to it here."""

    plan: Plan
    request: Request
    snapshot: Snapshot
    runtime: dict[str, str]
    # What decides, for people; and what explains it further.
    lines: list[str]
    details: list[str]
    variables: list[dict[str, str]]
    # Makes the plan of the same launch with another spec, for the elements of a sweep.
    plan_of: Callable[[LaunchSpec, Merged], Plan]
    leaving: Outbound

    @property
    def files(self) -> Mapping[str, str]:
        """The files of the run directory."""
        return self.request.files

    @property
    def refs(self) -> Sequence[Ref]:
        """Its inputs, with the job runtime."""
        return self.request.refs

    def explained(self) -> list[str]:
        """What explains the plan further, with every variable of the ranks."""
        variables = explain.table(self.variables)
        return [*self.details, "the variables of every rank, and why:", *(f"  {line}" for line in variables)]

    def changed(self, **changes: object) -> Prepared:
        """The same launch, with other values in its request."""
        return replace(self, request=self.request.changed(**changes))

    def sent(self) -> JsonObject:
        """What module `job` gets as x_request."""
        return self.request.arguments()


@functools.cache
def runtime_bundle() -> tuple[str, dict[str, str]]:
    """(key, files) of the job runtime. The key covers the contents, so an upgrade never changes a job's runtime."""
    files = {}
    for name in RUNTIME_FILES:
        with open(os.path.join(RUNTIME, name), encoding="utf-8") as stream:
            files[name] = stream.read()
    return bundle_key(files), files


def prepare(
    job: Job,
    site: Site,
    *,
    relaunch: str,
    facts: Mapping[str, object],
    adopted: Mapping[str, Adopted] | None = None,
    elements: Sequence[LaunchSpec] = (),
    after: Sequence[Upstream] | None = None,
    snapshots: Snapshots | None = None,
) -> Prepared:
    """Plan and render a launch. `site`: absolute paths on the cluster. `facts` are written to the manifest. `adopted`:
    what is at each `environment.path`. `elements`: all launches of the sweep whose first one `job` is. `after`: as in
    plan. `snapshots`: those already taken by this command.
    """
    spec = job.spec
    _check_kind(spec, after, job.folder)
    snapshots = snapshots or Snapshots()
    snapshot = Snapshot.nothing(spec.code.in_place) if spec.code.in_place else None
    snapshot = snapshot or snapshots.snapshot_of(job.code_src, _chosen(elements or [spec], job))
    if spec.code.dirty == "refuse":
        provenance.refuse_changes(snapshot)
    check_program(job, snapshot)
    leaving = Outbound()
    image = _image_key(job, leaving)
    built = _environment_source(job)
    on_nodes = spec.environment.mode in ON_NODES
    of_roles = _of_roles(job)
    runtime_key, runtime = runtime_bundle()
    inputs = Inputs(
        code=snapshot.digest,
        runtime=runtime_key,
        environment=built.key if built and not on_nodes else None,
        of_roles={own.spec.environment: source.key for own, source in of_roles},
        packages=built.key if built and on_nodes else None,
        adopted={path: Standing(there.key, there.kind == "conda") for path, there in (adopted or {}).items()},
        image=image,
        after=tuple(after or ()),
        commit=snapshot.commit,
    )
    places = _container_places(site, elements)
    plan_of = functools.partial(plan, inputs=inputs, site=site, container_places=places)
    made = plan_of(spec, job.merged)
    files = _files(made, job, facts, _of_the_code(snapshot, snapshots), after)
    refs = [*made.refs, Ref(kinds.RUNTIME.name, runtime_key, made.runtime_dir)]
    request = replace(request_of(made, site, refs, files, relaunch), code=code_digests(snapshot))
    leaving.job(job, snapshot, built)
    for own, source in of_roles:
        leaving.project(own.project, source)
    lines = summary(made) + _not_in_the_key(snapshot, job)
    lines += [f"warning: {sentence}" for sentence in _warnings(job, snapshot)]
    more = [*details(made), *job.header_lines(), *_code(snapshot, job), *leaving.lines()]
    more += [*([f"image {image[:12]}"] if image else []), *(there.line() for there in (adopted or {}).values())]
    rows = explain.rows(made, job.merged)
    return Prepared(made, request, snapshot, runtime, lines, more, rows, plan_of, leaving)


def _chosen(specs: Sequence[LaunchSpec], job: Job) -> Chosen:
    """Which files of `code.src` are the code of launches that share it."""
    words = dict.fromkeys(word for spec in specs for word in words_of(spec))
    return Chosen(job.excluded, specs[0].code.include, tuple(words))


def words_of(spec: LaunchSpec) -> tuple[str, ...]:
    """The texts of a launch that may name files of its code."""
    words = [*spec.setup.before_ranks, *spec.setup.after_ranks]
    for each in spec.programs.values():
        words += [*each.command, each.shell or "", each.script or "", *each.script_args, *each.env.values()]
    return (*words, *(line for each in spec.programs.values() for line in each.setup.commands))


def _container_places(site: Site, elements: Sequence[LaunchSpec]) -> tuple[str, str | None] | None:
    """Like plan.sweep.container_places, which is imported only for a sweep."""
    if not elements:
        return None
    from ansible_collections.rankzero.slurm.plugins.module_utils.plan.sweep import container_places

    return container_places(site.state_root, elements[0].name, elements)


def _check_kind(spec: LaunchSpec, after: Sequence[Upstream] | None, folder: str) -> None:
    """Check that the job is one launch, not several that must be launched together."""
    if spec.sweep is not None:
        raise RankzeroError(
            f"sweep: {spec.name} is a sweep of many launches; use rankzero.slurm.sweep (module job_sweep) for it"
        )
    if spec.after and after is None:
        absent = [name for name in spec.after if not os.path.exists(os.path.join(folder, name))]
        if absent:
            raise RankzeroError(f"after: there is no {absent[0]} in {folder}; it names job files beside this one")
        raise RankzeroError(
            f"after: {spec.name} follows {', '.join(spec.after)}, which must be launched with it; use "
            "rankzero.slurm.pipeline (module job_pipeline)"
        )


def _image_key(job: Job, leaving: Outbound) -> str | None:
    """Like built_image.image_key, which is imported only if a job builds an image."""
    if job.spec.container.build is None:
        return None
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.built_image import image_key

    return image_key(job, leaving)


def _environment_source(job: Job) -> EnvironmentSource | None:
    """Like built_environment.environment_source, which is imported only if a job builds an environment."""
    if not job.spec.environment.built:
        return None
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.built_environment import environment_source

    return environment_source(job)


def _of_roles(job: Job) -> list[tuple[Job, EnvironmentSource]]:
    """The roles that have not the launch's environment but one of their own to be built, and its source."""
    programs = [job.of_role(name) for name in job.spec.roles]
    own = {each.spec.environment: each for each in programs if each.spec.environment != job.spec.environment}
    return [(each, source) for each in own.values() if (source := _environment_source(each))]


def _of_the_code(snapshot: Snapshot, snapshots: Snapshots) -> tuple[JsonObject, str]:
    """What launch.json says about the code, and the uncommitted changes."""
    origin, changes = snapshots.known(snapshot)
    return {**snapshot.facts(), "repository": origin}, changes


def _files(
    made: Plan,
    job: Job,
    facts: Mapping[str, Any],
    code: tuple[JsonObject, str],
    after: Sequence[Upstream] | None,
) -> dict[str, str]:
    """The files of the run directory, by name. `code`: see _of_the_code."""
    about_code, changes = code
    known: dict[str, Any] = {
        "code": about_code,
        "submitted_by": f"{getpass.getuser()}@{platform.node()}",
    }
    if after:
        # This also protects them from store_prune for as long as this launch exists.
        known.update(after=[asdict(upstream) for upstream in after])
    record = manifest(made, job.merged, {**known, **facts})
    record.update(spec=with_absolute_paths(job.merged.data, job))
    files = {
        BATCH: render_script(made, job.settings.templates and os.path.abspath(job.settings.templates)),
        MANIFEST: _json(record),
        CONTRACT: _json(contract(job.spec, job.settings)),
    }
    if job.spec.script is not None:
        files[BATCH_SCRIPT] = job.spec.script
    if changes:
        files[provenance.DIFF_FILE] = changes
    if job.spec.notify:
        # Imported when the list was read.
        from ansible_collections.rankzero.slurm.plugins.module_utils.spec import notify

        files[notify.FILE] = _json(notify.document(job.spec.notify))
    return files


def code_digests(snapshot: Snapshot) -> dict[str, str]:
    """The files of the code with their short digests; {} if there are so many that sending them would take time."""
    few = len(snapshot.files) <= MOST_COMPARED
    return {entry.path: short_digest(entry) for entry in snapshot.files} if few else {}


def _warnings(job: Job, snapshot: Snapshot) -> list[str]:
    chosen = fabric(job.spec.fabric, job.settings.fabrics)
    exposed = [text for program in job.spec.programs.values() for text in exposed_secrets(program.env)]
    told = [*dict.fromkeys(exposed), *exposed_in_script(job.spec.script or ""), *_not_copied(job.spec, snapshot)]
    told += [*_of_the_image(job.spec, snapshot), *slurm_options.warnings(job.spec, job.settings)]
    return [*told, *(expired(chosen, date.today()) if chosen else [])]


def _of_the_image(spec: LaunchSpec, snapshot: Snapshot) -> list[str]:
    """What is not said by a program of the job's code that also has a place in the image."""
    program, place = program_file(spec), spec.container.workdir
    if not place or program not in {entry.path for entry in snapshot.files}:
        return []
    path = os.path.join(place, program)
    return [f"container.workdir: the program is {path}, not the {program} of the code; omit workdir to run that"]


def _not_copied(spec: LaunchSpec, snapshot: Snapshot) -> list[str]:
    """What a script uses of the folder from which it is launched, and does not find in its copy of that."""
    if not spec.script or spec.code.in_place:
        return []
    copied = {entry.path.split("/", 1)[0] for entry in snapshot.files}
    there = sorted({entry.name for entry in os.scandir(snapshot.src) if entry.is_dir()} - copied)
    # `uv run` and the scripts that a script starts use a virtual environment without a word in it.
    used = [
        name
        for name in there
        if name in VIRTUAL_ENVIRONMENTS
        or re.search(rf"(?<![\w/.$}}-])(\./|\$\{{?PWD\}}?/)?{re.escape(name)}/", spec.script)
    ]
    return [
        f"script: {name}/ of {snapshot.src} is not in the copy in which it works, because git ignores it, tools "
        "have made it, or it has no files; set code.in_place to a folder of the cluster to work there as it is"
        for name in used
    ]


def secret_lines(spec: LaunchSpec, environ: Mapping[str, str], variable: Callable[[str], Any]) -> bytes:
    """Lines NAME=base64 for the secrets whose values the controller holds. `variable` returns an Ansible variable."""
    lines, problems = b"", []
    for name, source in sorted(spec.all_secrets.items()):
        if source.kind == "from_file":
            continue
        value = environ.get(source.name) if source.kind == "from_env" else variable(source.name)
        if not isinstance(value, str) or not value:
            where = (
                "environment variable of the controller" if source.kind == "from_env" else "Ansible variable with text"
            )
            problems.append(f"secrets.{name}: {source.name} is not a set {where}")
            continue
        lines += name.encode() + b"=" + base64.b64encode(value.encode("utf-8", "surrogateescape")) + b"\n"
    if problems:
        raise SpecError(problems)
    return lines


def _not_in_the_key(snapshot: Snapshot, job: Job) -> list[str]:
    """What may change without another key."""
    if job.spec.code.in_place:
        return [f"{IN_PLACE} {job.spec.code.in_place}; the key does not cover its files"]
    return [f"{NOT_CODE}: {short_list(snapshot.written)}, which this command writes"] * bool(snapshot.written)


def _code(snapshot: Snapshot, job: Job) -> list[str]:
    """The code, and the files of the project that are not part of it."""
    if job.spec.code.in_place:
        return []
    state = f"git {snapshot.commit[:10]}" if snapshot.commit else "no git"
    if snapshot.dirty:
        state += f" + {len(snapshot.changed)} uncommitted changes"
    left = [f"left out of the code: {short_list(snapshot.left_out)} (code.include)"] * bool(snapshot.left_out)
    return [f"code {snapshot.digest[:12]} ({len(snapshot.files)} files, {state})", *left]


def with_absolute_paths(data: JsonObject, job: Job) -> JsonObject:
    """The spec with absolute paths, so that it means the same in any folder."""
    result = {**data, "code": {**data.get("code", {}), "src": job.code_src}}
    roles = data["roles"] if job.spec.roles else {}  # a role's own job, which a shell is of, has none
    # What stands at the top is of the roles that say nothing.
    silent = [job.of_role(name) for name, role in roles.items() if "environment" not in role] if roles else [job]
    if silent and silent[0].spec.environment.built:
        result.update(environment={**data.get("environment", {}), "project": silent[0].project})
    if roles:
        result.update(roles={name: _located(role, job.of_role(name)) for name, role in roles.items()})
    located = {"containerfile": job.containerfile, "context": job.context}
    located = {name: path for name, path in located.items() if path}
    if located:
        container = data.get("container", {})
        result.update(container={**container, "build": {**container.get("build", {}), **located}})
    return result


def _located(role: JsonObject, job: Job) -> JsonObject:
    """What a role says, with the folder of the project of its own environment."""
    own = role.get("environment")
    return {**role, "environment": {**own, "project": job.project}} if own and job.spec.environment.built else role


def _json(document: object) -> str:
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
