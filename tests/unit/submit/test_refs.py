# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what a launch needs is on the cluster."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image import files
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.store import verified
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import bundle_key, publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import absent, is_present, resolve


def test_code_is_there_when_its_folder_is(tmp_path: Path) -> None:
    assert is_present(Ref("code", "c", str(tmp_path)))


def test_the_runtime_is_there_when_its_folder_holds_what_its_name_says(tmp_path: Path) -> None:
    files = {"job.sh": "true\n", "rank.sh": ""}
    ref = Ref("runtime", bundle_key(files), str(tmp_path / "runtime" / bundle_key(files)))
    assert not is_present(ref)
    assert publish_files(ref.path, files)
    assert is_present(ref)
    (Path(ref.path) / "json.py").write_text("", encoding="utf-8")
    assert not is_present(ref)
    assert publish_files(ref.path, files)
    assert is_present(ref)


def test_an_environment_is_there_only_while_its_python_is(tmp_path: Path) -> None:
    ref = Ref("environment", "e", str(tmp_path))
    assert not is_present(ref)  # a folder alone is no environment
    real = str(Path(sys.executable).resolve())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(real)
    (tmp_path / "env.json").write_text(json.dumps({"python": {"path": real}, "digest": "d"}))
    assert is_present(ref)
    (tmp_path / "bin" / "python").unlink()
    (tmp_path / "bin" / "python").symlink_to("/nowhere/python3.11")
    assert not is_present(ref)


# --- where things lie


def store(root: Path) -> Ref:
    """A store with a sealed environment that nobody runs: its file, and what was recorded of it."""
    folder = root / "environments" / ("e" * 32)
    folder.mkdir(parents=True)
    (folder / "environment.sqsh").write_bytes(b"file")
    document = {
        "digest": "d",
        "python": {"path": "/usr/bin/python3"},
        "sealed": {"file": "environment.sqsh", "bytes": 4, "sha256": "5" * 64},
    }
    (folder / "env.json").write_text(json.dumps(document), encoding="utf-8")
    for path in (root, root / "environments", folder, *folder.iterdir()):
        path.chmod(0o755)
    return Ref("environment", "e" * 32, str(folder))


def settled(tmp_path: Path, ref: Ref, *trusted: Path) -> tuple[dict[str, Any], list[dict[str, str]], list[str]]:
    script = f"rankzero_seal '{ref.path}' SHA256-OF-{ref.key}"
    asked = {
        "store_root": str(tmp_path / "own"),
        "stores": [{"path": str(path), "owners": [str(os.geteuid())]} for path in trusted],
        "store_group_writable": False,
    }
    said: list[str] = []
    given = {"files": {"job.sbatch": script}, "refs": [ref.record()], "generation": 1}
    return *resolve(given, [ref], asked, str(tmp_path / "state"), said.append), said


def test_what_a_trusted_store_has_takes_the_place_of_ones_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    own, platform = tmp_path / "own", tmp_path / "platform"
    ref = store(own)
    there = store(platform).path
    request, sources, said = settled(tmp_path, ref, tmp_path / "none", platform)
    assert request["files"]["job.sbatch"] == f"rankzero_seal '{there}' {'5' * 64}"
    assert request["refs"] == [replace(ref, path=there).record()]
    assert request["generation"] == 1
    assert sources == [{"kind": "environment", "key": "e" * 32, "path": there, "store": str(platform)}]
    (platform / "environments" / ("e" * 32) / "environment.sqsh").chmod(0o664)
    request, sources, said = settled(tmp_path, ref, platform)
    assert request["files"]["job.sbatch"] == f"rankzero_seal '{ref.path}' {'5' * 64}"
    assert [one["store"] for one in sources] == [str(own)]
    assert len(said) == 1


@pytest.mark.parametrize("name", ["image.sqsh", "image.sif"])
def test_an_image_of_another_store_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    tmp_path.chmod(0o755)
    folder = tmp_path / "platform" / "images" / ("a" * 32)
    folder.mkdir(parents=True)
    content = b"layers" if name == "image.sqsh" else b"header".ljust(files.SIF_DATA_AT) + b"layers"
    (folder / name).write_bytes(content)
    record = {"digest": hashlib.sha256(b"layers").hexdigest(), "bytes": 6}
    (folder / "image.json").write_text(json.dumps(record), encoding="utf-8")
    for path in (folder.parents[1], folder.parent, folder, *folder.iterdir()):
        path.chmod(0o755)
    ref = Ref("image", "a" * 32, f"{tmp_path}/own/images/{'a' * 32}", file=name)
    read: list[str] = []
    real = files.file_sha256
    monkeypatch.setattr(files, "file_sha256", lambda path, **given: (read.append(path), real(path, **given))[1])
    now = time.time()
    monkeypatch.setattr(verified.time, "time", lambda: now + verified.SETTLED_SECONDS + 5)
    for _launch in range(3):
        _request, sources, said = settled(tmp_path, ref, folder.parents[1])
        assert ([one["store"] for one in sources], said) == ([str(folder.parents[1])], [])
    assert read == [str(folder / name)]
    (folder / name).write_bytes(content[:-1] + b"z")  # by its owner, in place: the folder is the same
    _request, sources, said = settled(tmp_path, ref, folder.parents[1])
    assert sources == []
    assert "does not have the digest" in said[0]


def test_what_is_nowhere_stays_where_it_will_be_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ref = Ref("environment", "e" * 32, f"{tmp_path}/own/environments/{'e' * 32}")
    request, sources, _said = settled(tmp_path, ref, tmp_path / "platform")
    assert (request["refs"], sources) == ([ref.record()], [])


def test_a_path_that_needs_quotes_is_not_put_in_the_place_of_another(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    platform = tmp_path / "plat form"
    store(platform)
    ref = Ref("environment", "e" * 32, f"{tmp_path}/own/environments/{'e' * 32}")
    with pytest.raises(RankzeroError, match=r"plat form/environments/e+ contains characters other"):
        settled(tmp_path, ref, platform)


def test_nothing_is_marked_in_a_store_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = store(tmp_path / "store")
    assert absent([ref], None, pytest.fail, check_mode=False) == []
    assert (tmp_path / "store" / "used" / "environments" / ("e" * 32)).exists()
    other = store(tmp_path / "other")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert absent([other], None, pytest.fail, check_mode=False) == []
    assert not (tmp_path / "other" / "used").exists()
