# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a dataset of the same name and source in the store of a trusted owner."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import flaw
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.layout import (
    Manifest,
    Place,
    read_manifest,
    read_record,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import Store, locate


def borrowed(
    stores: Sequence[Store], wanted: Place, options: Parameters, digest: str | None, notes: list[str]
) -> tuple[Place, Manifest] | None:
    """The first trusted store with the complete dataset. `digest`: of the files, where the controller has them."""
    if options["dest"] is not None or options["update"]:
        return None
    for store in stores:
        place = replace(wanted, root=store.path)
        if store.own or not os.path.lexists(place.record):
            continue
        names = (place.record, os.path.dirname(place.record), os.path.dirname(place.link), place.link)
        complaints = [f"{name} {problem}" for name in names if (problem := flaw(os.lstat(name), store.trust))]
        if complaints:
            notes.append(f"stores: dataset {place.name} is not taken from {store.path}: {complaints[0]}")
            continue
        record = read_record(place)
        if record is None or (record.key != place.key if digest is None else record.digest != digest):
            continue
        if locate([store], DATASET, record.digest, os.path.isdir, note=notes.append) is None:
            continue
        manifest = read_manifest(place, record.digest)
        if manifest is not None and (manifest.packed is not None or not options["pack"]):
            return place, manifest
    return None
