# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON files beside images and environments: those of the first release are read, and anything may lie there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.image import files
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import manifest

# As release 0.1.0 wrote them.
SEALED = {
    "format": 1, "key": "5" * 32, "mode": "sealed", "digest": "d" * 64, "machine": "x86_64", "extras": [],
    "uv": "0.9.2", "torch": "auto",
    "packages": {"numpy": "2.0"}, "files": 10, "bytes": 4000, "downloaded_by": "head", "seconds": 1.5,
    "inputs": {"pyproject": "0" * 64, "uv_lock": None}, "import_warnings": {},
    "lock": {"key": "k", "sources": "s", "sha256": "0" * 64},
    "python": {"path": "/usr/bin/python3.11", "version": "3.11.2", "libc": ["glibc", "2.36"]},
    "sealed": {
        "file": "environment.sqsh", "sha256": "d" * 64, "bytes": 4, "unpacked": 9, "files": 2, "compression": "zstd",
        "mksquashfs": "4.5.1", "interpreter": "copied",
    },
}  # fmt: skip
IMAGE = {
    "format": 1, "key": "5" * 32, "name": "train", "inputs": {"reference": "x"}, "digest": "d" * 64, "bytes": 4,
    "machine": "x86_64", "seconds": 2.0, "environment": {"PATH": "/bin"}, "settings": {}, "files": 3, "unpacked": 9,
    "skipped": 0, "way": {"engine": "buildah"},
}  # fmt: skip
#: What may lie in the place of any JSON object.
ANYTHING: list[Any] = [None, 7, "x", [], {}, [SEALED], {"digest": "d"}, {"bytes": 4}, {"digest": 7, "bytes": "4"}]
BESIDES: list[Any] = [
    {**SEALED, "python": "python3"},
    {**SEALED, "python": {}},
    {**SEALED, "sealed": "yes"},
    {**SEALED, "sealed": {"file": "../environment.sqsh", "bytes": 4}},
    {**SEALED, "sealed": {"file": "environment.sqsh", "bytes": "4"}},
]


def lay(folder: Path, name: str, content: object) -> str:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    for file in ("environment.sqsh", files.IMAGE):
        (folder / file).write_bytes(b"file")
    return str(folder)


def test_what_the_first_release_wrote_is_read(tmp_path: Path) -> None:
    assert manifest.present(lay(tmp_path, manifest.MANIFEST, SEALED)) == SEALED
    assert files.present(lay(tmp_path, files.SIDECAR, IMAGE)) == IMAGE
    adopted = {name: IMAGE[name] for name in ("format", "key", "name", "inputs", "digest", "bytes")}
    assert files.present(lay(tmp_path, files.SIDECAR, adopted)) == adopted


@pytest.mark.parametrize("content", [*ANYTHING, *BESIDES, "{", "\udcff"], ids=repr)
def test_anything_else_is_nothing(tmp_path: Path, content: object) -> None:
    folder = lay(tmp_path, manifest.MANIFEST, json.dumps(content))
    assert manifest.present(folder) is None
    if content not in BESIDES:
        assert files.present(lay(tmp_path, files.SIDECAR, json.dumps(content))) is None
        assert "contains no digest" in files.damage(folder, files.IMAGE)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    lay(tmp_path, "other", "")
    files.write_record(str(tmp_path), {"digest": "d", "bytes": 4})
    manifest.write_record(str(tmp_path), {"digest": "d", "python": {"path": "/p"}, "sealed": {"file": "x", "bytes": 4}})
    assert files.present(str(tmp_path)) == {"digest": "d", "bytes": 4}
    assert manifest.read_record(str(tmp_path)) is not None
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
