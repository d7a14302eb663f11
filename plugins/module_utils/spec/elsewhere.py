# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a key belongs that people write elsewhere, or under the name that another tool gives it. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import OWNED_SBATCH, SBATCH

#: A key of other tools for which a job has none -> what to do.
_CLUSTER = "a job does not name its cluster: the inventory has the clusters, and -c NAME chooses one; remove it"
_NODES = "choose nodes with resources.partition and resources.constraint; remove it"
NOT_OF_A_JOB = {
    **dict.fromkeys(("cloud", "infra", "region", "zone", "executor", "scheduler"), _CLUSTER),
    **dict.fromkeys(("instance_type", "machine_type", "image_family"), _NODES),
    **dict.fromkeys(
        ("use_spot", "spot", "spot_recovery", "job_recovery"),
        "name the partition of such nodes in resources.partition; with checkpoint.requeue the launch goes on after it "
        "was preempted; remove it",
    ),
    **dict.fromkeys(
        ("disk_size", "disk_tier"),
        "the nodes have the disks that they have; preflight.free_tmp asks for free space in /tmp (preflight: "
        "{free_tmp: 10G}); remove it",
    ),
    "ports": "each launch chooses ports that are free, and launcher.port sets MASTER_PORT; remove it",
}
#: A key of other tools whose name says its unit -> the suffix that the value has here.
_UNITS = {"mem_gb": "G", "memory_gb": "G", "mem_mb": "M", "memory_mb": "M"}


@functools.cache
def short_names() -> Mapping[str, str]:
    """Return the allowed overrides: short name -> dotted path."""
    return {info.meta["short"]: info.path for info in fields_of(LaunchSpec) if info.meta["short"]} | {
        key: f"{info.path}.{key}" for info in fields_of(LaunchSpec) for key in info.meta["short_keys"]
    }


@functools.cache
def places() -> Mapping[str, str]:
    """Return where a name belongs that people write elsewhere: short name, name in another tool -> dotted path."""
    known: dict[str, str] = {}
    for info in fields_of(LaunchSpec):
        sbatch = [info.meta["sbatch"].name] if info.meta["sbatch"] else []
        for name in (*info.meta["also"], *sbatch, *info.meta["instead_of"]):
            known.setdefault(name.replace("-", "_"), info.path)
    return {**known, **short_names()}


def meant(name: str, names: Collection[str], value: object = None) -> str:
    """Ask about an unknown name: a key that is elsewhere, with how it is written there, or the most similar of `names`.
    `value`: what was given for it.
    """
    # submitit's own names of Slurm's options.
    word = name.rpartition(".")[2].replace("-", "_").removeprefix("slurm_")
    path = places().get(word)
    if path is None and word in NOT_OF_A_JOB:
        return f"; {NOT_OF_A_JOB[word]}"
    option = word.replace("_", "-")
    if path is None and "-" in option and option in SBATCH and option not in OWNED_SBATCH:
        path = f"resources.sbatch.{option}"
    if word in _UNITS and str(value).isdecimal():
        value = f"{value}{_UNITS[word]}"
    if path is None and "." not in name:
        value = None  # of another name, and it may be a secret
        # Of another section only what is much the same.
        near = t.nearest(name, [*names, *short_names()])
        path = None if near is None or near in names or not t.nearest(name, [near], 0.7) else short_names()[near]
    if path is None or (path in names and value is None):
        return t.did_you_mean(path) or t.suggestion(name, names)
    return f"; did you mean {path} ({_written(path, value)})?"


def _written(path: str, value: object) -> str:
    """How a key with its value stands in a job file, such as `resources: {nodes: 4}`; as the key's own type advises
    where the value is of another form.
    """
    *sections, leaf = path.split(".")
    if isinstance(value, Mapping) and len(value) == 1 and path == "resources.gpus_per_node":
        value = ":".join(map(str, *value.items()))  # {H100: 8}
    short = isinstance(value, (str, int, list)) and len(str(value)) <= 40
    plain = short and re.fullmatch(r"[\w./@+-]+", str(value)) is not None
    shown = f"{leaf}: {value if plain else json.dumps(value) if short else '...'}"
    try:
        if short:
            next(info.meta["type"] for info in fields_of(LaunchSpec) if info.path == path).parse(value)
    except t.Invalid as error:
        advice = str(error).partition("; write ")[2]
        shown = (advice if ": " in advice else f"{leaf}: {advice}") if advice else f"{leaf}: ..."
    except StopIteration:
        pass  # a key of a map, such as launcher.srun.mpi
    return "".join(f"{section}: {{" for section in sections) + shown + "}" * len(sections)
