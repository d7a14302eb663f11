# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a sweep as text for people: a table, and what is remarkable. Pure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.documents import (
    Candidate,
    Judged,
    Suggested,
    SweepResult,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.judge import Rule, of_candidate, speed
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.words import (
    columns,
    shown_size,
    shown_speed,
    shown_time,
)

METHODS = {
    "nccl_tests": "all_reduce_perf of nccl-tests",
    "torch": "all-reduces by torch",
    "tcp": "the traffic of an all-reduce over TCP",
}
# Above this number, a screen shows only the slowest nodes.
MOST_NODES = 40
FORMULA = "bus bandwidth = size / time x 2 (n - 1) / n with n ranks, as nccl-tests has it"


def day(result: SweepResult) -> str:
    """The day of the measurement (UTC), as 2026-01-31."""
    return time.strftime("%Y-%m-%d", time.gmtime(result["measured_at"]))


def title(result: SweepResult) -> str:
    """One line: nodes, method, interface, time and job."""
    backend = f" ({result['backend']})" if result["method"] == "torch" else ""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result["measured_at"]))
    ranks = f" x {result['ranks_per_node']} ranks" if result["ranks_per_node"] > 1 else ""
    return (
        f"{len(result['nodes'])} nodes{ranks}, {METHODS[result['method']]}{backend} over {interface(result)}, "
        f"{when}, job {result['job_id']}"
    )


def interface(result: SweepResult) -> str:
    """The interface that the chosen candidate used. NCCL picks its adapters itself and only meets there."""
    chosen = candidate(result, result["chosen"])
    if result["backend"] == "nccl":
        return f"what NCCL chose ({result['chosen']})"
    return str(chosen["interface"])


def candidate(result: SweepResult, name: str) -> Candidate:
    """The candidate of this name. Raises StopIteration if there is none."""
    return next(entry for entry in result["candidates"] if entry["name"] == name)


def comparison(result: SweepResult) -> list[str]:
    """One line for each candidate, compared with the current one."""
    if len(result["candidates"]) < 2:
        return []
    first = result["candidates"][0]["median"]
    rows = []
    for candidate in result["candidates"]:
        current = candidate is result["candidates"][0]
        against = "" if current or not first else f"{100 * (candidate['median'] / first - 1):+.0f} %"
        over = f"over {candidate['interface']}" if result["backend"] != "nccl" else ""
        rows.append(
            ["  " + candidate["name"], over, shown_speed(candidate["median"]), against]
            + (["<- chosen"] if candidate["name"] == result["chosen"] else [])
        )
    return ["compared, median of the nodes' best pairs:", *columns(rows)]


def by_size(result: SweepResult) -> list[str]:
    """One line for each size: the median pair, and all nodes at once."""
    pairs = [pair for pair in of_candidate(result, result["chosen"], "pair") if speed(pair)]
    together = of_candidate(result, result["chosen"], "set")
    rows = [["  size", "time", "median pair", *([f"all {len(result['nodes'])} nodes"] if together else [])]]
    for size in sorted({row["size"] for pair in pairs for row in pair["rows"]}):
        mine = [row for pair in pairs for row in pair["rows"] if row["size"] == size]
        row = [
            "  " + shown_size(size),
            shown_time(statistics.median(each["seconds"] for each in mine)),
            shown_speed(statistics.median(each["bus"] for each in mine)),
        ]
        all_of_it = [each for pair in together for each in pair["rows"] if each["size"] == size]
        rows.append(row + [shown_speed(each["bus"]) for each in all_of_it])
    return columns(rows)


def by_node(judged: Judged) -> list[str]:
    """One line for each node; only the slowest if there are many."""
    nodes = judged["nodes"]
    shown = sorted(nodes, key=lambda row: row["best"])[:MOST_NODES] if len(nodes) > MOST_NODES else nodes
    rows = [["  node", "best pair", "worst pair", "pairs"]]
    rows += [
        ["  " + row["name"], shown_speed(row["best"]), shown_speed(row["worst"]), str(row["pairs"])]
        + (["SLOW"] if row["slow"] else [])
        for row in shown
    ]
    left = len(nodes) - len(shown)
    return columns(rows) + ([f"  and {left} faster ones"] if left else [])


def verdict(judged: Judged, rule: Rule) -> str:
    """The verdict as one line."""
    return {
        "fine": "nothing stands out",
        "slow_nodes": f"{len(judged['slow_nodes'])} of {len(judged['nodes'])} nodes slow",
        "slow_pairs": f"{len(judged['slow_pairs'])} pairs slow, and no node",
        "all_slow": "everything is slow",
        "unknown": "two nodes have no median to be compared with; nothing is flagged",
    }[judged["verdict"]] + f" ({rule.words()})"


def table(result: SweepResult, judged: Judged, rule: Rule, suggested: Suggested) -> list[str]:
    """The complete report as lines for a screen."""
    return [
        title(result),
        f"  measured so because: {result['why']}",
        f"  {FORMULA}",
        *by_size(result),
        *by_node(judged),
        *comparison(result),
        *(f"! {finding}" for finding in judged["findings"]),
        *suggestions(suggested),
        verdict(judged, rule),
    ]


def suggestions(suggested: Suggested) -> Sequence[str]:
    """The suggestions as lines, the likeliest network first."""
    return [
        suggested["looks_like"],
        *(f"  fabric {item['fabric']} fits: {item['reason']}" for item in suggested["fabrics"]),
        *(f"  check {item}" for item in suggested["look_at"]),
    ]
