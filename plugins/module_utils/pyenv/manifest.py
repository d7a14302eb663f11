# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""env.json, the record of an environment. Quick to import, because every launch reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TypedDict, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import has_fields
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import read_json
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import ENVIRONMENT

MANIFEST = "env.json"


class PythonRecord(TypedDict, total=False):
    """The interpreter of an environment."""

    path: str
    version: str
    libc: Sequence[str]


class SealedRecord(TypedDict, total=False):
    """The file of a sealed environment, and the origin of its Python."""

    file: str
    sha256: str
    bytes: int
    unpacked: int
    files: int
    compression: str
    mksquashfs: str
    interpreter: str


class EnvironmentRecord(TypedDict, total=False):
    """The content of env.json.

    `form` and `made_by` are set for conda environments, `sealed` for sealed ones, `inputs` and the fields after it for
    those from a lock.
    """

    format: int
    key: str
    mode: str
    digest: str
    python: PythonRecord
    packages: dict[str, str]
    seconds: float
    form: str
    made_by: str
    inputs: dict[str, str | None]
    machine: str
    extras: list[str]
    torch: str
    files: int
    bytes: int
    lock: dict[str, str]
    uv: str
    downloaded_by: str
    import_warnings: dict[str, str]
    sealed: SealedRecord


def read_record(path: str) -> EnvironmentRecord | None:
    """env.json of the environment at `path`; None if it is missing, or lacks digest or Python."""
    document = read_json(os.path.join(path, MANIFEST))
    if not has_fields(document, digest=str, python=dict):
        return None
    record = cast("EnvironmentRecord", document)
    sealed = record.get("sealed")
    if sealed and not (has_fields(sealed, file=str, bytes=int) and "/" not in sealed["file"]):
        return None
    return record if has_fields(record["python"], path=str) else None


def write_record(path: str, record: EnvironmentRecord) -> None:
    """Write env.json completely or not at all. Raises OSError."""
    replace_file(os.path.join(path, MANIFEST), json.dumps(record, indent=2, sort_keys=True) + "\n", durably=True)


def present(path: str) -> EnvironmentRecord | None:
    """env.json of the environment at `path`; None if it is missing or incomplete, or its Python was removed.

    Cheap: starts no process. The folder got its name only after everything in it had been verified.
    """
    record = read_record(path)
    if record is None:
        return None
    sealed = record.get("sealed")
    if sealed:
        try:
            complete = os.path.getsize(os.path.join(path, sealed["file"])) == sealed["bytes"]
        except (OSError, ValueError):
            return None
        return record if complete else None
    python = record["python"]["path"]
    there = os.path.realpath(os.path.join(path, "bin", "python")) == python and os.access(python, os.X_OK)
    return record if there else None


def ref_of(key: str, path: str, manifest: EnvironmentRecord | None) -> dict[str, object]:
    """The environment as its modules return it. `manifest`: None if it is not there."""
    return ENVIRONMENT.entry(key, path, manifest["digest"] if manifest else None)
