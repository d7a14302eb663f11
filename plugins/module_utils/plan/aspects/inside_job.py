# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches inside a running job: what is refused, what is ignored, and what the step requests. Pure.

The script is the same as for a queued job. An option that only sbatch can carry out is refused if the launch would
depend on it. Otherwise it is reported as ignored, because a cluster's defaults name a partition for every job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import job_gpus, node_groups
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import generic_resources
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import (
    DECLARED,
    PLACING,
    PLAIN,
    SCHEDULING,
    SHARING,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option, Options

# Value of --gres for a step without generic resources. Without the option a step gets all those of its job.
NO_GRES = "none"
# Values of fields.Sbatch.inside for fields that are accepted. Any other value is a refusal.
IGNORED, STEP, GIVEN = "ignored", "step", "given"


class InsideJob(Aspect):
    """A launch inside a job that is running already (`launcher.inside_job`)."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield what is not possible inside a running job."""
        here = spec.launcher.inside_job
        if here is None:
            if spec.launcher.inside_nodes:
                yield (
                    ["launcher.inside_nodes", "launcher.inside_job"],
                    (
                        "launcher.inside_nodes: has no effect without launcher.inside_job; give the job's id, or leave "
                        "it out"
                    ),
                )
            return
        names = spec.launcher.inside_nodes
        nodes = sum(group[0].spec.resources.nodes for group in node_groups(spec)) or spec.resources.nodes
        if names and len(set(names)) != nodes:
            yield (
                ["launcher.inside_nodes", "resources.nodes"],
                f"launcher.inside_nodes: {len(set(names))} different nodes for resources.nodes {nodes}; name {nodes}",
            )
        for row in DECLARED:
            if row.sbatch.inside not in (IGNORED, STEP, GIVEN) and row.given(spec):
                why = row.sbatch.inside.format(value=_text(row.given(spec)), job=here)
                yield [row.path, "launcher.inside_job"], f"{row.path}: {why}"
        if spec.preflight.on_failure == "requeue":
            yield (
                ["preflight.on_failure", "launcher.inside_job"],
                (
                    f"preflight.on_failure: requeue has no meaning inside job {here}: a step cannot go back into the "
                    "queue; make it stop, or launch without launcher.inside_job"
                ),
            )
        for where, options, instead in (
            ("resources.sbatch", spec.resources.sbatch, SCHEDULING),
            ("launcher.srun", spec.launcher.srun, PLACING),
        ):
            for name in instead:
                if options.get(name, False) is not False:
                    hint = (
                        "use launcher.inside_nodes" if where == "launcher.srun" else "no job is submitted; leave it out"
                    )
                    yield (
                        [f"{where}.{name}", "launcher.inside_job"],
                        f"{where}.{name}: may not be given inside job {here}; {hint}",
                    )

    def step(self, context: Context) -> Options:
        """Return the options that limit the ranks' step to the size in the spec."""
        return step(context.spec)

    def probe(self, context: Context) -> Iterator[Option]:
        """Let the preflight share the nodes with running steps, and request the same generic resources as the ranks: of
        roles on one node those of all.
        """
        if context.spec.launcher.inside_job is not None:
            asked = replace(context.spec.resources, gpus_per_node=job_gpus(context.spec))
            yield "overlap", True
            yield "gres", generic_resources(asked) or NO_GRES


def _text(value: object) -> str:
    return "true" if value is True else str(value)


def ignored(spec: LaunchSpec) -> list[str]:
    """Return the options that only sbatch could request, such as `resources.partition batch`. They have no effect."""
    options = [
        f"{row.path} {_text(row.given(spec))}" for row in DECLARED if row.sbatch.inside == IGNORED and row.given(spec)
    ]
    return options + [
        f"resources.sbatch.{name} {_text(value)}"
        for name, value in sorted(spec.resources.sbatch.items())
        if value is not False
    ]


def step(spec: LaunchSpec) -> Options:
    """Return further options of the ranks' step.

    The steps of a submitted job get all resources in its header. Inside another job each step must request its own.
    """
    if spec.launcher.inside_job is None:
        return ()
    own = spec.launcher.srun
    options: list[tuple[str, str | bool]] = []
    if not any(name in own for name in SHARING):
        # Otherwise a shell that is open in the allocation, or a second launch, would block the step.
        options.append(("overlap", True))
    for row in PLAIN:
        name, value = row.sbatch.name, row.line(spec)
        if name == "gpus-per-node":
            # --gres names them as well, and what else of these resources the step gets.
            continue
        if name == "gres":
            value = generic_resources(spec.resources) or NO_GRES
        if row.sbatch.inside == STEP and value and name not in own:
            options.append((name, value))
    return tuple(options)
