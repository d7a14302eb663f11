# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from the nodes' reports: which nodes the ranks run on, which are left out and why, which interface
all of them share. Runs in the conductor, over documents alone.
"""

from __future__ import annotations

import contextlib
import os
import re

from core.files import publish, read, read_all
from node.reports import TOGETHER, reports_of
from preflight import binding, topology
from preflight.network import RDMA
from preflight.question import Judgement, Question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    # Node -> its problems.
    Problems = dict[str, list[str]]

# A node whose best exchange with any neighbour is below this share of the median holds a synchronous job up: every step
# waits for it. Healthy links of one fabric differ by some per cent; a broken lane or a fallback halves them at least.
SLOW_SHARE = 0.5
COMPARABLE = 3  # with fewer nodes there is no median to be far from
WORDS_MAX = 300
# Bytes of a line that are looked at.
WORDS_BYTES = 64 << 10
# What srun --label writes before a line: a task, of a heterogeneous job with its component. What a task says first
# where its node has no runtime to say more.
LABEL, NODE = re.compile(r"[P\d ]+"), re.compile(r"\[node\] (\S+)")


def last_words(path: str) -> dict[str, str]:
    """{node: the last line that its tasks said besides what they are bound to} from the file that srun writes."""
    node_of, words = {}, {}
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        for line in iter(lambda: stream.readline(WORDS_BYTES), ""):
            label, _colon, text = line.strip().partition(": ")
            bound, unseen = binding.LINE.match(line.strip()), NODE.fullmatch(text)
            if bound:
                node_of[label] = bound[2]
            elif unseen:
                node_of[label] = unseen[1]
            elif LABEL.fullmatch(label) and text.strip():
                words[label] = text.strip()[:WORDS_MAX]
    return {node_of[label]: text for label, text in words.items() if label in node_of}


def problems_of(asked: Question, reports: dict[str, Any], short: Problems) -> Problems:
    """{node: its problems} of the nodes that are not fit. `short`: binding.shortages."""
    words = last_words(os.path.join(asked.folder, TOGETHER)) if None in reports.values() else {}
    words.update({name: f"srun could not start a task there: {reason}" for name, reason in asked.unstarted.items()})
    problems, ended = {}, asked.ended and f": the preflight's step ended {asked.ended}"
    for name in asked.names:
        if reports[name] is None:
            silence = f"no report{ended}" if ended else f"no report within {asked.budget} s"
            problems[name] = [f"no report: {words[name]}" if name in words else silence]
        elif reports[name]["problems"] or name in short:
            problems[name] = [*reports[name]["problems"], *short.get(name, ())]
    return problems


def own_problems(names: list[str], reports: dict[str, Any], unfit: Problems, common: Sequence[str] = ()) -> Problems:
    """{node: problems} that may be blamed on the node. What all nodes of a job have in common is the job's, or the
    site's, and so is what `common` holds, in which each node has its own words for the same; of a job on one node only
    what nothing but the node can have.
    """
    shared = set.intersection(*(set(unfit.get(name, ())) for name in names)).union(common)
    blamed = {}
    for name, problems in unfit.items():
        if len(set(names)) > 1:
            mine = [problem for problem in problems if problem not in shared]
        else:
            ailments = (reports[name] or {}).get("ailments", problems)
            mine = [problem for problem in problems if problem in ailments]
        if mine:
            blamed[name] = mine
    return blamed


def common_interfaces(nodes: list[str], reports: dict[str, Any]) -> list[str]:
    """The interfaces over which all of these nodes reach the first of them, in its order: fast ones first."""
    common = None
    for name in nodes:
        reachable = reports[name]["usable"].get(nodes[0], [])
        common = list(reachable) if common is None else [interface for interface in common if interface in reachable]
    return common or []


def without_fast_interface(fit: list[str], reports: dict[str, Any]) -> dict[str, str]:
    """{node: why} of the few nodes that lack the fast interface which most of the fit ones have, or do not reach the
    others over it. Where most lack it there is none to miss.
    """
    most = len(fit) / 2
    counts: dict[str, int] = {}
    for name in fit:
        for interface in reports[name]["own"]:
            if interface in reports[name].get("rules", {}):
                counts[interface] = counts.get(interface, 0) + 1
    rule = {interface: why for name in fit for interface, why in reports[name].get("rules", {}).items()}
    wanted = [name for name, count in counts.items() if count > most]
    if not wanted:
        return {}
    interface = min(wanted, key=lambda name: (rule[name].startswith(RDMA), name))
    lacking = {
        name: f"has no {interface}, which the others have" for name in fit if interface not in reports[name]["own"]
    }
    head = next((name for name in fit if name not in lacking and name in reports[name]["usable"]), None)
    if head is not None:
        cut = [n for n in fit if n not in lacking and interface not in reports[n]["usable"].get(head, [])]
        if len(cut) < most:
            lacking.update(dict.fromkeys(cut, f"does not reach {head} over {interface}"))
    return lacking


def bandwidths(folder: str, names: list[str]) -> tuple[dict[str, float], str]:
    """({node: MB/s of its best pair} of the nodes that took part in the exchange, what was measured).

    A broken link slows both of a pair, but only the node that it belongs to is slow with everybody.
    """
    plan = read(os.path.join(folder, "exchange.json"))
    if plan is None:
        return {}, ""
    measured = read_all(folder, [f"{name}.exchange.json" for name in plan["nodes"]])
    pairs_of = {name: (measured[f"{name}.exchange.json"] or {}).get("pairs", {}) for name in plan["nodes"]}
    # Each says what came in from the other; a pair is as fast as its slower direction.
    best = {
        name: max((min(speed, pairs_of[other].get(name, 0.0)) for other, speed in pairs.items()), default=0.0)
        for name, pairs in pairs_of.items()
    }
    return {name: best[name] for name in names if name in best}, plan["words"]


def speed_text(speed: float) -> str:
    return f"{speed:.0f} MB/s" if speed >= 10 else f"{speed:.1f} MB/s"


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Rounds of pairs of places in a ring of that many nodes: every place meets each neighbour, one at a time."""
    if count < 2:
        return []
    if count == 2:
        return [[(0, 1)]]
    rounds = [[(place, place + 1) for place in range(start, count - 1, 2)] for start in (0, 1)]
    last = (count - 1, 0)
    if count % 2:
        return [*rounds, [last]]
    rounds[1].append(last)
    return rounds


def median_of(speeds: Mapping[str, float]) -> float:
    # Imported where there are speeds: it takes longer than the rest of this file.
    import statistics

    return statistics.median(speeds.values())


def slow_links(speeds: Mapping[str, float]) -> dict[str, str]:
    """{node: why} of the nodes far below the median."""
    if len(speeds) < COMPARABLE:
        return {}
    median = median_of(speeds)
    return {
        name: f"{speed_text(speed)}, less than half of the median {speed_text(median)}"
        if speed
        else "no result in the exchange"
        for name, speed in speeds.items()
        if speed < SLOW_SHARE * median
    }


def decide(
    names: list[str],
    wanted: int,
    policy: str,
    unfit: Problems,
    blamed: Problems,
    pick: Callable[[list[str]], list[str]],
) -> tuple[str, list[str], str]:
    """(action, chosen nodes, message) from who is not fit, and whose fault that is.

    `pick`: chooses of more fit nodes than needed; the order of the allocation stays.
    """
    fit = [name for name in names if name not in unfit]
    chosen = pick(fit)
    message = "; ".join(f"{name}: {problem}" for name in names for problem in unfit.get(name, ()))
    if len(fit) >= wanted and not (unfit and policy == "stop"):
        return "run", chosen, message
    if policy == "requeue":
        if all(name in blamed for name in unfit):
            return "requeue", [], message
        message += "; not requeued: all nodes have this in common, so another one would have it, too"
    return "stop", [], message


def limits_of(name: str, reports: dict[str, Any], level: str) -> list[str]:
    """What a node's limits mean for the job, should it be the first one: the words of that level."""
    return [each["words"] for each in (reports[name] or {}).get("limits", ()) if each["level"] == level]


def select(asked: Question, megabytes: int) -> list[str]:
    """Who measures with whom: the fit nodes, over the interface that they share, by torch where all of them have it.
    None where fewer than two share one.
    """
    names = asked.names
    reports = reports_of(asked.folder, names)
    short = binding.shortages(binding.layouts(binding.output(asked.folder)), asked)
    unfit = problems_of(asked, reports, short)
    fit = [name for name in names if name not in unfit]
    lacking = without_fast_interface(fit, reports)
    nodes = [name for name in fit if name not in lacking] or fit
    common = common_interfaces(nodes, reports)
    if len(nodes) < 2 or not common:
        return []
    torch = all(reports[name]["torch"] for name in nodes)
    how = "all-reduce by torch" if torch else "exchange over TCP (no torch here)"
    plan = {
        "nodes": nodes,
        "interface": common[0],
        "addresses": {name: reports[name]["own"][common[0]] for name in nodes},
        "torch": torch,
        "seconds": max(1.0, (asked.budget - 10) / len(rounds(len(nodes)))),
        "words": f"{how} of {megabytes} MB between neighbours over {common[0]}",
    }
    publish(os.path.join(asked.folder, "exchange.json"), plan)
    return nodes


def line_of(name: str, report: dict[str, Any] | None, speeds: Mapping[str, float]) -> str:
    """What a node says of itself, as a line of the table; nothing of one that said nothing."""
    columns = dict(report["columns"]) if report else {}
    if name in speeds:
        columns["net"] = speed_text(speeds[name]).replace(" ", "")
    return " ".join([name] + ["{}={}".format(*column) for column in columns.items()]) if columns else ""


def one_line(text: str) -> str:
    """What a node's Python said may hold anything."""
    return " ".join(text.split())


def judge(asked: Question) -> Judgement:
    """Which nodes the ranks get, and the table that says why. Writes FOLDER/unfit.json."""
    folder, names = asked.folder, asked.names
    reports = reports_of(folder, names)
    bound = binding.layouts(binding.output(folder))
    short = binding.shortages(bound, asked)
    unfit = problems_of(asked, reports, short)
    fit = [name for name in names if name not in unfit]
    speeds, measured = bandwidths(folder, fit)
    slow = {**slow_links(speeds), **without_fast_interface(fit, reports)}
    if asked.slow == "fail":
        unfit.update({name: [why] for name, why in slow.items()})
    # Where every node is bound to too little it is the job's options that do it.
    common = (
        [problem for node_problems in short.values() for problem in node_problems] if len(short) == len(bound) else []
    )
    blamed = own_problems(names, reports, unfit, common)
    group, blocks = asked.group_nodes, topology.blocks_of(fit, reports)

    def pick(nodes: list[str]) -> list[str]:
        return topology.choose(nodes, asked.wanted, slow, blocks, group)

    action, chosen, message = decide(names, asked.wanted, asked.policy, unfit, blamed, pick)
    # On any other node the ranks would start. It is the site's doing, which no other job's nodes need pay for.
    while chosen and (errors := limits_of(chosen[0], reports, "error")):
        unfit[chosen[0]] = [f"as the first node: {words}" for words in errors]
        action, chosen, message = decide(names, asked.wanted, asked.policy, unfit, blamed, pick)
    interfaces = common_interfaces(chosen, reports) if chosen else []
    lines = [line_of(name, reports[name], speeds) or f"{name} {unfit[name][0]}" for name in names]
    # What the ranks have; where there will be none, what they would have had.
    shown = set(chosen or names)
    lines += binding.bound({name: bound[name] for name in bound if name in shown}, asked.gpus)
    if speeds:
        slowest = min(speeds, key=lambda name: speeds[name])
        lines.append(
            f"slowest {slowest} {speed_text(speeds[slowest])}, median {speed_text(median_of(speeds))}: {measured}"
        )
    lines += [f"slow {name}: {why}" for name, why in slow.items()]
    lines += topology.lines(chosen, reports, group)
    lines += [f"limit {chosen[0]}: {words}" for words in (limits_of(chosen[0], reports, "warning") if chosen else ())]
    lines += [f"unfit {name}: {problem}" for name in names for problem in unfit.get(name, ())]
    # The diagnosis reads here which nodes lack what others have.
    lines += [f"blamed {' '.join(blamed)}"] if blamed else []
    if chosen != names and chosen:
        lines.append("nodes " + " ".join(chosen))
    if interfaces:
        why = reports[chosen[0]].get("rules", {}).get(interfaces[0], "no fast network: the first by name")
        lines.append(f"interface {interfaces[0]} ({why})")
    publish(os.path.join(folder, "unfit.json"), {name: "; ".join(problems) for name, problems in unfit.items()})
    return Judgement(
        action=action,
        chosen=chosen,
        interface=interfaces[0] if interfaces else "",
        ports=reports[chosen[0]]["ports"] if chosen else [],
        message=one_line(message),
        blamed={name: one_line("; ".join(problems)) for name, problems in blamed.items()},
        blocks=blocks,
        lines=lines,
    )
