# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conda environments, made by a stand-in for micromamba that writes what the real one writes: a prefix with records."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import CondaRecipe, conda_recipe, ensure_conda
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present

YML = "name: lab\nchannels: [conda-forge]\ndependencies:\n  - python=3.11\n  - alpha=1.0\n"
LOCK = "@EXPLICIT\nhttps://conda.example/linux-64/alpha-1.0-0.conda#0123456789abcdef0123456789abcdef\n"
#: Its words go to `$CALLS`; `$DAMAGE` is what befalls the prefix before it ends.
STAND_IN = """#!/usr/bin/python3
import hashlib, json, os, sys
words = sys.argv[1:]
prefix, source = words[words.index("--prefix") + 1], words[words.index("--file") + 1]
with open(os.environ["CONDA_TEST_CALLS"], "a") as stream:
    stream.write(" ".join(words[:2]) + " " + os.environ["CONDA_ALWAYS_COPY"] + "\\n")
if "impossible" in open(source).read():
    sys.stderr.write("error    libmamba Could not solve for environment specs\\n")
    sys.exit(1)
os.makedirs(prefix + "/bin")
os.makedirs(prefix + "/conda-meta")
open(prefix + "/alpha.txt", "w").write("alpha of " + prefix)
if os.environ.get("CONDA_TEST_DAMAGE") != "no-python":
    os.symlink(os.path.realpath("/usr/bin/python3"), prefix + "/bin/python")
digest = hashlib.sha256(("alpha of " + prefix).encode()).hexdigest()
record = {"name": "alpha", "version": "1.0", "build": "0", "sha256": "ab",
          "paths_data": {"paths": [{"_path": "alpha.txt", "sha256": "00", "sha256_in_prefix": digest}]}}
json.dump(record, open(prefix + "/conda-meta/alpha-1.0-0.json", "w"))
if os.environ.get("CONDA_TEST_DAMAGE") == "changed":
    open(prefix + "/alpha.txt", "w").write("another")
if os.environ.get("CONDA_TEST_DAMAGE") == "missing":
    os.unlink(prefix + "/alpha.txt")
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    tool = tmp_path / "bin" / "micromamba"
    tool.parent.mkdir()
    tool.write_text(STAND_IN)
    tool.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CONDA_TEST_CALLS", str(tmp_path / "calls"))
    for name in ("CONDA_EXE", "MAMBA_EXE", "DAMAGE"):
        monkeypatch.delenv(name, raising=False)
    return str(tmp_path / "store")


def file(tmp_path: Path, text: str, name: str = "environment.yml") -> CondaRecipe:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return conda_recipe(str(tmp_path / name))


def ensure(store: str, made: CondaRecipe, check_mode: bool = False, state: str = "present", **request: Any) -> Any:
    return ensure_conda(
        {"store_root": store, "state": state}, {"conda": asdict(made), **request}, check_mode=check_mode
    )


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def test_life_of_a_conda_environment(store: str, tmp_path: Path) -> None:
    made = file(tmp_path, YML)
    planned = ensure(store, made, check_mode=True)
    assert planned["changed"] and not os.path.exists(store)
    first = ensure(store, made)
    path = first["ref"]["path"]
    assert first["changed"] and present(path) == first["environment"]
    assert {**first["ref"], "present": False, "digest": None} == planned["ref"]
    assert first["environment"]["packages"] == {"alpha": "1.0"}
    assert Path(path, "alpha.txt").read_text() == f"alpha of {path}", "it was made where it lies"
    assert not os.stat(path).st_mode & 0o222
    assert ensure(store, made)["changed"] is False
    # Copies only: what somebody does to the cache of packages must not change an environment.
    assert calls(tmp_path) == ["create --quiet true"]
    assert ensure(store, made, state="absent")["changed"]
    assert os.listdir(f"{store}/environments") == []
    assert ensure(store, made, state="absent")["changed"] is False


def test_the_words_of_each_program(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(tmp_path / "bin" / "micromamba", tmp_path / "bin" / "conda")
    (tmp_path / "bin" / "micromamba").unlink()
    ensure(store, file(tmp_path, YML))
    lock = file(tmp_path, LOCK, "linux-64.txt")
    assert lock.form == "explicit"
    ensure(store, lock)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "bin" / "conda"))
    assert ensure(store, file(tmp_path, YML + "  - beta\n"))["changed"]
    assert calls(tmp_path) == ["env create true", "create --quiet true", "env create true"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("changed", r"1 installed files differ from their packages' records: alpha\.txt \(changed\)"),
        ("missing", r"alpha\.txt \(missing\)"),
        ("no-python", "has no Python: name python among its dependencies"),
    ],
)
def test_what_is_not_whole_gets_no_name(
    damage: str, said: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = file(tmp_path, YML)
    with monkeypatch.context() as damaging:
        damaging.setenv("CONDA_TEST_DAMAGE", damage)
        with pytest.raises(RankzeroError, match=said):
            ensure(store, made)
    assert os.listdir(f"{store}/environments") == []
    # As a killed builder leaves it: no env.json, so the next one begins anew.
    (Path(store) / "environments" / made.key / "bin").mkdir(parents=True)
    assert ensure(store, made)["changed"]


def test_what_cannot_be_had_is_said(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RankzeroError, match=r"micromamba create failed:\n.*Could not solve"):
        ensure(store, file(tmp_path, YML + "  - impossible\n"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(RankzeroError, match=r"needs micromamba, mamba or conda .* conda-pack archive .*mode path"):
        ensure(store, file(tmp_path, YML), check_mode=True)


def test_two_builders_at_once(store: str, tmp_path: Path) -> None:
    made = file(tmp_path, YML)
    both = [multiprocessing.Process(target=ensure, args=(store, made)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert len(calls(tmp_path)) == 1


def packed(tmp_path: Path, *, without: str = "") -> CondaRecipe:
    """An archive as conda-pack makes it: a prefix, with the program that tells it where it lies."""
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "alpha-1.0-0.json").write_text(json.dumps({"name": "alpha", "version": "1.0"}))
    (prefix / "bin" / "python").write_text('#!/bin/sh\nexec /usr/bin/python3 "$@"\n', encoding="utf-8")
    (prefix / "bin" / "python").chmod(0o755)
    unpack = "import os, sys\nopen(os.path.dirname(os.path.dirname(sys.argv[0])) + '/unpacked', 'w').close()\n"
    if without != "conda-unpack":
        (prefix / "bin" / "conda-unpack").write_text(unpack)
    with tarfile.open(tmp_path / "lab.tar.gz", "w:gz") as archive:
        for name in sorted(os.listdir(prefix)):
            archive.add(prefix / name, arcname=name)
    return conda_recipe(str(tmp_path / "lab.tar.gz"))


def test_an_archive(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # no program of conda's is needed
    made = packed(tmp_path)
    (tmp_path / "sent").mkdir()
    os.rename(made.path, tmp_path / "sent" / "lab.tar.gz")
    asked = ensure(store, made)
    assert (asked["changed"], asked["needs"]) == (False, {"files": [made.path]})
    first = ensure(store, made, sent=str(tmp_path / "sent" / "lab.tar.gz"))
    assert first["changed"] and os.path.exists(f"{first['ref']['path']}/unpacked")
    assert first["environment"]["packages"] == {"alpha": "1.0"}
    ensure(store, made, state="absent")
    with (tmp_path / "sent" / "lab.tar.gz").open("ab") as stream:
        stream.write(b"!")
    assert "needs" in ensure(store, made, sent=str(tmp_path / "sent" / "lab.tar.gz"))


def test_an_archive_cannot_write_through_a_hard_link(store: str, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    sentinel.write_text("as it was", encoding="utf-8")
    hard = tarfile.TarInfo("bin/tool")
    hard.type, hard.linkname = tarfile.LNKTYPE, os.path.relpath(sentinel, f"{store}/environments/{'x' * 32}")
    again = tarfile.TarInfo("bin/tool")
    again.size = 7
    for target in (hard.linkname, str(sentinel)):
        hard.linkname = target
        with tarfile.open(tmp_path / "lab.tar.gz", "w:gz") as archive:
            archive.addfile(hard)
            archive.addfile(again, io.BytesIO(b"written"))
        with pytest.raises(RankzeroError, match="nothing was unpacked"):
            ensure(store, conda_recipe(str(tmp_path / "lab.tar.gz")))
        assert sentinel.read_text(encoding="utf-8") == "as it was" and sentinel.stat().st_nlink == 1
    assert os.listdir(f"{store}/environments") == []


def test_an_archive_of_something_else(store: str, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match=r"no bin/conda-unpack.*Make it with `conda-pack"):
        ensure(store, packed(tmp_path, without="conda-unpack"))
    assert os.listdir(f"{store}/environments") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("packages: []\n", "neither an environment.yml"),
        (
            "@EXPLICIT\nhttps://conda.example/alpha-1.0-0.conda\n",
            "1 packages .* have no hash, .*alpha-1.0-0.conda the first",
        ),
    ],
)
def test_files_that_cannot_be_meant(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match=said):
        file(tmp_path, text)
    with pytest.raises(RankzeroError, match="cannot be read"):
        conda_recipe(str(tmp_path / "nothing.yml"))


def test_the_key_is_that_of_the_content(tmp_path: Path) -> None:
    known = file(tmp_path, YML).key
    assert known == file(tmp_path, YML.replace("\n", "\r\n"), "other.yml").key
    assert known != file(tmp_path, YML + "  - beta\n").key
    assert known == "68ca8eb6dca4973c60f583317dad655e"
