# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node makes its environment from a set of packages: the runtime's part, with a real uv and without any network."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.pyenv.conftest import Index
from tests.unit.pyenv.supplies import ensure, locked, writable
from tests.unit.runtime.harness import runtime_parts


@pytest.fixture
def install() -> Iterator[ModuleType]:
    with runtime_parts("node.install") as part:
        yield part


def made(install: ModuleType, packages: str, tmp_path: Path) -> str:
    """What the environment says after `once`, in a home of the node's own."""
    home = tmp_path / "home-of-the-job"
    home.mkdir(exist_ok=True)
    folder = install.once(packages, install.manifest_of(packages), str(home))
    assert sorted(os.listdir(home)) == ["environment.made", "install.lock"]
    command = [f"{folder}/bin/python", "-c", "import alpha; print(alpha.VALUE, alpha.__cached__)"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert os.path.isfile(said[1]), "the ranks may write no bytecode: it has to be there"
    return said[0]


@pytest.mark.parametrize("way", ["wheelhouse", "cache", "cache of a lock"])
def test_each_way(way: str, install: ModuleType, supplied: str, index: Index, tmp_path: Path) -> None:
    lock = locked(tmp_path) if "lock" in way else None
    path = ensure(supplied, mode=way.split()[0], lock=lock)["ref"]["path"]
    index.close()
    os.environ["UV_OFFLINE"] = "0"  # a user's own settings count for nothing here
    assert made(install, path, tmp_path) == "2"


def test_a_wheel_beside_a_cache_of_a_lock(
    install: ModuleType, supplied: str, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a directory of the host has travels as a wheel, and the lock's other packages by the cache."""
    wheel = next((index.folder / "beta").glob("*.whl"))
    (tmp_path / "beside").mkdir()
    wheel.rename(tmp_path / "beside" / wheel.name)
    (index.folder / "beta" / "index.html").write_text("")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "beside"))
    result = ensure(supplied, mode="cache", lock=locked(tmp_path))
    assert result["packages"]["wheels"] == ["beta"]
    index.close()
    assert made(install, result["ref"]["path"], tmp_path) == "2"


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("cache", "cache.tar", r"cache\.tar is not what it was: .* Build the packages again"),
        ("cache", "uv", r"/uv is not what it was"),
        ("wheelhouse", "requirements.txt", r"requirements\.txt is not what it was"),
        ("wheelhouse", "wheels/beta-2.0-py3-none-any.whl", r"uv pip: .*beta==2\.0.*(Hash mismatch|Bad CRC)"),
    ],
)
def test_what_was_changed_is_refused(
    kind: str, name: str, said: str, install: ModuleType, supplied: str, index: Index, tmp_path: Path
) -> None:
    path = ensure(supplied, mode=kind)["ref"]["path"]
    index.close()
    file = writable(Path(path, name))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises((install.Failed, install.pack.Damaged), match=said):
        made(install, path, tmp_path)
    assert os.listdir(tmp_path / "home-of-the-job") == ["install.lock"]
    file.unlink()
    with pytest.raises(install.Failed):
        made(install, path, tmp_path)


def test_an_installation_is_compared_with_its_records(
    install: ModuleType, supplied: str, index: Index, tmp_path: Path
) -> None:
    path = ensure(supplied)["ref"]["path"]
    manifest = install.manifest_of(path)
    folder = install.make(path, manifest, str(tmp_path), install.interpreter(manifest["python"]))
    install.records(folder)
    (module,) = Path(folder).glob("lib/python*/site-packages/beta.py")
    module.unlink()
    module.write_text("VALUE = 9\n")
    with pytest.raises(install.Failed, match=r"beta\.py is not what beta-2\.0\.dist-info says of it"):
        install.records(folder)
    module.unlink()
    with pytest.raises(install.Failed, match=r"beta\.py, of beta-2\.0\.dist-info: No such file"):
        install.records(folder)


def test_no_python_of_that_version(install: ModuleType) -> None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert install.interpreter({"minor": here, "path": sys.executable}) == sys.executable
    with pytest.raises(install.Failed, match=r"no Python 3\.99 on this node, .* found: .*python3"):
        install.interpreter({"minor": "3.99", "path": "/nonexistent/python3"})


def test_packages_that_are_not_there(install: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(install.Failed, match="are not on this node"):
        install.manifest_of(str(tmp_path / "packages"))


def test_the_list_of_a_set_is_the_one_that_was_there_at_the_submission(install: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "packages.json").write_text('{"files": {}}', encoding="utf-8")
    recorded = hashlib.sha256((tmp_path / "packages.json").read_bytes()).hexdigest()
    assert install.manifest_of(str(tmp_path), recorded) == {"files": {}}
    (tmp_path / "packages.json").write_text('{"files": {"uv": {"sha256": "planted"}}}', encoding="utf-8")
    with pytest.raises(install.Failed, match="is not what it was when the job was submitted"):
        install.manifest_of(str(tmp_path), recorded)


def test_what_is_used_of_a_set_is_the_copy_that_was_compared(install: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "uv").write_bytes(b"uv")
    manifest = {"files": {"uv": {"sha256": hashlib.sha256(b"uv").hexdigest()}}}
    target = tmp_path / "own"
    assert install.taken(str(tmp_path), manifest, "uv", str(target)) == str(target)
    (tmp_path / "uv").write_bytes(b"planted")
    assert target.read_bytes() == b"uv"
    with pytest.raises(install.Failed, match="is not what it was"):
        install.taken(str(tmp_path), manifest, "uv", str(target))


def test_waiting_names_who_was_silent(install: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "install"
    folder.mkdir()
    words: dict[str, Any] = {"n1": {"problem": None, "seconds": 2.5}, "n2": {"problem": "no room"}}
    for name, word in words.items():
        (folder / f"{name}.json").write_text(json.dumps(word))
    gone = subprocess.Popen(["true"])
    gone.wait()
    waits = {"seconds": 60, "spent": 0, "look": 0, "holder": gone.pid}
    install.wait(type("Given", (), {"nodes": "n1,n2,n3", "folder": str(tmp_path), **waits}))
    assert capsys.readouterr().out.splitlines() == [
        "environment: 1 nodes made it, the last in 2.5 s",
        "problem n2: environment: no room",
        "problem n3: environment: it said nothing in time; see install.log beside the reports",
    ]
    assert json.loads((folder / "n3.json").read_text())["problem"]
