# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's record on disk, lab.json. It is not proof: whether a lab runs is decided by its processes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import json_of
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab, Partition
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host


@dataclasses.dataclass(frozen=True)
class Record:
    """lab.json: the options, what was found out about the machine, and whether the start was completed."""

    lab: Lab
    host: Host
    ready: bool


def save(record: Record) -> None:
    """Write lab.json atomically. Raises OSError."""
    path = record.lab.path("lab.json")
    replace_file(path, json.dumps(dataclasses.asdict(record), indent=1))


def load(directory: str) -> Record | None:
    """The record in lab.json; None if it cannot be read (never written, or written by another version)."""
    try:
        record = json_of(f"{directory}/lab.json")
        fields: dict[str, Any] = record["lab"]
        fields["partitions"] = tuple(Partition(**entry) for entry in fields["partitions"])
        for name in ("slurm_conf", "gres", "binds"):
            fields[name] = tuple(fields[name])
        return Record(Lab(**fields), Host(**record["host"]), record["ready"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
