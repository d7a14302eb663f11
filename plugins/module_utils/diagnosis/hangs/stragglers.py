# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank of a slow job keeps the others waiting, and who does nothing, from several looks at all ranks. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.links import slow_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.standstill import (
    NAMED,
    RankState,
    Verdict,
    states_of,
)

# For how long (seconds) the nodes look at their ranks again and again: some thirty times. Of a rank that takes half as
# long again, the others wait in every third look, and it hardly ever does.
SECONDS = 20
# A rank is late that waits in less than this part of the looks in which most others do, if chance names any one in so
# many of the jobs without such a rank.
LESS, CHANCE, FEWEST = 0.5, 0.1, 5
# For how long (seconds) ranks are looked at that seem to evaluate or save, in so many looks; they do nothing below this
# part of a CPU and so many turns of their main threads between the looks. A loop that sleeps for a moment has hundreds.
STILL_SECONDS, STILL_LOOKS, STILL, STILL_SWITCHES = 15, 5, 0.25, 4
SLOW = "slow"


def straggler(
    looks: Sequence[Sequence[JsonObject]], odd: Mapping[str, str], ranks: Sequence[int] = ()
) -> Verdict | None:
    """The ranks that the others wait for. `odd`: node -> what its samples show that the others' do not; `ranks`: those
    whose own steps take longer. None where nothing stands out.
    """
    states = [states_of(look) for look in looks]
    newest = {rank.rank: rank for look in states for rank in look}
    late = [newest.get(rank, RankState(rank, "")) for rank in ranks] or _late(states)
    if late:
        texts = [f"{_who(rank)}{_aside(odd, rank.node)}" for rank in late[:NAMED]]
        more = f"; and {len(late) - NAMED} more" if len(late) > NAMED else ""
        why = "its own steps take longer" if ranks else "the others wait in collectives while it works"
        return Verdict(SLOW, tuple(late), f"{'; '.join(texts)}{more}: {why}")
    links = Counter(node for look in looks for node in slow_nodes(look))
    slow = [node for node, count in links.most_common(NAMED) if count > len(looks) / 2]
    nodes = slow or sorted(odd)[:NAMED]
    if not nodes:
        return None
    shown = [node + (f": {odd[node]}" if node in odd else ", whose connections have unsent data") for node in nodes]
    on_them = tuple(rank for rank in newest.values() if rank.node in nodes)
    return Verdict(SLOW, on_them, "; ".join(shown))


def frozen(looks: Sequence[Sequence[JsonObject]], ranks: Sequence[int]) -> bool:
    """Whether these ranks (all, if none is named) do nothing in several looks: no process of theirs uses its CPU, and
    no main thread runs between two of them.
    """
    counted: dict[tuple[str, object], list[tuple[int, int]]] = {}
    for document in (document for look in looks for document in look):
        processes = document.get("processes")
        for row in processes if isinstance(processes, list) else []:
            if ranks and row.get("rank") not in ranks:
                continue
            cpu, switches = row.get("cpu"), row.get("switches")
            if (
                not isinstance(cpu, (int, float))
                or cpu >= STILL
                or not isinstance(switches, list)
                or len(switches) != 2
            ):
                return False
            counted.setdefault((str(document.get("node")), row.get("pid")), []).append((switches[0], switches[1]))
    # Of a process that is there in one look only, nothing is known.
    moved = [sum(after[0] - before[1] for before, after in zip(seen, seen[1:])) for seen in counted.values()]
    return bool(moved) and all(len(seen) >= STILL_LOOKS for seen in counted.values()) and max(moved) < STILL_SWITCHES


def _late(looks: Sequence[Sequence[RankState]]) -> list[RankState]:
    """The ranks that wait in far fewer looks than most others, each where it is more often than they are. The nodes do
    not look at the same moments.
    """
    states = [rank for look in looks if not any(rank.evaluates for rank in look) for rank in look]
    waited = Counter(rank.rank for rank in states if rank.operation)
    outside = [rank for rank in states if not rank.operation and (rank.frames or rank.state in ("D", "T", "t"))]
    seen = waited + Counter(rank.rank for rank in outside)
    shares = {number: waited[number] / count for number, count in seen.items()}
    usual = statistics.median_high(shares.values()) if shares else 0.0
    # As often as chance has one of so many normal numbers so far below its mean (in standard deviations, squared).
    far = 2 * math.log(max(1, len(shares)) / CHANCE) * usual * (1 - usual)
    late = [
        number for number, share in sorted(shares.items())
        if share <= LESS * usual and (usual - share) ** 2 * seen[number] >= far and seen[number] >= FEWEST
    ]  # fmt: skip
    if len(late) > len(shares) / 2:
        return []
    everywhere = Counter(rank.place for rank in outside if rank.rank not in late)
    own = [Counter(rank.place for rank in outside if rank.rank == number) for number in late]
    others = max(1, len(shares) - len(late))
    most = [max(places, key=lambda place: places[place] - everywhere[place] / others) for places in own]
    return [_usual([rank for rank in outside if (rank.rank, rank.place) == at]) for at in zip(late, most)]


def _usual(states: Sequence[RankState]) -> RankState:
    """The newest of the looks at a rank that show what most of them do."""
    activity = Counter(rank.activity for rank in states).most_common(1)[0][0]
    return next(rank for rank in reversed(states) if rank.activity == activity)


def _who(rank: RankState) -> str:
    where = f"rank {rank.rank}" + (f" on {rank.node}" if rank.node else "")
    doing = f" {rank.activity}" if rank.frames or rank.state in ("D", "T", "t") else ""
    return where + doing + (f" ({rank.place})" if rank.place else "")


def _aside(odd: Mapping[str, str], node: str) -> str:
    return f", on a node with {odd[node]}" if node in odd else ""
