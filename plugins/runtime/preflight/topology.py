# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the fit nodes the ranks get, so that groups of ranks that exchange the most stay in one block or below one
leaf switch. A node knows where it is: Slurm gives each task SLURM_TOPOLOGY_ADDR, such as spine.leaf1.node01.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def block_of(name: str, report: dict[str, Any] | None) -> str:
    """The block or switches of a node, or nothing on a cluster without a topology."""
    address = (report or {}).get("place") or ""
    return address[: -len(name) - 1] if address.endswith(f".{name}") else ""


def blocks_of(names: list[str], reports: dict[str, Any]) -> dict[str, str]:
    """{node: its block}; empty unless all of these nodes know theirs."""
    blocks = {name: block_of(name, reports[name]) for name in names}
    return blocks if all(blocks.values()) else {}


def crossing(nodes: list[str], blocks: Mapping[str, str], group: int) -> list[list[str]]:
    """The groups of so many nodes, in the order of the ranks, that lie in more than one block."""
    if not blocks:
        return []
    groups = [nodes[start : start + group] for start in range(0, len(nodes), group)]
    return [each for each in groups if len({blocks[name] for name in each}) > 1]


def whole_groups(fit: list[str], wanted: int, blocks: Mapping[str, str], group: int) -> list[int]:
    """So many places of the fit nodes: of each block as many whole groups as it holds, then what is left."""
    of_block: dict[str, list[int]] = {}
    for place, name in enumerate(fit):
        of_block.setdefault(blocks[name], []).append(place)
    chosen: list[int] = []
    left: list[int] = []
    for places in of_block.values():
        whole = len(places) // group * group
        chosen += places[:whole]
        left += places[whole:]
    return (chosen + left)[:wanted]


def choose(fit: list[str], wanted: int, slow: Mapping[str, str], blocks: Mapping[str, str], group: int) -> list[str]:
    """So many of the fit nodes, in the order of the allocation. Slow ones are left over first; among equals, the choice
    that cuts fewer groups.
    """
    order = sorted(range(len(fit)), key=lambda place: (fit[place] in slow, place))
    choices = [order[:wanted]]
    if group > 1 and blocks and len(fit) > wanted:
        choices.append(whole_groups(fit, wanted, blocks, group))
        fast = [name for name in fit if name not in slow]
        if wanted <= len(fast) < len(fit):
            choices.append([fit.index(fast[place]) for place in whole_groups(fast, wanted, blocks, group)])
    named = [[fit[place] for place in sorted(choice)] for choice in choices]
    return min(named, key=lambda nodes: (len(set(nodes) & set(slow)), len(crossing(nodes, blocks, group))))


def together(left: list[str], wanted: int, blocks: Mapping[str, str]) -> list[str]:
    """So many of these nodes, in their order, of as few blocks as may be: those of the smallest block that has enough,
    or else all of the largest one and what is missing in the same way.
    """
    of_block: dict[str, list[str]] = {}
    for name in left:
        of_block.setdefault(blocks.get(name, ""), []).append(name)
    taken: list[str] = []
    while len(taken) < wanted and of_block:
        missing = wanted - len(taken)
        enough = [block for block, names in of_block.items() if len(names) >= missing]
        sizes = {block: len(names) for block, names in of_block.items()}
        block = min(enough, key=lambda each: sizes[each]) if enough else max(sizes, key=lambda each: sizes[each])
        taken += of_block.pop(block)[:missing]
    return [name for name in left if name in taken]


def lines(chosen: list[str], reports: dict[str, Any], group: int) -> list[str]:
    """The lines of the table on where the chosen nodes are; none on a cluster without a topology."""
    blocks = blocks_of(chosen, reports)
    if not blocks:
        return []
    counts: dict[str, int] = {}
    for name in chosen:
        counts[blocks[name]] = counts.get(blocks[name], 0) + 1
    shown = [f"blocks {', '.join(f'{block}: {count}' for block, count in counts.items())}"]
    cut = crossing(chosen, blocks, group) if group > 1 else []
    if cut:
        total = -(-len(chosen) // group)
        first = "+".join(",".join(name for name in cut[0] if blocks[name] == block) for block in counts
                         if any(blocks[name] == block for name in cut[0]))  # fmt: skip
        shown.append(f"crossing {len(cut)} of {total} groups of {group} nodes lie in several blocks, first {first}")
    return shown
