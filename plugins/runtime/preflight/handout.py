# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight's table as hand-written launchers of a course print it, beside logs that are named as theirs
(logs.style: slurm). Standard library only.

What each node sees is a file of its own:

    node01 proj=ok pkgs=ok

The versions that it has are the first line of its first rank's log, where rank.sh puts them:

    NODE node01 OK -> PY 3.11.2 torch 2.13.0 tfm 4.41.2 numpy 1.26.4 datasets 2.19.0
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from core.log import publish
from core.state import Job

STYLE = "slurm"
# What such launchers call a column of the table.
NAMES = {"env": "pkgs", "python": "PY", "transformers": "tfm"}
PLACES = ("proj", "env")
ORDER = ("PY", "torch", "tfm", "numpy", "datasets")


def seen(table: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """A line a node: whether it has the code and the environment."""
    rows = _columns(table)
    return [
        " ".join([node, *(f"{NAMES.get(name, name)}={rows.get(node, {}).get(name, 'missing')}" for name in PLACES)])
        for node in nodes
    ]


def probed(table: Sequence[str], nodes: Sequence[str], packages: Collection[str]) -> list[str]:
    """A line for each node that is fit: its versions of Python and of `packages`."""
    unfit = {line.split(" ", 2)[1].rstrip(":") for line in table if line.startswith("unfit ")}
    rows = _columns(table)
    lines = []
    for node in nodes:
        versions = [
            f"{NAMES.get(name, name)} {value}" for name, value in rows.get(node, {}).items() if name in packages
        ]
        if versions and node not in unfit:
            # Readers of such lines expect an order.
            versions.sort(key=lambda words: ORDER.index(words.split()[0]) if words.split()[0] in ORDER else len(ORDER))
            lines.append(" ".join(["NODE", node, "OK", "->", *versions]))
    return lines


def _columns(table: Sequence[str]) -> dict[str, dict[str, str]]:
    """The columns of each node's row."""
    return {
        line.split(" ", 1)[0]: dict(word.split("=", 1) for word in line.split(" ")[1:] if "=" in word) for line in table
    }


def write(job: Job, table: str) -> None:
    """Where the ranks' logs have names of that style: write preflight.JOB.txt beside them, and what rank.sh prints."""
    if job.get("RANKZERO_LOG_STYLE") != STYLE:
        return
    imports = [word for word in job.get("RANKZERO_PREFLIGHT_IMPORTS").split() if not word.startswith("?")]
    packages = {"python", *(word.partition("@")[0] for word in imports)}
    rows, nodes = table.splitlines(), job.preflight.names.split(",")
    places = {
        os.path.join(job.get("RANKZERO_LOGS"), f"preflight.{job.slurm_job}.txt"): seen(rows, nodes),
        os.path.join(job.preflight.folder, "versions"): probed(rows, nodes, packages),
    }
    for path, lines in places.items():
        publish(path, "\n".join(lines) + "\n")
