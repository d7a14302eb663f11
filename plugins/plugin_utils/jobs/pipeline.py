# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that follow each other: pipeline files, the `after` of specs, and the resulting order.

A pipeline file is a map with `jobs`, a list of job files. Each job follows the previous one, unless `after` (in its
list item or in its spec) names the job files that it follows; an empty list means none. Paths are relative to the file
that contains them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, load_job_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.sweep import PreparedSweep

#: Where a list comes from that is no file: the option of the task, in which an item may be a spec.
VARIABLE = "job"
#: Reads a job: from the path of its file, or from its spec.
Read = Callable[[Any], Job]


@dataclass(frozen=True)
class Stage:
    """One job of a pipeline: its file (of a spec its place in the list), the job, and the indexes of the stages that it
    follows.
    """

    path: str
    job: Job
    after: tuple[int, ...]


@dataclass(frozen=True)
class Rendered:
    """A stage, and the files and arguments sent for it."""

    stage: Stage
    launch: Prepared | PreparedSweep

    @property
    def is_sweep(self) -> bool:
        """Whether the stage is a sweep."""
        return isinstance(self.launch, PreparedSweep)

    @property
    def plan(self) -> Plan:
        """The plan of its job or array."""
        return self.launch.plan

    @property
    def first(self) -> Prepared:
        """The launch of the stage; for a sweep, its first element."""
        return self.launch.first if isinstance(self.launch, PreparedSweep) else self.launch

    def element_keys(self) -> list[str]:
        """The keys of a sweep's elements; empty for a job."""
        return self.launch.keys if isinstance(self.launch, PreparedSweep) else []

    def upstream(self) -> Upstream:
        """How later stages refer to this one."""
        plan = self.plan
        # For a sweep, the folder that contains all of its arrays; sweep.json there names the elements.
        path = plan.runs_dir() if self.is_sweep else f"{plan.runs_dir()}/{plan.token}"
        return Upstream(plan.name, plan.key, path)

    def submitted(
        self, generations: Mapping[str, str], waits: Sequence[str], **changes: object
    ) -> Prepared | PreparedSweep:
        """What is sent once the results of the stages before are known.

        `generations`: the earlier stages' generations by their tokens. `waits`: the jobs to wait for. `changes`: other
        changes to the request.
        """
        launch = self.launch.changed(**changes)
        request = launch.request.after(generations, waits)
        return replace(launch, request=request)  # type: ignore[arg-type]  # each has its own kind of request


@dataclass(frozen=True)
class _Item:
    path: str
    after: tuple[str, ...] | None
    spec: Mapping[str, Any] | None = None


def stages(given: Any, read: Read, cwd: str) -> list[Stage]:
    """The jobs in an order in which each comes after those that it follows.

    `given`: the path of a job file or of a pipeline file, or a list of job files and specs. Raises `RankzeroError`.
    """
    items = _items(given, cwd)
    jobs: dict[str, Job] = {}
    after: dict[str, tuple[str, ...]] = {}
    waiting = [item.path for item in items]
    stated = {item.path: item.after or () for item in items}
    specs = {item.path: item.spec for item in items if item.spec is not None}
    while waiting:
        path = waiting.pop(0)
        if path in jobs:
            continue
        job = read(specs.get(path, path))
        jobs[path] = job
        own = tuple(os.path.normpath(os.path.join(job.folder, name)) for name in job.spec.after)
        after[path] = tuple(dict.fromkeys([*stated.get(path, ()), *own]))
        waiting += after[path]
    # The order of the list applies only to jobs without `after`.
    for before, item in zip(items, items[1:]):
        if item.after is None and not after[item.path] and before.path != item.path:
            after[item.path] = (before.path,)
    order = _sorted(list(jobs), after)
    stages = []
    for path in order:
        upstream = tuple(order.index(name) for name in after[path])
        names = [jobs[order[index]].spec.name for index in upstream]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise RankzeroError(
                f"after: {path} follows two jobs of the name {doubled[0]}; the ranks find each by its name, so give "
                "them different ones"
            )
        for index in upstream:
            if jobs[order[index]].spec.resources.any_of:
                raise RankzeroError(
                    f"resources.any_of: {order[index]} has several jobs of which one runs, and {path} follows it; "
                    "Slurm waits for a job by its id, so leave any_of out of a job that others follow"
                )
        stages.append(Stage(path, jobs[path], upstream))
    return stages


def _items(given: Any, cwd: str) -> list[_Item]:
    if isinstance(given, (list, tuple)):
        return _listed(given, cwd, VARIABLE)
    if not isinstance(given, str) or not given:
        raise RankzeroError(
            "job: is required: the path of a job file or of a pipeline file (-e job=pipelines/gpt.yml), or a list of "
            f"job files; not {given!r}"
        )
    layer, folder = load_job_file(given, cwd)
    if "jobs" not in layer.data:
        return [_Item(os.path.normpath(os.path.join(cwd, os.path.expanduser(given))), None)]
    for name in layer.data:
        if name != "jobs":
            raise RankzeroError(f"{layer.origin(str(name))}: {name}: unknown key of a pipeline file; known: jobs")
    return _listed(layer.data.get("jobs"), folder, layer.origin("jobs"))


def _listed(given: Any, folder: str, where: str) -> list[_Item]:
    if not isinstance(given, (list, tuple)) or not given:
        raise RankzeroError(f"{where}: jobs must be a list of job files, not {given!r}")
    items = []
    for number, item in enumerate(given, 1):
        after = None
        if isinstance(item, Mapping):
            for name in item:
                if name not in ("job", "after"):
                    known = ("job", "after")
                    raise RankzeroError(
                        f"{where}: {name}: unknown key{suggestion(str(name), known)}; known: {', '.join(known)}"
                    )
            if "after" in item:
                named = [] if item.get("after") is None else item.get("after")
                if not isinstance(named, (list, tuple)) or not all(isinstance(each, str) for each in named):
                    raise RankzeroError(f"{where}: after must be a list of job files, not {named!r}")
                after = tuple(os.path.normpath(os.path.join(folder, each)) for each in named)
            item = item.get("job")
        if isinstance(item, Mapping) and where == VARIABLE:
            items.append(_Item(f"item {number}", after, item))
            continue
        if not isinstance(item, str) or not item:
            raise RankzeroError(f"{where}: an item must be the path of a job file, or {{job, after}}; not {item!r}")
        items.append(_Item(os.path.normpath(os.path.join(folder, os.path.expanduser(item))), after))
    return items


def _sorted(paths: Sequence[str], after: Mapping[str, Sequence[str]]) -> list[str]:
    """Sort depth first, which keeps the order of the list where the dependencies permit."""
    order: list[str] = []
    way: list[str] = []

    def visit(path: str) -> None:
        if path in order:
            return
        if path in way:
            circle = [*way[way.index(path) :], path]
            raise RankzeroError(f"after: these jobs follow each other in a circle: {' -> '.join(reversed(circle))}")
        way.append(path)
        for name in after[path]:
            visit(name)
        way.pop()
        order.append(path)

    for path in paths:
        visit(path)
    return order
