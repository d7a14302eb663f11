# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job's request to Slurm: the lines of its header, in the order in which people read them (sbatch(1))."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import script
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.ranks import size
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import components, job_gpus
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import PLAIN
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option, time_minutes


class Resources(Aspect):
    """The job's request to Slurm."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield GPUs in `gres`, entries that are no resource or are duplicated, and a GPU type without a count."""
        seen: set[str] = set()
        for text in spec.resources.gres:
            name = re.sub(r":[0-9].*", "", text)
            if name.partition(":")[0] == "gpu":
                sentence = "is of GPUs; use resources.gpus_per_node and resources.gpu_type"
            elif name in ("none", "help"):
                sentence = "is no resource, but a word of sbatch; leave it out"
            elif name in seen:
                sentence = f"names {name} twice; give its total count once"
            else:
                sentence = ""
            seen.add(name)
            if sentence:
                yield ["resources.gres"], f"resources.gres: {text} {sentence}"
        if spec.resources.gpu_type and not spec.resources.gpus_per_node:
            yield (
                ["resources.gpu_type", "resources.gpus_per_node"],
                f"resources.gpu_type: {spec.resources.gpu_type} without resources.gpus_per_node; say how many",
            )
        yield from _alternatives(spec)

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield what the jobs of the launch differ in, and the GPUs of a node of each component where they differ."""
        if context.spec.resources.any_of:
            names = {name for given in context.spec.resources.any_of for name in given}
            yield "RANKZERO_ANY_OF", " ".join(sorted(names))
        if len(context.components) > 1:
            yield "RANKZERO_COMPONENTS", " ".join(str(job_gpus(component)) for component in context.components)

    def header(self, context: Context) -> Iterator[Option]:
        """Yield name, size, limits, log file and environment of the job, in the order of the batch script."""
        spec, shape = context.spec, context.job
        yield "job-name", context.job_name
        if spec.script is not None:
            yield from script.header(context)
        else:
            yield from size(shape, shape.nodes + spec.resources.spares)
            most = dataclasses.replace(
                spec, resources=dataclasses.replace(spec.resources, gpus_per_node=job_gpus(spec))
            )
            yield from ((row.sbatch.name, value) for row in PLAIN if (value := row.line(most)))
        if "comment" not in spec.resources.sbatch:
            yield "comment", f"rankzero.slurm {context.job_name}"
        yield "output", f"{context.run_dir}/logs/job.%j.log"
        yield "open-mode", "append"
        yield "chdir", context.run_dir
        # The job's environment comes from the plan, not from the submitter: sbatch itself gets almost none
        # (slurm/client.py), and ALL is the one word for which Slurm runs no login shell on the node. With NONE, pyxis
        # leaves the batch script on the node, where it must run (docs/containers.md, trap 2).
        yield "export", "NONE" if spec.container.level == "job" else "ALL"


def _alternatives(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield what does not go with several submissions of one launch."""
    ask, path = spec.resources, "resources.any_of"
    if not ask.any_of:
        return
    if len(ask.any_of) == 1:
        yield [path], f"{path}: has one alternative; give two or more, or write its values in resources"
    for number, given in enumerate(ask.any_of, 1):
        early, here = spec.checkpoint.signal_before_end or 0, f"{path}, item {number}: time {given.get('time')}"
        minutes = time_minutes(given.get("time", ask.time))
        if minutes > time_minutes(ask.time):
            yield [path, "resources.time"], f"{here} is more than resources.time {ask.time}; give the longest there"
        elif "time" in given and minutes * 60 <= early:
            yield [path, "checkpoint.signal_before_end"], f"{here} is not more than signal_before_end, {early} s"
    for other, value in (
        ("launcher.inside_job", spec.launcher.inside_job),
        ("sweep", spec.sweep),
        ("roles", len(components(spec)) > 1),
    ):
        if value:
            sentence = "on nodes of several kinds are one job with parts; leave one of the two out"
            yield [path, other], f"{path}: not with {other}" + (f", which {sentence}" if other == "roles" else "")
