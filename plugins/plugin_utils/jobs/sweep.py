# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a job with `sweep` to everything that is sent for its array. The controller's part of `job_sweep`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import sweep as array
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.sweep import Sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import Element
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import SweepRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import (
    BATCH,
    CONTRACT,
    MANIFEST,
    Prepared,
    with_absolute_paths,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import shared_checkpoints

# Values that differ for each element's launch.json, or that would be repeated in every element.
_OWN = ("key", "spec", "origins", "variables")


@dataclass(frozen=True)
class PreparedSweep:
    """A rendered sweep. `plan`: that of its array. `first`: its first element as an ordinary launch."""

    plan: Plan
    first: Prepared
    request: SweepRequest
    lines: list[str]

    @property
    def keys(self) -> list[str]:
        """Those of its elements."""
        return [element.key for element in self.request.elements]

    def changed(self, **changes: object) -> PreparedSweep:
        """The same sweep, with other values in the request of its array."""
        return replace(self, request=self.request.changed(**changes))

    def sent(self) -> JsonObject:
        """What module `job_sweep` gets as x_request."""
        return self.request.arguments()


def prepare_sweep(
    job: Job, state_root: str, prepared: Callable[[Job, Sequence[LaunchSpec]], Prepared]
) -> PreparedSweep:
    """Prepare a sweep. `prepared(job, elements)` plans and renders its first launch, as for module `job`."""
    spec = job.spec
    points = array.specs(spec, job.merged, job.settings)
    _point, merged, element = points[0]
    first = prepared(replace(job, spec=element, merged=merged), [element for _point, _merged, element in points])
    elements, notes = array.elements(spec, points, first.plan_of)
    plan = array.array_plan(spec, elements, state_root)
    script = render_script(plan, job.settings.templates and os.path.abspath(job.settings.templates))
    manifest = json.loads(first.files[MANIFEST])
    data = with_absolute_paths(job.merged.data, job)
    rest = {name: text for name, text in first.files.items() if name not in (MANIFEST, CONTRACT)}
    sweep = spec.sweep or Sweep()
    request = SweepRequest(
        array=replace(
            first.request,
            name=plan.name,
            key=plan.key,
            token=plan.token,
            runs_dir=plan.runs_dir(),
            job_name=f"{plan.name}.{short_key(plan.key)}.{plan.token}",
            files={**rest, BATCH: script},
            checkpoint_dir=None,
            code={},
        ),
        elements=[_element(element, line) for element, line in zip(elements, array.lines(elements))],
        tasks_token=array.tasks_token(plan.key),
        spec=data,
        # store_prune must know that what the array's script refers to is used by each element.
        manifest={
            **{name: value for name, value in manifest.items() if name not in _OWN},
            "runtime": plan.runtime_dir,
        },
        contract=first.files[CONTRACT],
        record={
            "rankzero_launch": 1,
            "name": plan.name,
            "key": plan.key,
            "spec": data,
            "artifact": spec.artifact.path if spec.artifact else None,
            "metric": sweep.metric,
            "goal": sweep.goal,
            "elements": [
                {"number": element.number, "key": element.plan.key, "parameters": dict(element.point)}
                for element in elements
            ],
        },
        parallel=sweep.parallel,
    )
    return PreparedSweep(plan, first, request, _lines(sweep, first, plan, len(elements), notes))


def _element(element: array.Element, line: str) -> Element:
    """One launch of the sweep, as sent to the module. `line`: its line of the array's table."""
    checkpoints = shared_checkpoints(element.plan.spec)
    return Element(element.number, element.plan.key, dict(element.point), line, checkpoints)


def _lines(sweep: Sweep, first: Prepared, plan: Plan, count: int, notes: list[str]) -> list[str]:
    """The plan in a few lines: the job's, and the parameters that vary."""
    names = ", ".join(sweep.parameters or (sweep.points[0] if sweep.points else ()))
    at_once = f", at most {sweep.parallel} at once" if sweep.parallel else ""
    best = f"; best by {sweep.goal} {sweep.metric}" if sweep.metric else ""
    own = len(summary(first.plan))
    return [
        *summary(plan),
        f"sweep of {count} launches by {sweep.method} over {names}{at_once}{best}",
        *first.lines[own:],
        *notes,
    ]
