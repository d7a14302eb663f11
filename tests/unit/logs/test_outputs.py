# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which outputs of a launch are fetched, and how copies are compared."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import outputs
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.outputs import Copy, Difference, Proof, Verification
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Holding
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from tests.writers import Run

RESULT = b'{"loss": 1.5}'


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def launch(tmp_path: Path, artifact: dict[str, Any] | None) -> RunDirectory:
    """A launch with a result, a checkpoint of two files, and a link to the code, that has ended."""
    made = Run.below(tmp_path).contract(**(artifact or {})).numbered(0)
    work = made.path / "work"
    (work / "ckpt" / "last").mkdir(parents=True)
    (work / "result.json").write_bytes(RESULT)
    (work / "ckpt" / "last" / "a.pt").write_bytes(b"a" * 10)
    (work / "ckpt" / "last" / "done").write_bytes(b"")
    (work / "ckpt-old").write_bytes(b"old")
    (tmp_path / "train.py").write_bytes(b"code")
    (work / "train.py").symlink_to(tmp_path / "train.py")
    return RunDirectory(str(made.ended().path))


JSON = {"path": "result.json", "format": "json"}
WRONG = {**JSON, "require": {"loss": {"lt": 1}}}


def test_artifact_unless_paths_are_named(tmp_path: Path) -> None:
    run = launch(tmp_path, JSON)
    assert outputs.chosen_paths(run, []) == ["result.json"]
    assert outputs.chosen_paths(run, ["ckpt/", "."]) == ["ckpt", "."]


@pytest.mark.parametrize("path", ["..", "a/../../x", "/etc/passwd", "", "a\nb"])
def test_path_outside_of_the_working_directory_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="paths"):
        outputs.chosen_paths(launch(tmp_path, JSON), [path])


def test_launch_without_artifact_needs_paths(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="paths"):
        outputs.chosen_paths(launch(tmp_path, None), [])


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["result.json"], ["result.json"]),
        (["ckpt"], ["ckpt/last/a.pt", "ckpt/last/done"]),
        (["."], ["ckpt-old", "ckpt/last/a.pt", "ckpt/last/done", "result.json"]),
    ],
)
def test_files_at_and_below_the_paths(paths: list[str], names: list[str], tmp_path: Path) -> None:
    root = launch(tmp_path, JSON).shown(outputs.WORK)
    assert sorted(name for name, _size in outputs.listing(root, paths)[0]) == names


@pytest.mark.parametrize("path", ["train.py", "nothing", "ckpt/las"])
def test_path_without_files_is_refused_with_what_is_there(path: str, tmp_path: Path) -> None:
    root = launch(tmp_path, JSON).shown(outputs.WORK)
    with pytest.raises(RankzeroError) as raised:
        outputs.listing(root, [path])
    assert path in raised.value.message and "result.json" in raised.value.message and "ckpt/" in raised.value.message


@pytest.mark.parametrize(
    ("artifact", "expected"),
    [
        (JSON, Proof("result.json", sha256(RESULT))),
        ({"path": "ckpt", "format": "directory", "complete": "last/done"}, Proof("ckpt/last/done", sha256(b""))),
        ({**JSON, "path": "missing.json"}, None),
        (WRONG, None),
        (None, None),
    ],
)
def test_proof(artifact: dict[str, Any] | None, expected: Proof | None, tmp_path: Path) -> None:
    assert outputs.proof(launch(tmp_path, artifact)) == expected


@pytest.mark.parametrize("report", [{"valid": True, "sha256": None}, {"sha256": sha256(RESULT)}, None])
def test_verdict_without_a_digest_or_a_yes_proves_nothing(report: dict[str, Any] | None, tmp_path: Path) -> None:
    run = launch(tmp_path, JSON)
    Run(Path(run.path)).altered("outcome.json", artifact=report)
    assert outputs.proof(run) is None


def test_verdict_on_an_artifact_that_the_contract_does_not_have_proves_nothing(tmp_path: Path) -> None:
    run = launch(tmp_path, JSON)
    Run(Path(run.path)).contract()
    assert outputs.proof(run) is None


def test_digests_of_the_bytes_that_are_here(tmp_path: Path) -> None:
    """A file that has grown since is compared as far as it was fetched."""
    run = launch(tmp_path, JSON)
    have = {"ckpt/last/a.pt": Holding(4, 4, ""), "result.json": Holding(len(RESULT), 1, ""), "other": Holding(1, 1, "")}
    cluster = outputs.verification(run, ["."], have)
    assert cluster.digests == {
        "ckpt-old": None,
        "ckpt/last/a.pt": sha256(b"aaaa"),
        "ckpt/last/done": None,
        "result.json": sha256(RESULT),
    }
    assert cluster.proof == Proof("result.json", sha256(RESULT))
    assert Verification.of(cluster.result()) == cluster


def test_copies_are_compared(tmp_path: Path) -> None:
    dest = tmp_path / "here"
    dest.mkdir()
    (dest / "result.json").write_bytes(RESULT)
    (dest / "damaged").write_bytes(b"x")
    good = {"result.json": sha256(RESULT)}
    copies, difference = outputs.compare(str(dest), Verification(good, Proof("result.json", sha256(RESULT))))
    assert copies == [Copy("result.json", len(RESULT), sha256(RESULT))]
    assert difference == Difference([], None)
    _copies, changed = outputs.compare(str(dest), Verification(good, Proof("result.json", sha256(b"before"))))
    assert changed == Difference([], "result.json")
    several = {**good, "damaged": sha256(b"y"), "missing": sha256(b"z"), "unreadable": None}
    _copies, wrong = outputs.compare(str(dest), Verification(several, None))
    assert wrong.copies == ["damaged", "missing", "unreadable"]


def test_cluster_names_no_file_outside_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="outside"):
        outputs.compare(str(tmp_path), Verification({"../other": sha256(b"")}, None))
