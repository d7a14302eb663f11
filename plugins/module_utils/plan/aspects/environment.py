# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the Python environment and the variables of a job. plan/variables.py decides the variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import (
    cpus_per_rank,
    has_all_cpus,
    ranks_per_node,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import conflicts, reserved
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import FROM_PROJECT, ON_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.registry import findings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding

# Text that a shell would expand as a variable: $NAME or ${NAME}.
_EXPANDED = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)


class Environment(Aspect):
    """The Python environment of the ranks, and the variables and secrets of the spec."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield reserved names, variables that refer to themselves, excessive thread counts, and options of another
        mode.
        """
        for where, names in (("env", spec.env), ("secrets", spec.secrets)):
            for name in names:
                reason = reserved(name, of_ranks=spec.script is None)
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
        places = {"path": wanted.path, "conda": wanted.conda}
        if wanted.mode == "path" and not any(places.values()):
            yield (
                ["environment.path", "environment.mode"],
                (
                    "environment.path: is required with environment.mode path: the folder of a venv or conda "
                    "environment (or environment.conda, its name)"
                ),
            )
        for name, place in places.items() if wanted.mode != "path" else ():
            if place is not None:
                yield (
                    [f"environment.{name}", "environment.mode"],
                    f"environment.{name}: has no effect with environment.mode {wanted.mode}; set the mode to path",
                )
        yield from _packages(spec)
        for name in sorted(set(spec.env) & set(spec.secrets)):
            yield [f"env.{name}", f"secrets.{name}"], f"env.{name}: is also a secret; keep it under secrets only"


class Variables(Aspect):
    """Variables of the spec that contradict what the launch sets itself."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield variables that contradict the rules of a framework, and unknown fabrics and trackers."""
        yield from conflicts(spec, settings.fabrics)
        yield from findings(spec.trackers, settings.trackers)
        for kind in (settings.trackers[name] for name in spec.trackers if name in settings.trackers):
            for name, reason in ((row.name, reserved(row.name)) for row in kind.variables):
                if reason:
                    yield ["trackers"], f"launch_cluster.trackers.{kind.name}: {name} may not be set: it {reason}"


def _packages(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield mistakes in environments that each node builds itself, and in conda environments."""
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
    if wanted.requirements and wanted.mode not in FROM_PROJECT:
        yield (
            ["environment.requirements", "environment.mode"],
            (
                f"environment.requirements: has no effect with environment.mode {wanted.mode}; set the mode to one of "
                f"{', '.join(FROM_PROJECT)}"
            ),
        )
    if wanted.requirements and wanted.extras:
        yield (
            ["environment.extras", "environment.requirements"],
            "environment.extras: has no effect with environment.requirements; write the packages into that file",
        )
    if wanted.mode not in ON_NODES:
        if wanted.platform:
            yield (
                ["environment.platform", "environment.mode"],
                (
                    f"environment.platform: has no effect with environment.mode {wanted.mode}; it requires "
                    f"{' or '.join(ON_NODES)}"
                ),
            )
        return
    if wanted.platform and not wanted.python:
        yield (
            ["environment.platform", "environment.python"],
            f"environment.platform: {wanted.platform} needs environment.python as well, the version on the nodes",
        )


def _threads(spec: LaunchSpec) -> Iterator[Finding]:
    """Check ranks x threads against the CPUs that the job requests."""
    if has_all_cpus(spec):
        return
    ranks = ranks_per_node(spec)
    cpus = ranks * cpus_per_rank(spec)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        # Nested levels are given as a list, of which the first counts.
        first = spec.env.get(name, "").split(",")[0].strip()
        threads = int(first) if first.isdecimal() and len(first) < 10 else 0
        if threads * ranks > cpus:
            yield (
                [f"env.{name}", "resources.cpus_per_rank", "launcher.ranks_per_node"],
                (
                    f"env.{name}: {ranks} ranks x {threads} threads = "
                    f"{ranks * threads} on {cpus} CPUs of a node; set "
                    f"resources.cpus_per_rank to {threads}, or leave the variable out"
                ),
            )
