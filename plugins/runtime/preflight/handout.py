# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight's table as hand-written launchers of a course print it, beside logs that are named as theirs
(logs.style: slurm). Standard library only.

    node01 proj=ok pkgs=ok
    NODE node01 OK -> PY 3.11.2 torch 2.13.0 tfm 4.41.2 datasets 2.19.0 numpy 1.26.4
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from core.log import publish
from core.state import Job

STYLE = "slurm"
# What such launchers call a column of the table.
NAMES = {"env": "pkgs", "python": "PY", "transformers": "tfm"}


def lines(table: Sequence[str], nodes: Sequence[str], packages: Collection[str]) -> list[str]:
    """Two lines a node: what it sees, and the versions of Python and `packages`."""
    seen, probed = [], []
    unfit = {line.split(" ", 2)[1].rstrip(":") for line in table if line.startswith("unfit ")}
    rows = {line.split(" ", 1)[0]: line.split(" ")[1:] for line in table}
    for node in nodes:
        columns = dict(word.split("=", 1) for word in rows.get(node, ()) if "=" in word)
        places = [f"{NAMES.get(name, name)}={columns.get(name, 'missing')}" for name in ("proj", "env")]
        seen.append(" ".join([node, *places]))
        versions = [f"{NAMES.get(name, name)} {value}" for name, value in columns.items() if name in packages]
        probed.append(" ".join(["NODE", node, "FAIL" if node in unfit else "OK", "->", *versions]))
    return [*seen, *probed]


def write(job: Job, table: str) -> None:
    """Write preflight.JOB.txt into the folder of the ranks' logs, where these have names of that style."""
    if job.get("RANKZERO_LOG_STYLE") != STYLE:
        return
    imports = [word for word in job.get("RANKZERO_PREFLIGHT_IMPORTS").split() if not word.startswith("?")]
    packages = {"python", *(word.partition("@")[0] for word in imports)}
    text = "\n".join(lines(table.splitlines(), job.preflight.names.split(","), packages))
    publish(os.path.join(job.get("RANKZERO_LOGS"), f"preflight.{job.slurm_job}.txt"), text + "\n")
