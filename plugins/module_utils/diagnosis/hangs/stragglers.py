# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank of a slow job keeps the others waiting, from several looks at all ranks. Pure."""

from __future__ import annotations

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

# How often the nodes are asked. A rank is late that was in no collective in two of three looks that show most others in
# one. Of a rank that takes half as long again, every third look shows that.
LOOKS = 8
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


def _late(looks: Sequence[Sequence[RankState]]) -> list[RankState]:
    outside: Counter[int] = Counter()
    newest: dict[int, RankState] = {}
    useful = 0
    for states in looks:
        late = [rank for rank in states if not rank.operation and (rank.frames or rank.state in ("D", "T", "t"))]
        waiting = sum(1 for rank in states if rank.operation)
        if not late or len(late) >= waiting:
            continue
        useful += 1
        outside.update(rank.rank for rank in late)
        newest.update({rank.rank: rank for rank in late})
    chosen = [number for number, count in outside.items() if useful > 1 and 3 * count >= 2 * useful]
    return [newest[number] for number in sorted(chosen)]


def _who(rank: RankState) -> str:
    where = f"rank {rank.rank}" + (f" on {rank.node}" if rank.node else "")
    doing = f" {rank.activity}" if rank.frames or rank.state in ("D", "T", "t") else ""
    return where + doing + (f" ({rank.place})" if rank.place else "")


def _aside(odd: Mapping[str, str], node: str) -> str:
    return f", on a node with {odd[node]}" if node in odd else ""
