# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches inside a job that is running already: what is refused there, what is left aside, what is asked. Pure.

The script is that of a queued job. What only sbatch can do is refused where the launch would depend on it, and
else said to be left aside: a cluster's defaults name a partition for every job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import Topology
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import time_minutes

Options = tuple[tuple[str, "str | bool"], ...]

# sbatch options that decide when or how often a job runs: inside another job nobody would do so.
_SCHEDULING = ("begin", "deadline", "hold", "no-requeue", "requeue", "signal")
# srun options that choose nodes, which launcher.attach_nodes does.
_PLACING = ("exclude", "nodefile", "nodelist", "relative")
# srun options that say how steps of one job share it.
_SHARING = ("exact", "exclusive", "overlap")
_HEADER_ONLY = ("partition", "account", "qos", "constraint", "reservation", "exclusive")


def findings(spec: LaunchSpec) -> Iterator[tuple[Sequence[str], str]]:
    """What cannot hold inside an allocation, as checks.Finding."""
    here = spec.launcher.attach
    if here is None:
        if spec.launcher.attach_nodes:
            yield (
                ["launcher.attach_nodes", "launcher.attach"],
                "launcher.attach_nodes: has no effect without launcher.attach; give the job's id, or leave it out",
            )
        return
    names, nodes = spec.launcher.attach_nodes, spec.resources.nodes
    if names and len(set(names)) != nodes:
        yield (
            ["launcher.attach_nodes", "resources.nodes"],
            f"launcher.attach_nodes: {len(set(names))} different nodes for resources.nodes {nodes}; name {nodes}",
        )
    for field, given in (
        ("checkpoint.requeue", spec.checkpoint.requeue),
        ("checkpoint.signal_before_end", spec.checkpoint.signal_before_end),
    ):
        if given:
            why = "that job" if field.endswith("requeue") else "the time limit of that job"
            yield (
                [field, "launcher.attach"],
                (
                    f"{field}: {_text(given)} has no meaning inside job {here}: {why} is not the launch's own; set it "
                    "to null, or launch without launcher.attach"
                ),
            )
    if spec.resources.spares:
        yield (
            ["resources.spares", "launcher.attach"],
            (
                f"resources.spares: {spec.resources.spares} spare nodes cannot be asked for inside job {here}, whose "
                "nodes are given; leave it out, and choose nodes by launcher.attach_nodes"
            ),
        )
    if spec.preflight.on_failure == "requeue":
        yield (
            ["preflight.on_failure", "launcher.attach"],
            (
                f"preflight.on_failure: requeue has no meaning inside job {here}: a step cannot go back into the "
                "queue; make it stop, or launch without launcher.attach"
            ),
        )
    if spec.resources.dependency:
        yield (
            ["resources.dependency", "launcher.attach"],
            (
                f"resources.dependency: {spec.resources.dependency} is not waited for inside job {here}, which is "
                "running already; leave it out"
            ),
        )
    for where, options, instead in (
        ("resources.sbatch", spec.resources.sbatch, _SCHEDULING),
        ("launcher.srun", spec.launcher.srun, _PLACING),
    ):
        for name in instead:
            if options.get(name, False) is not False:
                hint = "use launcher.attach_nodes" if where == "launcher.srun" else "no job is submitted; leave it out"
                yield (
                    [f"{where}.{name}", "launcher.attach"],
                    f"{where}.{name}: may not be given inside job {here}; {hint}",
                )


def _text(value: object) -> str:
    return "true" if value is True else str(value)


def ignored(spec: LaunchSpec) -> list[str]:
    """What of the spec only sbatch could ask for, as `resources.partition batch`; nothing is done about it."""
    found = []
    for name in _HEADER_ONLY:
        value = getattr(spec.resources, name)
        if value:
            found.append(f"resources.{name} {_text(value)}")
    return found + [
        f"resources.sbatch.{name} {_text(value)}"
        for name, value in sorted(spec.resources.sbatch.items())
        if value is not False
    ]


def gres(spec: LaunchSpec) -> str | None:
    """What each node is asked for besides CPUs, as --gres takes it."""
    ask = spec.resources
    gpus = [":".join(filter(None, ["gpu", ask.gpu_type, str(ask.gpus_per_node)]))] if ask.gpus_per_node else []
    return ",".join([*gpus, *ask.gres]) or None


def probe(spec: LaunchSpec) -> Options:
    """Further options of the preflight's step."""
    return () if spec.launcher.attach is None else (("overlap", True), ("gres", gres(spec) or "none"))


def step(spec: LaunchSpec) -> Options:
    """Further options of the ranks' step. A job's own steps have all that its header asked for; here each says it."""
    if spec.launcher.attach is None:
        return ()
    own = spec.launcher.srun
    options: list[tuple[str, str | bool]] = []
    if not any(name in own for name in _SHARING):
        # The shell that somebody has open in the allocation, and a second launch, would block it otherwise.
        options.append(("overlap", True))
    for name, value in (("gres", gres(spec) or "none"), ("mem", spec.resources.memory)):
        if value and name not in own:
            options.append((name, value))
    return tuple(options)


def request(spec: LaunchSpec, shape: Topology) -> dict[str, Any] | None:
    """What the allocation is asked before anything starts in it; None for a launch of its own."""
    if spec.launcher.attach is None:
        return None
    return {
        "job_id": spec.launcher.attach,
        "nodes": shape.nodes,
        "names": list(spec.launcher.attach_nodes),
        "exclude": list(spec.resources.exclude),
        "cpus_per_node": shape.cpus_per_node,
        "gpus_per_node": spec.resources.gpus_per_node,
        "gpu_type": spec.resources.gpu_type,
        "gres": list(spec.resources.gres),
        "memory": spec.resources.memory,
        "time_minutes": time_minutes(spec.resources.time),
    }
