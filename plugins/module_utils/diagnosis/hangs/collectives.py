# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the ranks of a process group left the common order: their newest collectives, compared one by one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.flight_recorder import Group

# Operations that take tensors of the same size on all ranks. In the others, the ranks may have different parts.
_ALIKE = ("all_reduce", "reduce", "broadcast", "reduce_scatter")
# Rank -> (number in the group -> collective).
_History = Mapping[int, Mapping[int, Group]]


@dataclass(frozen=True)
class Parting:
    """The first collective that not all ranks called alike.

    `odd`: the ranks that did otherwise than most, or half of them; `calls`: what each rank called in that place;
    `more`: how many collectives the first of them has called more than the others, negative: fewer; `counted`: only
    their number differs, and `calls` are the newest ones.
    """

    odd: tuple[int, ...]
    calls: Mapping[int, Group]
    more: int = 0
    counted: bool = False


def parting(recent: Mapping[int, Sequence[Group]]) -> Parting | None:
    """Where ranks left the order of the others; None where all called the same. `recent`: rank -> its collectives."""
    by_group: dict[str, dict[int, dict[int, Group]]] = {}
    for rank, groups in recent.items():
        for group in groups:
            by_group.setdefault(group.name, {}).setdefault(rank, {})[group.sequence] = group
    for name in sorted(by_group):
        history = by_group[name]
        # Who waits in another group has not come to this one's newest collectives yet.
        here = {rank: numbers for rank, numbers in history.items() if not _waits_elsewhere(recent[rank], name)}
        parted = _by_call(history, _kind) or (_by_number(here) if here else None)
        if parted is not None:
            return parted
    return None


def _waits_elsewhere(recent: Sequence[Group], name: str) -> bool:
    """Whether a rank is in a collective of another group, and in none of this one."""
    active = {group.name for group in recent if group.active}
    return bool(active) and name not in active


def _by_call(
    history: _History, kind: Callable[[Group], tuple[str, ...]], suspects: Sequence[int] = ()
) -> Parting | None:
    """The first number in which the ranks called different things, as `kind` tells them apart.

    `suspects`: who is odd where as many did the one as the other.
    """
    begin = max(min(numbers) for numbers in history.values())
    for number in sorted({number for numbers in history.values() for number in numbers if number >= begin}):
        calls = {rank: numbers[number] for rank, numbers in history.items() if number in numbers}
        kinds = {rank: kind(group) for rank, group in calls.items()}
        trusted = {each for rank, each in kinds.items() if rank not in suspects}
        counts = Counter(kinds.values())
        usual = max(counts, key=lambda each: (counts[each], each in trusted))
        odd = tuple(rank for rank, each in sorted(kinds.items()) if each != usual)
        if odd:
            return Parting(odd, calls)
    return None


def _by_number(history: _History) -> Parting | None:
    """The ranks that have called more or fewer collectives than most; from the line on in which they differ."""
    last = {rank: max(numbers) for rank, numbers in history.items()}
    usual, count = Counter(last.values()).most_common(1)[0]
    if count == len(last):
        return None
    if 2 * count == len(last):
        # As many did the one as the other: those that called more have the call that the others lack.
        usual = min(last.values())
    odd = tuple(rank for rank, number in sorted(last.items()) if number != usual)
    more = last[odd[0]] - usual
    placed = _by_call(history, _place, odd)
    if placed is not None and set(placed.odd) <= set(odd):
        return Parting(placed.odd, placed.calls, more)
    return Parting(odd, {rank: numbers[last[rank]] for rank, numbers in history.items()}, more, counted=True)


def _kind(group: Group) -> tuple[str, ...]:
    """What has to be the same on all ranks."""
    alike = any(group.operation.startswith(name) for name in _ALIKE) and "coalesced" not in group.operation
    return group.operation, group.shape if alike else ""


def _place(group: Group) -> tuple[str, ...]:
    """Where it was called. A rank may do so in a line of its own, so this tells nothing alone."""
    return (group.place,)
