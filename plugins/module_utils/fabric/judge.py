# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes or pairs a sweep shows to be slow, or whether all of them are. Pure.

A node's number is that of its best pair: a broken link slows both nodes of a pair, but only the node with the broken
link is slow with every partner. An outlier is below `share` of the median and more than `mads` scaled median absolute
deviations below it. The first condition prevents false alarms where the numbers hardly vary, the second where they vary
widely. A number below half of `share` of the median is always an outlier.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.documents import (
    Judged,
    Measure,
    NodeFacts,
    SweepResult,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.words import shown_speed

K = TypeVar("K")

# With fewer numbers, a median is not meaningful.
COMPARABLE = 3
# The standard deviation of normally distributed numbers is this many times their median absolute deviation.
SCALE = 1.4826
# Bytes in a GB of nccl-tests.
GIGA = 1e9
# Below this share of the speed of pairs, all nodes at once count as remarkably slow.
NARROW = 0.5


@dataclass(frozen=True)
class Rule:
    """share: of the median; mads: scaled deviations; expected: bytes per second of a healthy node, 0 if unknown."""

    share: float
    mads: float
    expected: float = 0.0

    def words(self) -> str:
        """Explain for people what counts as slow."""
        return (
            f"slow is below {self.share:g} of the median and {self.mads:g} deviations (MAD) below it, "
            f"or below {self.share / 2:g} of it"
        )


def speed(measure: Measure) -> float:
    """The bus bandwidth at the largest size, in bytes per second; 0.0 if the measurement failed."""
    return float(measure["rows"][-1]["bus"]) if measure["rows"] and not measure["error"] else 0.0


def of_candidate(result: SweepResult, candidate: str, kind: str) -> list[Measure]:
    """The measurements of one candidate. `kind`: which nodes were measured together, such as `pair`."""
    return [measure for measure in result["measures"] if measure["kind"] == kind and measure["candidate"] == candidate]


def by_node(pairs: Sequence[Measure]) -> dict[str, list[float]]:
    """{node: speeds of its pairs}."""
    speeds: dict[str, list[float]] = {}
    for pair in pairs:
        for name in pair["nodes"]:
            speeds.setdefault(name, []).append(speed(pair))
    return speeds


def limit(numbers: Sequence[float], rule: Rule) -> float:
    """The bound below which a number is an outlier."""
    median = statistics.median(numbers)
    deviation = SCALE * statistics.median([abs(number - median) for number in numbers])
    return max(rule.share / 2 * median, min(rule.share * median, median - rule.mads * deviation))


def outliers(numbers: Mapping[K, float], rule: Rule) -> list[K]:
    """The keys of numbers far below the others, including 0. Empty if there are too few, or if their median is 0."""
    if len(numbers) < COMPARABLE or not statistics.median(numbers.values()):
        return []
    bound = limit(list(numbers.values()), rule)
    return [key for key, number in numbers.items() if number < bound or not number]


@dataclass(frozen=True)
class View:
    """What the pairs of one candidate show."""

    numbers: dict[str, list[float]]
    median: float
    slow: list[str]
    slow_pairs: list[Measure]
    findings: list[str]


def view(result: SweepResult, candidate: str, rule: Rule) -> View:
    """The speeds of all pairs of one candidate, and which are slow. Speeds are in bytes per second."""
    pairs = of_candidate(result, candidate, "pair")
    numbers = by_node(pairs)
    best = {name: max(node_speeds) for name, node_speeds in sorted(numbers.items())}
    median = statistics.median(best.values())
    slow = outliers(best, rule)
    others = [pair for pair in pairs if not set(pair["nodes"]) & set(slow)]
    speeds = dict(enumerate(map(speed, others)))
    slow_pairs = [others[place] for place in outliers(speeds, rule)]
    findings = [_slow_node(name, best[name], median, pairs) for name in slow]
    findings += [_slow_pair(pair, statistics.median(speeds.values())) for pair in slow_pairs]
    return View(numbers, median, slow, slow_pairs, findings)


def judge(result: SweepResult, rule: Rule) -> Judged:
    """verdict, nodes (each with best, worst, pairs, slow), slow_nodes, slow_pairs, findings and median.

    The verdict is fine, slow_nodes, slow_pairs, all_slow or unknown (too few nodes to compare). If a candidate other
    than the current one was chosen, nodes and pairs that are slow with the current one are listed too: today's jobs use
    it.
    """
    chosen, now = result["chosen"], result["candidates"][0]["name"]
    seen = view(result, chosen, rule)
    today = view(result, now, rule) if now != chosen else None
    slow = [name for name in result["nodes"] if name in seen.slow or (today and name in today.slow)]
    findings = seen.findings + ([f"with {now}: {finding}" for finding in today.findings] if today else [])
    slow_pairs = seen.slow_pairs + [
        pair for pair in (today.slow_pairs if today else []) if not set(pair["nodes"]) & set(slow)
    ]
    all_slow = bool(rule.expected) and seen.median < rule.share * rule.expected
    if all_slow:
        findings.append(
            f"everything is slow: the median is {shown_speed(seen.median)}, {_percent(seen.median, rule.expected)} of "
            f"the {shown_speed(rule.expected)} expected; check what all nodes share (interface, transport, switches)"
        )
    findings += _narrow(result, seen.median, slow) + unlike(result["facts"]) + _failed(result)
    if all_slow:
        verdict = "all_slow"
    elif len(seen.numbers) < COMPARABLE:
        verdict = "unknown"
    else:
        verdict = "slow_nodes" if slow else "slow_pairs" if slow_pairs else "fine"
    return {
        "verdict": verdict,
        "median": seen.median,
        "nodes": [
            {"name": name, "best": max(mine), "worst": min(mine), "pairs": len(mine), "slow": name in slow}
            for name, mine in sorted(seen.numbers.items())
        ],
        "slow_nodes": slow,
        "slow_pairs": [list(pair["nodes"]) for pair in slow_pairs],
        "findings": findings,
    }


def _percent(part: float, total: float) -> str:
    share = 100 * part / total if total else 0.0
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
        "fine with others: check the switches and cables between them"
    )


def _narrow(result: SweepResult, median: float, slow: Sequence[str]) -> list[str]:
    findings = []
    shared = "what they share (links between switches, or the CPUs that do the work) may not be enough for all"
    for measure in of_candidate(result, result["chosen"], "set"):
        together, number = f"all {len(measure['nodes'])} nodes together", speed(measure)
        if measure["error"]:
            findings.append(f"{together} could not be measured: {measure['error']}")
        elif number < NARROW * median:
            why = f"they wait for {short_list(slow)}" if slow else shared
            findings.append(f"{together}: {shown_speed(number)}, {_percent(number, median)} of the median pair; {why}")
    return findings


def _failed(result: SweepResult) -> list[str]:
    """Candidates for which no measurement succeeded, one sentence each."""
    findings = []
    for candidate in result["candidates"]:
        mine = [measure for measure in result["measures"] if measure["candidate"] == candidate["name"]]
        if mine and all(measure["error"] for measure in mine):
            findings.append(f"candidate {candidate['name']} could not be measured: {mine[0]['error']}")
    return findings


def unlike(facts: Mapping[str, NodeFacts]) -> list[str]:
    """Nodes that differ from most others in interfaces, adapters' rates or GPUs."""
    traits: dict[str, dict[str, str]] = {}
    for name, node_facts in facts.items():
        rates = [f"{each['name']} {each['rate'] or '?'}" for each in node_facts["rdma"]]
        traits[name] = {
            "interfaces": ", ".join(sorted(node_facts["interfaces"])) or "none",
            "adapters": ", ".join(rates) or "none",
            "GPUs": f"{node_facts['gpus']['count']} {', '.join(node_facts['gpus']['models'])}".strip(),
        }
    findings = []
    for what in ("interfaces", "adapters", "GPUs"):
        usual, often = Counter(values[what] for values in traits.values()).most_common(1)[0]
        if 2 * often > len(traits):
            findings += [
                f"{name} is unlike the others: {what} {values[what]}, not {usual}"
                for name, values in traits.items()
                if values[what] != usual
            ]
    return findings
