# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ways to run a container a cluster shows, for cluster_info and before a job that needs one is submitted (C1)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def _has_pyxis(slurm: Slurm) -> bool:
    return "--container-image" in slurm.attempt("srun", "--help", timeout=15).stdout


def _has_apptainer(slurm: Slurm) -> bool:
    return slurm.find("apptainer") is not None or slurm.find("singularity") is not None


def detect(slurm: Slurm, config: Mapping[str, str]) -> dict[str, bool]:
    """What this host shows; `config` is Slurm's. What the nodes have may differ; a job would have to look."""
    folder = os.path.dirname(config.get("SLURM_CONF", ""))
    return {
        "pyxis": _has_pyxis(slurm),
        "apptainer": _has_apptainer(slurm),
        "enroot": slurm.find("enroot") is not None,
        "oci": bool(folder) and os.path.exists(os.path.join(folder, "oci.conf")),
    }


def check(slurm: Slurm, *, runtime: str, own_setup: bool) -> list[str]:
    """A sentence where this cluster cannot run the job's container.

    pyxis adds its flags to srun everywhere, so its absence is known here. apptainer's command is a matter of the nodes,
    and of `setup`, which may load its module: what cannot be known here is noted, and each node looks before the ranks.
    """
    if runtime == "apptainer":
        if not _has_apptainer(slurm) and not own_setup:
            slurm.note(
                f"container.runtime: apptainer is not in PATH on {socket.gethostname()}, so it cannot be checked here: "
                "each node looks before the ranks start. Where a module brings it, name that in setup.modules."
            )
        return []
    if _has_pyxis(slurm):
        return []
    others = "apptainer" if _has_apptainer(slurm) else "no other that can be seen from here"
    return [
        (
            f"container.runtime: pyxis is not on this cluster (srun on {socket.gethostname()} has no "
            f"--container-image); it has {others}. Use container.runtime apptainer with a .sif where the nodes have "
            "it, or none with an environment."
        )
    ]
