# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack a dataset into one squashfs file: each node opens one file instead of one per data file."""

from __future__ import annotations

import os
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256, squashfs_cut_off
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.layout import PACKED, Manifest, Place
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.stage import require_free, write_manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import process_scope as this_place
from ansible_collections.rankzero.slurm.plugins.module_utils.store.squash import squash


def sound(place: Place, manifest: Manifest, *, thorough: bool) -> bool:
    """Whether the packed file exists and has its recorded size (and, if `thorough`, its recorded sha256)."""
    path = os.path.join(place.tree(manifest.digest), PACKED)
    try:
        if manifest.packed is None or os.path.getsize(path) != manifest.packed["bytes"] or squashfs_cut_off(path):
            return False
        return not thorough or file_sha256(path) == manifest.packed["sha256"]
    except OSError:
        return False


def pack(place: Place, manifest: Manifest, compression: str) -> Manifest:
    """Make the packed file again; returns the manifest with its data. Raises OSError and RankzeroError."""
    folder = place.tree(manifest.digest)
    require_free(folder, manifest.size, 1, "store_root")
    own = os.path.join(folder, f".{PACKED}.{this_place()}-{os.getpid()}")
    try:
        squash(place.data(manifest.digest), own, compression, "dataset: pack")
        packed = {
            "bytes": os.path.getsize(own),
            "sha256": file_sha256(own),
            "unpacked": manifest.size,
            "files": len(manifest.files),
        }
        os.chmod(own, 0o444)
        os.replace(own, os.path.join(folder, PACKED))
    finally:
        if os.path.exists(own):
            os.unlink(own)
    return write_manifest(place, replace(manifest, packed=packed))
