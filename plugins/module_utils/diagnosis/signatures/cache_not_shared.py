# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank has no data because what another node prepared is in a cache that its own node does not see."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    Signature,
    raises,
)

SIGNATURE = Signature(
    family="cache_not_shared",
    what="a rank has no data: its node does not see what another node prepared",
    remedy=(
        "The cache is local to a node or a container. Put it on shared storage, which `container.mounts` mounts: "
        "`launch_cluster.caches` moves NEMO_HOME, HF_HOME and others below one folder, `env.NEMO_HOME` only this one. "
        "If rank 0 fails as well, the program made no iterator for its data: check `data`."
    ),
    look="See whether rank 0 has the data and only other nodes do not: then the cache is local to a node.",
    matches=(raises("'NoneType' object is not an iterator"),),
    examples=("TypeError: 'NoneType' object is not an iterator",),
)
