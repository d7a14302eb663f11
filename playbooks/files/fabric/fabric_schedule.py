# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who measures with whom, what becomes of several results, and which candidate is the best. Pure."""

import statistics

# In so many rounds candidates are compared: with one, the partners of a slow node would look slow, too.
COMPARING = 2
# Another candidate than the current one must be better by so much: less is noise.
WORTH = 1.1


def tournament(count, most):
    """Rounds of disjoint pairs of places: in each every place has another partner, one place of an odd number none.

    At most `most` of the rounds that it would take until everybody has met everybody.
    """
    circle = [*range(count), *([None] if count % 2 else [])]
    rounds = []
    for _round in range(min(most, len(circle) - 1)):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]))
        rounds.append([tuple(sorted(pair)) for pair in pairs if None not in pair])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return rounds


def bus(size, seconds, ranks):
    """Bytes a second as nccl-tests' bus bandwidth has it: what each rank's link carries in an all-reduce of `size`."""
    return size / max(seconds, 1e-9) * 2 * (ranks - 1) / ranks


def combined(told, names):
    """One result of what the nodes of a measurement told: {name: {rows, error} or None}. Each size is as fast as its
    slowest node saw it, and what one of them did not get to is left out: the others' buffers may have been faster.
    """
    rows = {}
    tables = [one["rows"] for one in told.values() if one and one["rows"]]
    last = min((table[-1]["size"] for table in tables), default=0)
    for table in tables:
        for row in table:
            if row["size"] > last:
                continue
            known = rows.setdefault(row["size"], dict(row))
            known["bus"] = min(known["bus"], row["bus"])
            known["seconds"] = max(known["seconds"], row["seconds"])
            known["cut"] = known["cut"] or row["cut"]
    errors = [f"{name}: {told[name]['error']}" for name in names if told.get(name) and told[name].get("error")]
    errors += [f"{name}: no word of it" for name in names if not told.get(name)]
    return {"rows": [rows[size] for size in sorted(rows)], "error": "; ".join(errors)}


def speed(measure):
    """The bus bandwidth of a measurement: that of its largest size; 0.0 where it failed."""
    return measure["rows"][-1]["bus"] if measure["rows"] and not measure["error"] else 0.0


def best_of_nodes(measures):
    """{node: bus bandwidth of its best pair}: a broken link slows both of a pair, but only one of them in all pairs."""
    found = {}
    for measure in measures:
        for name in measure["nodes"]:
            found[name] = max(found.get(name, 0.0), speed(measure))
    return found


def compare(candidates, measures):
    """({candidate: median over the nodes of their best pairs}, the one to take). The first one is the current one."""
    medians = {}
    for name in candidates:
        best = best_of_nodes([measure for measure in measures if measure["candidate"] == name])
        medians[name] = statistics.median(best.values()) if best else 0.0
    first = candidates[0]
    best = max(candidates, key=lambda name: medians[name])
    return medians, best if medians[best] > WORTH * medians[first] else first
