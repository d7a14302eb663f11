# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an image in a store, and whether one is what the record beside it says."""

from __future__ import annotations

import json
import os

from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import file_sha256

IMAGE = "image.sqsh"
SIDECAR = "image.json"
SIF = "image.sif"
# In a SIF file that we write everything from here on is IMAGE.
SIF_DATA_AT = 32768


def damage(folder: str, name: str) -> str:
    """What is wrong with IMAGE or SIF of an image, by the digest in its record; "" where nothing is. Reads all of the
    file. Raises OSError.
    """
    with open(os.path.join(folder, SIDECAR), encoding="utf-8") as stream:
        try:
            expected = json.load(stream)["digest"]
        except (ValueError, KeyError, TypeError):
            return f"{stream.name} names no digest"
    path = os.path.join(folder, name)
    if file_sha256(path, start=SIF_DATA_AT if name == SIF else 0) == expected:
        return ""
    return f"{path} is not what {SIDECAR} beside it says: it has another digest"
