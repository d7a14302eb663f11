# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of images share: a small root file system, a store, and an engine that plays buildah."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.image.ensure import ensure_image

#: Plays buildah: writes down what it was asked, and `push`es the folder $IMAGE. $SAY and $RC are of `bud`.
BUILDAH = """\
#!/bin/bash
here=$(dirname "$(readlink -f "$0")")
printf '%s\\n' "$*" >>"$here/asked"
for word in "$@"; do case $word in
    pull) echo 1c5646c686a3; exit 0 ;;
    bud) for last in "$@"; do :; done; ls -lR "$last" >"$here/context"; cat "$here/say" 2>/dev/null
        exit "$(cat "$here/rc" 2>/dev/null || echo 0)" ;;
    push) for last in "$@"; do :; done; cp -r "$here/image" "${last#dir:}"; exit 0 ;;
esac; done
"""


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    folder = tmp_path / "rootfs"
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "usr" / "bin" / "tool").write_text("#!/bin/sh\n")
    (folder / "usr" / "bin" / "tool").chmod(0o755)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "data").write_text("1\n")
    return folder


@pytest.fixture
def ensure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The module's logic with its defaults, on a store of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def call(check_mode: bool = False, request: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        given = {"store_root": str(tmp_path / "store"), "state": "present", "formats": ["sqsh"], **options}
        return ensure_image(given, request or {}, check_mode=check_mode)

    return call


def dir_image(folder: Path, layer: bytes, **config: Any) -> None:
    """What an engine pushes to `dir:`, of one layer."""
    folder.mkdir(exist_ok=True)
    own = json.dumps({"config": config}).encode()
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in (("layer", layer), ("own", own))}
    (folder / digests["layer"]).write_bytes(layer)
    (folder / digests["own"]).write_bytes(own)
    manifest = {
        "config": {"digest": f"sha256:{digests['own']}"},
        "layers": [{"digest": f"sha256:{digests['layer']}"}],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an engine that plays buildah; found first."""
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "buildah").write_text(BUILDAH)
    (folder / "buildah").chmod(0o755)
    # A user's build asks for a range of numbers, which not every user who tests has.
    monkeypatch.setattr(
        "ansible_collections.rankzero.slurm.plugins.module_utils.image.host._has_range", lambda _path: True
    )
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "newuidmap").symlink_to("/bin/true")
    return folder
