# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fetched logs of the newest attempt say of a run, whoever won or lost: ranks, network, losses (R6, R7)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.logs import rank_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.metrics import parse_metrics, printable

LOSSES_SHOWN = 5
RANKS_NAMED = 8
# A rank says who it is in its first lines; the last losses are in its last.
HEAD_BYTES, TAIL_BYTES = 65536, 262144
_BANNER = re.compile(r"^\[rankzero\] RANK=(\d+) LOCAL_RANK=\d+ WORLD_SIZE=(\d+) ", re.MULTILINE)
# NCCL says this once a rank at NCCL_DEBUG=INFO: "NCCL INFO NET/IB : Using [0]mlx5_0...", "NCCL INFO Using network IB".
_NETWORK = re.compile(r"NCCL INFO (?:NET/(\w+) ?: Using|Using network (\w+))")


def attempts(logs_dir: str) -> list[str]:
    """The folders of the attempts, the newest first."""
    names = [name for name in os.listdir(logs_dir) if name.isdigit()] if os.path.isdir(logs_dir) else []
    return [os.path.join(logs_dir, name) for name in sorted(names, key=int, reverse=True)]


def rank_logs(logs_dir: str) -> dict[int, str]:
    """Rank -> path of its log in the newest attempt, in the order of ranks, whatever the style of names."""
    found = {}
    for folder in attempts(logs_dir)[:1]:
        for name in os.listdir(folder):
            rank = rank_of(name)
            if rank is not None:
                found[rank] = os.path.join(folder, name)
    return dict(sorted(found.items()))


def evidence(logs_dir: str) -> list[tuple[str, str]]:
    """Rows for the card; what the logs do not tell is no row. An empty title goes on with the row above."""
    heads, tails = {}, {}
    for rank, path in rank_logs(logs_dir).items():
        heads[rank], tails[rank] = _ends(path)
    return _ranks(heads) + _network(heads) + _losses(tails)


def _ends(path: str) -> tuple[str, str]:
    """The first and the last bytes of a log as text."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(HEAD_BYTES)
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL_BYTES))
            tail = stream.read()
    except OSError:
        return "", ""
    return head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")


def _ranks(heads: Mapping[int, str]) -> list[tuple[str, str]]:
    """Whether every rank has started, and all mean the same world (L7)."""
    said = {int(found[1]): int(found[2]) for head in heads.values() if (found := _BANNER.search(head))}
    if not said:
        return []
    worlds = sorted(set(said.values()))
    world = worlds[-1]
    text = f"{len(said)} of {world} started with WORLD_SIZE {' and '.join(map(str, worlds))}"
    silent = [str(rank) for rank in range(world) if rank not in said]
    if silent:
        more = len(silent) - RANKS_NAMED
        text += f"; nothing of rank {', '.join(silent[:RANKS_NAMED])}" + (f" and {more} more" if more > 0 else "")
    return [("ranks", text)]


def _network(heads: Mapping[int, str]) -> list[tuple[str, str]]:
    chosen = {found[1] or found[2] for head in heads.values() if (found := _NETWORK.search(head))}
    if not chosen:
        return []
    text = f"NCCL over {', '.join(sorted(chosen))}"
    return [("network", text + ("; Socket is the slow way" if "Socket" in chosen else ""))]


def _losses(tails: Mapping[int, str]) -> list[tuple[str, str]]:
    """The last losses of the rank that prints the most of them: rank 0 in most frameworks, the last one in some."""
    best: list[str] = []
    for tail in tails.values():
        lines = [line for line in tail.splitlines() if (found := parse_metrics(line)) and found.loss is not None]
        if len(lines) > len(best):
            best = lines
    shown = [printable(line, 120) for line in best[-LOSSES_SHOWN:]]
    return [("" if index else "losses", line) for index, line in enumerate(shown)]
