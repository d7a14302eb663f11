# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a fabric sweep: turn its options into the settings of its program and into its job spec. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.documents import Compared
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.words import counted, shown_size
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import fabric_report
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

NAME = "fabric-check"
PROGRAM = "fabric_sweep.py"
METHODS = ("auto", "nccl_tests", "torch", "tcp")
CURRENT = "current"
FEWEST_NODES = 2
# Larger all-reduces show nothing new; the smallest is a single number (4 bytes).
SMALLEST, LARGEST = 4, 16 << 30
_SIZE = re.compile(r"([0-9]{1,12})([KMG]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# For the time limit, in seconds: overhead of each measurement besides its own limit, and of the job besides all of
# them.
_AROUND, _BESIDES = 40, 300
# Number of interfaces compared on a node if no candidates are named; used for the time limit only.
_INTERFACES = 4
_VARIABLES = t.mapped(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable", t.text())


def parse_size(value: object) -> int:
    """Bytes from text such as 64K, 16M or 512. Raises `Invalid`."""
    match = _SIZE.fullmatch(t.to_text(value))
    size = int(match.group(1)) * _UNITS[match.group(2)] if match else 0
    if not match or size % 4 or not SMALLEST <= size <= LARGEST:
        raise t.Invalid(
            f"must be a size such as 64K or 16M, a multiple of {SMALLEST} bytes of at most {LARGEST >> 30}G, "
            f"not {t.shown(value)}"
        )
    return size


def steps(sizes: Parameters) -> list[int]:
    """The sizes from `min` to `max`, each `factor` times the previous one. Raises `Invalid`."""
    low, high, factor = parse_size(sizes["min"]), parse_size(sizes["max"]), int(sizes["factor"])
    if high < low:
        raise t.Invalid(f"go from small to large: max {sizes['max']} is below min {sizes['min']}")
    if factor < 2:
        raise t.Invalid(f"grow by a factor of at least 2, not {factor}")
    steps = [low]
    while steps[-1] * factor <= high:
        steps.append(steps[-1] * factor)
    return steps


def of_fabric(name: str, fabrics: object) -> dict[str, str]:
    """The variables of a fabric. Raises SpecError if the fabric is unknown."""
    return {item.name: item.value for item in fabric_report.fabric_of(name, fabric_report.fabrics_of(fabrics)).settings}


def candidates(given: Parameters, fabrics: object) -> list[Compared]:
    """What is compared with the current setting of jobs: name -> variables; if empty, those of the fabric of that name.

    Raises `Invalid`, and SpecError for an unknown fabric.
    """
    compared: list[Compared] = []
    for name, variables in given.items():
        if not _NAME.fullmatch(str(name)) or name == CURRENT:
            raise t.Invalid(
                f"have names of letters, digits, '.', '_' and '-', other than {CURRENT}, not {t.shown(name)}"
            )
        try:
            compared.append(
                {"name": name, "variables": _VARIABLES.parse(variables) if variables else of_fabric(name, fabrics)}
            )
        except t.Invalid as error:
            raise t.Invalid(f"({name}): {error}") from None
    return compared


def plan(options: Parameters, nodes: Sequence[str]) -> ModuleResult:
    """The result of module fabric_plan. `nodes`: the nodes that the options name, each by its name.

    Raises RankzeroError with every mistake.
    """
    problems: list[str] = []

    def tried(name: str, make: Any, *arguments: Any) -> Any:
        try:
            return make(*arguments)
        except t.Invalid as error:
            problems.append(f"{name}: {error}")
        except RankzeroError as error:
            text = "; ".join(getattr(error, "problems", [error.message]))
            problems.append(f"{name}: {text}" if name else text)
        return None

    count = tried("nodes", _count, nodes, options["count"])
    sizes = tried("sizes", steps, options["sizes"])
    current = tried("", of_fabric, options["fabric"], options["fabrics"])
    others = tried("candidates", candidates, options["candidates"], options["fabrics"])
    for name, least in (("rounds", 1), ("seconds", 1)):
        if options[name] < least:
            problems.append(f"{name}: must be at least {least}, not {options[name]}")
    if problems:
        raise RankzeroError("; ".join(problems))
    nodes, compared = sorted(nodes), [{"name": CURRENT, "variables": current}, *others]
    settings = {
        # Part of the launch's key, so other nodes make another sweep. If Slurm chooses the nodes, it is the same sweep.
        "nodes": nodes,
        "method": options["method"],
        "all_reduce_perf": options["all_reduce_perf"] or "",
        "mpi": options["mpi"],
        "sizes": sizes,
        "rounds": options["rounds"],
        "seconds": options["seconds"],
        "candidates": compared,
    }
    rounds = min(options["rounds"], count - 1 + count % 2)
    return {
        "nodes": count,
        "job": _job(settings, count, nodes, options["src"], _minutes(settings, len(compared), rounds)),
        "lines": _lines(settings, count, rounds, nodes),
    }


def _count(nodes: Sequence[str], count: int) -> int:
    if nodes and count and count != len(nodes):
        raise t.Invalid(f"names {len(nodes)} nodes, but count is {count}; give only one of the two")
    if len(set(nodes)) < len(nodes):
        raise t.Invalid("names a node twice")
    number = len(nodes) or count
    if number < FEWEST_NODES:
        raise t.Invalid(
            f"a sweep needs at least {FEWEST_NODES} nodes, not {number}: give the number (-e nodes=4), or the nodes "
            "(fabric_nodes, or fabric_group, a group of the inventory)"
        )
    return number


def _minutes(settings: Mapping[str, Any], compared: int, rounds: int) -> int:
    """A time limit, in minutes, in which even the slowest sweep ends by itself."""
    each = 2 * (compared if compared > 1 else _INTERFACES) + max(0, rounds - 2) + 1
    seconds: int = each * (settings["seconds"] + _AROUND) + _BESIDES
    return math.ceil(seconds / 60)


def _job(settings: Mapping[str, Any], count: int, nodes: Sequence[str], src: str, minutes: int) -> dict[str, Any]:
    return {
        "name": NAME,
        "command": [PROGRAM, json.dumps(settings, sort_keys=True)],
        "code": {"src": src},
        # What is measured is in the candidates, so changing the cluster's fabric changes the sweep through them.
        "fabric": "auto",
        "resources": {
            "nodes": count,
            # Other jobs on the same nodes would distort the bandwidth.
            "exclusive": True,
            "time": f"{minutes // 60:02d}:{minutes % 60:02d}:00",
            **({"sbatch": {"nodelist": ",".join(nodes)}} if nodes else {}),
        },
        "monitor": {"host": 0, "gpu": 0},
        "artifact": {"path": "result.json", "require": {"measured_pairs": {"gt": 0}}},
    }


def _lines(settings: Mapping[str, Any], count: int, rounds: int, nodes: Sequence[str]) -> list[str]:
    sizes = settings["sizes"]
    which = ", ".join(nodes) if nodes else "as Slurm chooses them"
    others = [candidate["name"] for candidate in settings["candidates"][1:]]
    compared = f"{CURRENT} and {', '.join(others)}" if others else "the interfaces that all nodes have (not with NCCL)"
    return [
        f"sweep over {count} nodes ({which}) by {settings['method'].replace('_', '-')}",
        f"{counted(rounds, 'round')} of {counted(count // 2, 'pair')}"
        + (f", then all {count}" if count > FEWEST_NODES else ""),
        f"sizes {', '.join(map(shown_size, sizes))}; at most {settings['seconds']} s each",
        f"compared: {compared}",
    ]
