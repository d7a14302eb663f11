# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section `preflight` of the job spec: what is looked at on each node before the ranks start (P4). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.launch import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.table import option


@dataclass(frozen=True)
class Preflight:
    enabled: bool = option(
        t.BOOLEAN,
        "Look at every node before the ranks start: code, environment, run directory, CPUs, GPUs, network (P4).",
        True,
        key=False,
        short="preflight",
    )
    imports: tuple[str, ...] = option(
        t.listed(t.text(r"[A-Za-z_][A-Za-z0-9_.]*", "the name of a module")),
        "Modules that the job's Python must be able to import on every node; their versions are shown.",
        (),
        key=False,
        example=["torch"],
    )
    budget: int = option(t.whole(5, 3600), "Seconds within which every node must have reported.", 60, key=False)
    stage: str = option(
        t.choice("missing", "never", "always"),
        "Which nodes get code and environment copied to their own disk for the time of the job: those that do not see "
        "them, none (such a node is then not fit), or all (P5). Not with a container.",
        "missing",
        key=False,
        example="always",
    )
    stage_budget: int = option(
        t.whole(10, 86400),
        "Seconds within which code and environment must have been copied to the nodes that get them.",
        600,
        key=False,
    )
