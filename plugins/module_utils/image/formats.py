# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Formats for other runtimes, made from the canonical .sqsh: a .sif that contains it, or an OCI bundle."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import struct
import uuid

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.image import unsquash
from ansible_collections.rankzero.slurm.plugins.module_utils.image.canonical import EPOCH
from ansible_collections.rankzero.slurm.plugins.module_utils.image.files import SIF_DATA_AT, ImageRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import said_of

BUNDLE = "bundle"
FORMATS = ("sqsh", "sif", "oci")

# SIF (github: apptainer/sif, pkg/sif): a header, a table of descriptors, the data. All numbers are little endian.
_LAUNCH = b"#!/usr/bin/env run-singularity\n"
_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_DESCRIPTORS = 48
_DESCRIPTORS_AT = 4096
_PARTITION, _DEFAULT_GROUP = 0x4004, 0xF0000001
_SQUASHFS, _PRIMARY_SYSTEM = 1, 2
_ARCHITECTURES = {"x86_64": b"02", "aarch64": b"04"}
_BLOCK = 1 << 20


def write_sif(image: str, target: str, digest: str) -> None:
    """Write a SIF file whose only partition is the squashfs file; equal images give equal bytes. Raises OSError."""
    size = os.path.getsize(image)
    architecture = _ARCHITECTURES.get(platform.machine(), b"00") + b"\0"
    extra = struct.pack("<ii3s", _SQUASHFS, _PRIMARY_SYSTEM, architecture)
    descriptor = _DESCRIPTOR.pack(
        _PARTITION, True, 1, _DEFAULT_GROUP, 0, SIF_DATA_AT, size, size, EPOCH, EPOCH, 0, 0, b"image.sqsh", extra
    )
    table = _DESCRIPTOR.size * _DESCRIPTORS
    header = _HEADER.pack(
        _LAUNCH, b"SIF_MAGIC", b"01", architecture, uuid.UUID(hex=digest[:32]).bytes, EPOCH, EPOCH,
        _DESCRIPTORS - 1, _DESCRIPTORS, _DESCRIPTORS_AT, table, SIF_DATA_AT, size,
    )  # fmt: skip
    with open(target, "wb") as out, open(image, "rb") as source:
        out.write(header)
        out.seek(_DESCRIPTORS_AT)
        out.write(descriptor)
        out.seek(SIF_DATA_AT)
        shutil.copyfileobj(source, out, _BLOCK)
        out.flush()
        os.fsync(out.fileno())
    os.chmod(target, 0o555)


def bundle_config(sidecar: ImageRecord) -> JsonObject:
    """config.json of an OCI bundle (OCI runtime specification), for `oci.py` and for use with runc or crun."""
    own = sidecar.get("settings") or {}
    command = [*(own.get("entrypoint") or []), *(own.get("cmd") or [])]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": command or ["/bin/sh"],
            "cwd": own.get("workdir") or "/",
            "env": [f"{name}={value}" for name, value in sorted((sidecar.get("environment") or {}).items())],
        },
        "root": {"path": "rootfs", "readonly": True},
        "annotations": {"rankzero.key": str(sidecar["key"]), "rankzero.digest": str(sidecar["digest"])},
    }


def write_bundle(image: str, folder: str, sidecar: ImageRecord) -> None:
    """Make `folder` with config.json and the unpacked image. Raises RankzeroError, OSError."""
    tool = shutil.which("unsquashfs")
    if tool is None:
        raise RankzeroError("formats: oci needs unsquashfs; install package squashfs-tools on this host")
    os.makedirs(folder)
    root = os.path.join(folder, "rootfs")
    with said_of(f"formats: {image}", "Build the image again."):
        unsquash.unpack(tool, image, root, extraction.Rules(links="any", control=True))
    # All users can see the folder, and no mount option disables the setuid bits here, as it does for the file.
    for place, _folders, files in os.walk(root):
        for name in files:
            mode = os.lstat(os.path.join(place, name)).st_mode
            if stat.S_ISREG(mode) and mode & 0o6000:
                os.chmod(os.path.join(place, name), stat.S_IMODE(mode) & 0o777)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as stream:
        json.dump(bundle_config(sidecar), stream, indent=1, sort_keys=True)
        stream.write("\n")
