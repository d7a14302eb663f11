# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The additional options that a job passes to sbatch and srun (resources.sbatch, launcher.srun)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import script
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.batch_script import NOT_PASSED_ON
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import meant, places
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch import others
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch.reader import abbreviated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import GPUS_OF_NODE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import (
    BINDS_GPUS,
    DECLARED,
    OWNED_SBATCH,
    OWNED_SRUN,
    SBATCH,
    SIZES,
    SRUN,
    STEP_ONLY,
    TRES,
    misspelt,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option, shown, size_meant


class FurtherOptions(Aspect):
    """Options that are passed to sbatch and srun unchanged (`resources.sbatch`, `launcher.srun`)."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield options that a job may not pass."""
        unbound = spec.launcher.srun.get("gpu-bind") == "none" or spec.script is not None
        if spec.launcher.gpus == GPUS_OF_NODE:
            yield from _binding_one(spec)
            unbound = True
        owned = OWNED_SBATCH if spec.script is None else NOT_PASSED_ON
        # A command takes an exact name before any that begins with it.
        own = frozenset(settings.plugin_options)
        yield from _of("resources.sbatch", spec.resources.sbatch, owned, SBATCH | own, unbound)
        yield from _of("launcher.srun", spec.launcher.srun, OWNED_SRUN, SRUN | own, unbound)
        yield from _misspelt(spec, settings)
        yield from _sizes(spec, {"resources.sbatch": owned, "launcher.srun": OWNED_SRUN})
        for row in DECLARED:
            for name in row.names if row.sbatch.either and row.given(spec) != row.default else ():
                if name in spec.resources.sbatch:
                    path = f"resources.sbatch.{name}"
                    yield [path, row.path], f"{path}: {row.path} sets this already; remove one of them"

    def header(self, context: Context) -> Iterator[Option]:
        """Yield the options under `resources.sbatch`."""
        given = _given(context.spec.resources.sbatch)
        if context.spec.script is None:
            yield from given
        else:
            yield from (option for option in given if script.passed_on(context, option[0]))

    def step(self, context: Context) -> Iterator[Option]:
        """Yield the options under `launcher.srun`."""
        yield from _given(context.spec.launcher.srun)


def _passed_on(spec: LaunchSpec) -> Iterator[tuple[str, str, Mapping[str, str | bool], frozenset[str]]]:
    """Yield (section, command, options, the names that Slurm knows) of the options that are passed on."""
    yield "resources.sbatch", "sbatch", spec.resources.sbatch, SBATCH
    yield "launcher.srun", "srun", spec.launcher.srun, SRUN


def _misspelt(spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
    """Yield options that Slurm does not have, and that look like one that it has."""
    for where, command, options, known in _passed_on(spec):
        for name in options:
            strange = name not in settings.plugin_options and not abbreviated(name, known)
            near = (misspelt(name, known) or _of_another_tool(name, known)) if strange else None
            if near:
                key = OWNED_SBATCH.get(near, "") if spec.script is None else ""
                yield (
                    [f"{where}.{name}"],
                    f"{where}.{name}: {command} has no option --{name}; did you mean --{near}"
                    + (f", which is {key} here?" if key else "?")
                    + "; if a plugin of this site has it, name it in launch_cluster.plugin_options",
                )


def _of_another_tool(name: str, known: frozenset[str]) -> str | None:
    """Return Slurm's option for the field that other tools call so: walltime is time."""
    path = None if name in known else places().get(name.replace("-", "_"))
    return next((row.sbatch.name for row in DECLARED if row.path == path), None)


def _sizes(spec: LaunchSpec, owned: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Yield sizes that Slurm refuses. It reads 64G, 64g and 64GB, and no 64GiB. `owned`: the options of each section
    that a job may not pass, whatever their value.
    """
    for where, _command, options, _known in _passed_on(spec):
        for name in SIZES:
            value = options.get(name) if name not in owned[where] else None
            if isinstance(value, str) and not re.fullmatch(r"[0-9]+([KMGT]B?)?", value, re.IGNORECASE):
                path = f"{where}.{name}"
                yield [path], f"{path}: must be a size of Slurm such as 64G, not {shown(value)}{size_meant(value)}"


def warnings(spec: LaunchSpec, settings: ClusterSettings) -> list[str]:
    """Return a warning for each option that neither Slurm nor a plugin of the site is known to have, and for each line
    of a script that Slurm ignores.
    """
    return others.warnings(spec.script or "") + [
        f"{where}.{name}: Slurm's {command} has no option --{name}{meant(name, (), value)}; it is passed on, as one of "
        "a plugin of this site (launch_cluster.plugin_options)"
        for where, command, options, known in _passed_on(spec)
        for name, value in options.items()
        if name not in known and name not in settings.plugin_options
    ]


def _binding_one(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield options that bind a GPU to a rank that uses all of them, whatever else is said about it."""
    for where, options in (("resources.sbatch", spec.resources.sbatch), ("launcher.srun", spec.launcher.srun)):
        for name, value in options.items():
            bind = name == "gpu-bind" and value not in ("none", False)
            if bind or name in BINDS_GPUS or (name in TRES and "gpu" in str(value)):
                why = f"binds GPUs to tasks, and with launcher.gpus {GPUS_OF_NODE} each rank uses all GPUs of its node"
                yield [f"{where}.{name}", "launcher.gpus"], f"{where}.{name}: {why}; remove one of them"


def _given(options: Mapping[str, str | bool]) -> Iterator[Option]:
    return ((name, value) for name, value in sorted(options.items()) if value is not False)


def _of(
    where: str, options: Mapping[str, Any], owned: Mapping[str, str], known: frozenset[str], unbound: bool
) -> Iterator[Finding]:
    for name, value in options.items():
        path = f"{where}.{name}"
        meant = abbreviated(name, known)
        if meant:
            listed = ", ".join(meant[:5]) + (" and others" if len(meant) > 5 else "")
            instead = [f"{full} may not be given here, {_instead(full, owned)}" for full in meant if full in owned]
            yield [path], f"{path}: abbreviates {listed}; " + ("; ".join(instead[:3]) or "write the full name")
        elif name in owned:
            yield [path], f"{path}: may not be given here; {_instead(name, owned)}"
        elif where == "resources.sbatch" and name in STEP_ONLY:
            yield [path], f"{path}: is an option of the step, not of the job; move it to launcher.srun"
        elif not unbound and (name in BINDS_GPUS or (name in TRES and "gpu" in str(value))):
            yield (
                [path],
                (
                    f"{path}: binds one GPU to each task, so that LOCAL_RANK names a GPU the rank cannot see; use "
                    "resources.gpus_per_node, or add gpu-bind: none to launcher.srun"
                ),
            )


def _instead(name: str, owned: Mapping[str, str]) -> str:
    text = owned[name]
    return text if " " in text else f"use {text}" if text else "the collection sets it"
