# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep says of its nodes: who is slow, which pair, or all of them. Pure.

A node's number is that of its best pair: a broken link slows both of a pair, but only the node that it belongs to is
slow with everybody. An outlier is below `share` of the median and more than `mads` scaled median absolute deviations
below it: of numbers that scatter widely the second rule flags none, of numbers that hardly scatter the first one.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.words import shown_speed
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.words import short_list

# Fewer numbers have no median to be compared with.
COMPARABLE = 3
# The deviation of normally distributed numbers is so many times their median absolute deviation.
SCALE = 1.4826
# Bytes of nccl-tests' GB.
GIGA = 1e9
# All nodes at once are remarkably slower than pairs below this share of them.
NARROW = 0.5
Measure = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """share: of the median; mads: scaled deviations; expected: bytes a second of a healthy node, 0 where not known."""

    share: float
    mads: float
    expected: float = 0.0

    def words(self) -> str:
        return f"below {self.share:g} of the median and by more than {self.mads:g} deviations (MAD)"


def speed(measure: Measure) -> float:
    """Of its largest size; 0.0 where it failed."""
    return float(measure["rows"][-1]["bus"]) if measure["rows"] and not measure["error"] else 0.0


def of_chosen(result: Mapping[str, Any], kind: str) -> list[Measure]:
    return [one for one in result["measures"] if one["kind"] == kind and one["candidate"] == result["chosen"]]


def by_node(pairs: Sequence[Measure]) -> dict[str, list[float]]:
    """{node: the numbers of its pairs}."""
    found: dict[str, list[float]] = {}
    for pair in pairs:
        for name in pair["nodes"]:
            found.setdefault(name, []).append(speed(pair))
    return found


def limit(numbers: Sequence[float], rule: Rule) -> float:
    """What is below it is an outlier; 0.0 (none can be) where there are too few numbers."""
    if len(numbers) < COMPARABLE:
        return 0.0
    median = statistics.median(numbers)
    deviation = SCALE * statistics.median([abs(number - median) for number in numbers])
    return max(0.0, min(rule.share * median, median - rule.mads * deviation))


def below(number: float, bound: float) -> bool:
    """Whether a number is an outlier; nothing at all always is, where anything can be."""
    return number < bound or (bound > 0 and number == 0)


def judge(result: Mapping[str, Any], rule: Rule) -> dict[str, Any]:
    """verdict, nodes (each with best, worst, pairs, slow), slow_nodes, slow_pairs, findings and median.

    The verdict is V(fine), V(slow_nodes), V(slow_pairs), V(all_slow) or V(unknown) (too few nodes to compare).
    """
    pairs = of_chosen(result, "pair")
    numbers = by_node(pairs)
    best = {name: max(found) for name, found in numbers.items()}
    median = statistics.median(best.values())
    bound = limit(list(best.values()), rule)
    slow = [name for name in result["nodes"] if name in best and below(best[name], bound)]
    others = [pair for pair in pairs if not set(pair["nodes"]) & set(slow)]
    pair_bound = limit([speed(pair) for pair in others], rule)
    slow_pairs = [pair for pair in others if below(speed(pair), pair_bound)]
    all_slow = bool(rule.expected) and median < rule.share * rule.expected
    findings = [_slow_node(name, best[name], median, pairs) for name in slow]
    findings += [_slow_pair(pair, statistics.median([speed(one) for one in others])) for pair in slow_pairs]
    if all_slow:
        findings.append(
            f"everything is slow: the median is {shown_speed(median)}, {_percent(median, rule.expected)} of the "
            f"{shown_speed(rule.expected)} expected; look at what all nodes share (interface, transport, switches)"
        )
    findings += _narrow(result, median, slow) + unlike(result["facts"]) + _failed(result)
    if all_slow:
        verdict = "all_slow"
    elif len(best) < COMPARABLE:
        verdict = "unknown"
    else:
        verdict = "slow_nodes" if slow else "slow_pairs" if slow_pairs else "fine"
    return {
        "verdict": verdict,
        "median": median,
        "nodes": [
            {"name": name, "best": max(mine), "worst": min(mine), "pairs": len(mine), "slow": name in slow}
            for name, mine in sorted(numbers.items())
        ],
        "slow_nodes": slow,
        "slow_pairs": [list(pair["nodes"]) for pair in slow_pairs],
        "findings": findings,
    }


def _percent(part: float, whole: float) -> str:
    share = 100 * part / whole if whole else 0.0
    return f"{share:.0f} %" if share >= 1 else f"{share:.1f} %"


def _slow_node(name: str, number: float, median: float, pairs: Sequence[Measure]) -> str:
    if number:
        met = sum(name in pair["nodes"] for pair in pairs)
        often = "with its only partner" if met == 1 else f"with each of its {met} partners"
        return f"slow node {name}: at best {shown_speed(number)}, {_percent(number, median)} of the median, {often}"
    errors = sorted({pair["error"] for pair in pairs if name in pair["nodes"] and pair["error"]})
    return f"slow node {name}: no pair with it could be measured ({'; '.join(errors[:2])})"


def _slow_pair(pair: Measure, median: float) -> str:
    names = " and ".join(pair["nodes"])
    if pair["error"]:
        return f"slow pair {names}: could not be measured ({pair['error']}), and both are fine with others"
    return (
        f"slow pair {names}: {shown_speed(speed(pair))}, {_percent(speed(pair), median)} of the median, and both are "
        "fine with others: look at what lies between them"
    )


def _narrow(result: Mapping[str, Any], median: float, slow: Sequence[str]) -> list[str]:
    found = []
    shared = "what they share (links between switches, or the CPUs that do the work) may not be enough for all"
    for whole in of_chosen(result, "set"):
        together, number = f"all {len(whole['nodes'])} nodes together", speed(whole)
        if whole["error"]:
            found.append(f"{together} could not be measured: {whole['error']}")
        elif number < NARROW * median:
            why = f"they wait for {short_list(slow)}" if slow else shared
            found.append(f"{together}: {shown_speed(number)}, {_percent(number, median)} of the median pair; {why}")
    return found


def _failed(result: Mapping[str, Any]) -> list[str]:
    """Candidates of which nothing could be measured, a sentence each."""
    found = []
    for one in result["candidates"]:
        mine = [measure for measure in result["measures"] if measure["candidate"] == one["name"]]
        if mine and all(measure["error"] for measure in mine):
            found.append(f"candidate {one['name']} could not be measured: {mine[0]['error']}")
    return found


def unlike(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Nodes that have something else than most others: interfaces, the rates that adapters state, GPUs."""
    traits: dict[str, dict[str, str]] = {}
    for name, one in facts.items():
        rates = [f"{each['name']} {each['rate'] or '?'}" for each in one["rdma"]]
        traits[name] = {
            "interfaces": ", ".join(sorted(one["interfaces"])) or "none",
            "adapters": ", ".join(rates) or "none",
            "GPUs": f"{one['gpus']['count']} {', '.join(one['gpus']['models'])}".strip(),
        }
    found = []
    for what in ("interfaces", "adapters", "GPUs"):
        usual, often = Counter(one[what] for one in traits.values()).most_common(1)[0]
        if 2 * often > len(traits):
            found += [
                f"{name} is unlike the others: {what} {one[what]}, not {usual}"
                for name, one in traits.items()
                if one[what] != usual
            ]
    return found
