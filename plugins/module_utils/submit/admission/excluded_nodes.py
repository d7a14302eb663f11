# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that a preflight found unfit, excluded from the next launches on the cluster until the exclusions expire.

There is one file per node: <state_root>/clusters/<cluster>/nodes/<node>.json. Jobs write it by rename, and the newest
content counts:

    {"node": NAME, "reason": TEXT, "job_id": TEXT, "time": SECONDS, "expires": SECONDS}

A node without a Python writes <node>.txt itself (runtime/start/no_python.sh): TIME EXPIRES JOB_ID REASON. No exclusion
lasts longer than LONGEST after it was made, regardless of its file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    RankzeroError,
    SlurmError,
    SlurmMissing,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, expand_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import STATE_MARKS, NodeGroup
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.exclusion import Exclusion
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Placement, Request

# Letters for sinfo -o: node, CPUs, MiB, generic resources, state, partition (the default one with a star), features.
NODE_CODES = ("N", "c", "m", "G", "T", "P", "f")
# Seconds: a year, the maximum of preflight.exclude_for. A node that is out of order for longer should be drained.
LONGEST = 31536000.0
# Seconds by which the clocks of a node and of this host may differ.
CLOCK_SLACK = 3600.0
# A node's name is also the name of its file.
_ENDINGS = (".json", ".txt")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
# The only form of a constraint that is evaluated here: features that a node must all have.
_ALL_OF = re.compile(r"[A-Za-z0-9_.-]+(&[A-Za-z0-9_.-]+)*")


def cluster_name(slurm: Slurm) -> str:
    """Return ClusterName of slurm.conf; `cluster` if it is not set. Raises SlurmUnavailable or SlurmError."""
    return parse.parse_config(slurm.call("scontrol", "show", "config").stdout).get("ClusterName", "cluster")


def any_recorded(state_root: str) -> bool:
    """Return whether any cluster under this root has an exclusion; if not, the cluster's name need not be looked up."""
    root = state_files.own(state_root)
    return any(
        file.endswith(_ENDINGS) for name in root.names("clusters") for file in root.names(f"clusters/{name}/nodes")
    )


def folder(state_root: str, cluster: str) -> str:
    """Return the folder of one cluster's exclusions."""
    return os.path.join(state_root, "clusters", cluster, "nodes")


def load(state_root: str, cluster: str, now: float) -> list[Exclusion]:
    """Return the current exclusions, one per node. Invalid files are ignored.

    Raises `Untrusted` for a file that another user could have written.
    """
    root = state_files.own(state_root)
    place = os.path.join("clusters", cluster, "nodes")
    newest: dict[str, Exclusion] = {}
    for name in root.names(place):
        node, ending = os.path.splitext(name)
        if ending not in _ENDINGS:
            continue
        text = state_files.text(root, os.path.join(place, name))
        exclusion = _exclusion((state_files.json_object(text) if ending == ".json" else _plain(node, text)) or {}, now)
        if (
            exclusion
            and exclusion.node == node
            and exclusion.expires > now
            and (node not in newest or newest[node].time < exclusion.time)
        ):
            newest[node] = exclusion
    return list(newest.values())


def _plain(node: str, text: str) -> dict[str, Any]:
    """Parse the line that a node has written itself."""
    words = text.split(None, 3)
    if len(words) < 4 or not all(re.fullmatch(r"\d{1,12}", word) for word in words[:2]):
        return {}
    return {
        "node": node,
        "time": int(words[0]),
        "expires": int(words[1]),
        "job_id": words[2],
        "reason": " ".join(words[3].split()),
    }


def _exclusion(record: Mapping[str, Any], now: float) -> Exclusion | None:
    """Return the exclusion in a file's values; None if they are invalid."""
    node, reason, job_id = record.get("node"), record.get("reason"), record.get("job_id") or ""
    made, expires = record.get("time"), record.get("expires")
    if not isinstance(node, str) or not _NODE.fullmatch(node) or not isinstance(reason, str):
        return None
    if not isinstance(made, (int, float)) or not isinstance(expires, (int, float)):
        return None
    if not state_files.is_time(made) or made > now + CLOCK_SLACK or (job_id and not state_files.is_job_id(str(job_id))):
        return None
    return Exclusion(node, reason, str(job_id), float(made), min(float(expires), made + LONGEST))


def remember(state_root: str, cluster: str, exclusion: Exclusion) -> None:
    """Write one exclusion, completely or not at all. Raises `RankzeroError`."""
    path = os.path.join(folder(state_root, cluster), exclusion.node + ".json")
    try:
        state_files.write(path, json.dumps(asdict(exclusion)))
    except OSError as error:
        raise RankzeroError(f"state_root: cannot write {path}: {error.strerror or error}") from error


def forget(state_root: str, cluster: str, node: str) -> None:
    """Remove one exclusion; a missing one is no error. Raises `RankzeroError`."""
    for ending in _ENDINGS:
        path = os.path.join(folder(state_root, cluster), node + ending)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise RankzeroError(f"state_root: cannot remove {path}: {error.strerror or error}") from error


def choose(
    remembered: Sequence[Exclusion], nodes: Mapping[str, bool], wanted: int, by_name: Sequence[str] = ()
) -> tuple[list[Exclusion], list[tuple[Exclusion, str]]]:
    """Return (nodes to exclude, nodes to keep with the reason), so that enough nodes remain for the job. Pure.

    `nodes`: the nodes that could run the job, and whether each is up. sbatch need not, or may not, be told about any
    other node. `by_name`: nodes that the job requests itself. The newest exclusions are applied first.
    """
    applied, kept = [], []
    up = {name for name, available in nodes.items() if available}
    if len(up) < wanted:
        up = set(nodes)
    for exclusion in sorted(remembered, key=lambda exclusion: (-exclusion.time, exclusion.node)):
        if exclusion.node not in nodes:
            continue
        if exclusion.node in by_name:
            kept.append((exclusion, "the job requests it by name"))
        elif exclusion.node in up and len(up) <= wanted:
            kept.append((exclusion, f"without it fewer than the {wanted} nodes that the job needs remain"))
        else:
            up.discard(exclusion.node)
            applied.append(exclusion)
    return sorted(applied, key=lambda exclusion: exclusion.node), kept


def for_request(
    slurm: Slurm, state_root: str, placement: Placement, limits: ResourceNeeds, now: float
) -> tuple[list[Exclusion], list[str]]:
    """Return (exclusions of a launch, warnings). Slurm is not asked if there are no exclusions.

    `limits`: what the job requests.
    """
    if not any_recorded(state_root):
        return [], []
    remembered = load(state_root, cluster_name(slurm), now)
    if not remembered:
        return [], []
    asked = expand_nodes(slurm, placement.nodelist)
    own = expand_nodes(slurm, ",".join(placement.exclude))
    applied: list[Exclusion] = []
    kept: list[tuple[Exclusion, str]] = []
    try:
        for component in limits.components:
            nodes = {name: up for name, up in _pool(slurm, component).items() if name not in own}
            without, others = choose(remembered, nodes, component.nodes, asked)
            applied += [exclusion for exclusion in without if exclusion not in applied]
            kept += [pair for pair in others if pair not in kept]
    except (SlurmUnavailable, SlurmMissing):
        raise
    except SlurmError as error:
        # PrivateData=nodes or partitions: it is unknown how many nodes would remain.
        return [], [
            f"not left out, although they were not fit: {exclusion.words()}; {error.message}"
            for exclusion in remembered
        ]
    # sbatch leaves the same nodes out of all components: what one of them needs stays in all.
    applied = [exclusion for exclusion in applied if exclusion not in [needed for needed, _why in kept]]
    return applied, [f"not left out, although it was not fit: {exclusion.words()}; {why}" for exclusion, why in kept]


def of(slurm: Slurm, request: Request, now: float) -> list[Exclusion]:
    """Return the exclusions of a submission. Unfit nodes that cannot be excluded become warnings."""
    if request.placement is None:
        return []
    # RUNS = <state_root>/runs/<name>/<key>
    state_root = os.path.dirname(os.path.dirname(os.path.dirname(request.runs_dir)))
    applied, warnings = for_request(slurm, state_root, request.placement, request.limits, now)
    for warning in warnings:
        slurm.note(warning)
    return applied


def option(request: Request, applied: Sequence[Exclusion]) -> list[str]:
    """Return sbatch's option, the last one before the script, for each component of the job. It replaces the script's
    own line, so it includes the job's own exclusions.
    """
    own = request.placement.exclude if request.placement else ()
    text = "--exclude=" + ",".join([*own, *(exclusion.node for exclusion in applied)])
    return [text, *(word for _each in request.limits.also for word in (":", text))] if applied else []


def _pool(slurm: Slurm, limits: ResourceNeeds) -> dict[str, bool]:
    """Return the nodes that could run the job, and whether each is up.

    They are in its partition and reservation, have the requested resources, and have its features.
    """
    partition = limits.partition
    where = [f"--partition={partition}"] if partition else []
    shown = slurm.call("sinfo", "--noheader", "--all", "--Node", f"--format={parse.sinfo_format(NODE_CODES)}", *where)
    rows, _warnings = parse.parse_records(shown.stdout, NODE_CODES)
    if not partition and any(row["P"].endswith("*") for row in rows):
        rows = [row for row in rows if row["P"].endswith("*")]
    reserved = _reserved(slurm, limits.reservation)
    constraint = limits.constraint or ""
    wanted = set(constraint.split("&")) if _ALL_OF.fullmatch(constraint) else set()
    fit: dict[str, bool] = {}
    for row in rows:
        group = NodeGroup(
            count=1,
            cpus=parse.parse_count(row["c"]) or 0,
            memory=parse.parse_count(row["m"]) or 0,
            gres=tuple(parse.parse_gres(row["G"])),
            state=row["T"].rstrip(STATE_MARKS),
            features=tuple(row["f"].split(",")),
        )
        if (
            group.gpus(limits.gpu_type) >= limits.gpus_per_node
            and not parse.lacking(group.gres, limits.gres)
            and group.cpus >= limits.cpus_per_node
            and wanted <= set(group.features)
            and (reserved is None or row["N"] in reserved)
        ):
            fit[row["N"]] = group.available
    return fit


def _reserved(slurm: Slurm, reservation: str | None) -> list[str] | None:
    """Return the nodes of a reservation; None without one, or if Slurm does not report them."""
    if not reservation or "," in reservation:
        return None
    with contextlib.suppress(SlurmError):
        blocks = parse.parse_blocks(slurm.call("scontrol", "show", "reservation", reservation).stdout)
        for block in blocks:
            return expand_nodes(slurm, block.get("Nodes", ""))
    return None


def result(applied: Sequence[Exclusion]) -> list[ModuleResult]:
    """Return exclusions as modules return them."""
    return [asdict(exclusion) for exclusion in applied]


def change(slurm: Slurm, options: Parameters, now: float, check_mode: bool) -> ModuleResult:
    """Return the result of module node_exclusion for its options. Raises `RankzeroError`."""
    if not 0 < options["exclude_for"] <= LONGEST:
        raise RankzeroError(
            f"exclude_for: {options['exclude_for']} is not allowed; 1 to {LONGEST:.0f} seconds (a year). A node that "
            "is out of order for longer is drained by an administrator (scontrol update)."
        )
    state_root, cluster = os.path.expanduser(options["state_root"]), cluster_name(slurm)
    before = {exclusion.node: exclusion for exclusion in load(state_root, cluster, now)}
    names = expand_nodes(slurm, ",".join(options["nodes"] or ()))
    after = dict(before)
    if options["state"] == "present":
        for name in names:
            known = before.get(name)
            # An existing exclusion with the same reason is no change. A new reason, with a new end, replaces it.
            if known is None or known.reason != options["reason"]:
                after[name] = Exclusion(name, options["reason"], "", now, now + options["exclude_for"])
    else:
        for name in names or list(before):
            after.pop(name, None)
    if not check_mode:
        for name in before.keys() - after.keys():
            forget(state_root, cluster, name)
        for name, exclusion in after.items():
            if before.get(name) != exclusion:
                remember(state_root, cluster, exclusion)

    def lines(exclusions: Mapping[str, Exclusion]) -> str:
        return "".join(f"{exclusions[name].words()}\n" for name in sorted(exclusions))

    return {
        "changed": before != after,
        "cluster": cluster,
        "exclusions": result([after[name] for name in sorted(after)]),
        "diff": {"before": lines(before), "after": lines(after)},
    }
