# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an image in a store, and a check of them against its record."""

from __future__ import annotations

import json
import os
from typing import TypedDict, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, has_fields
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import read_json

IMAGE = "image.sqsh"
SIDECAR = "image.json"
SIF = "image.sif"
# In a SIF file that we write, all bytes from this offset on are IMAGE.
SIF_DATA_AT = 32768


class ImageRecord(TypedDict, total=False):
    """The content of image.json. An adopted image has `adopted`, a built one the other fields."""

    format: int
    key: str
    name: str
    inputs: dict[str, str]
    digest: str
    bytes: int
    machine: str
    seconds: float
    adopted: str | None
    environment: dict[str, str]
    settings: JsonObject
    files: int
    unpacked: int
    skipped: int
    way: JsonObject


def read_record(folder: str) -> ImageRecord | None:
    """image.json of the image in `folder`; None if it is missing or lacks digest or size."""
    record = read_json(os.path.join(folder, SIDECAR))
    return cast("ImageRecord", record) if has_fields(record, digest=str, bytes=int) else None


def write_record(folder: str, record: ImageRecord) -> None:
    """Write image.json durably. Raises OSError."""
    path = os.path.join(folder, SIDECAR)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(record, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(path, 0o444)


def present(folder: str) -> ImageRecord | None:
    """The record of the image in `folder`; None if it is missing or incomplete. Does not read the image."""
    record = read_record(folder)
    try:
        complete = record is not None and os.path.getsize(os.path.join(folder, IMAGE)) == record["bytes"]
    except OSError:
        return None
    return record if complete else None


def damage(folder: str, name: str) -> str:
    """The defect of IMAGE or SIF of an image, compared with the digest in its record; "" without one.

    Reads the complete file. Raises OSError.
    """
    record = read_record(folder)
    if record is None:
        return f"{os.path.join(folder, SIDECAR)} contains no digest"
    path = os.path.join(folder, name)
    if file_sha256(path, start=SIF_DATA_AT if name == SIF else 0) == record["digest"]:
        return ""
    return f"{path} does not have the digest that {SIDECAR} in its folder states"
