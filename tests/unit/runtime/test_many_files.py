# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What looks into the ranks' working directory holds one name at a time: a program may leave a million files there.

A small version of benchmarks/limits: memory is compared for two counts, no time is looked at.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath, is_listed
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import archive, outputs
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.outputs import listing
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_files import MOST_FILES, metric_files
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.inventory import newest, size
from tests.unit.runtime.harness import runtime_parts

MANY = 20_000
# Bytes. A list of the names in one of the folders has more than twice as many.
LITTLE = 300_000


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with many files, half of them in one folder, and as many links to one of them."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "deep").mkdir()
    for number in range(MANY // 2):
        (folder / f"sample-{number:08d}").touch()
        os.link(folder / "sample-00000000", folder / "deep" / f"metrics-{number:08d}.jsonl")
    (folder / "result.json").write_text('{"loss": 1}', encoding="utf-8")
    return folder


def held(look: Callable[[], object]) -> int:
    """The most bytes of Python's objects at once."""
    look()
    tracemalloc.start()
    try:
        look()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LOOKS: dict[str, Callable[[str], object]] = {
    "a file": lambda work: Beneath(work).text("result.json", 100),
    "a missing name": lambda work: is_listed(f"{work}/missing"),
    "files of metrics": lambda work: metric_files(Beneath(work)),
    "the newest time": newest,
    "the size": size,
    "what pull fetches": lambda work: listing(Beneath(work), ["result.json"]),
}


@pytest.mark.parametrize("look", LOOKS)
def test_one_name_at_a_time_is_held(work: Path, look: str) -> None:
    assert held(lambda: LOOKS[look](str(work))) < LITTLE


def test_the_job_s_own_looks_hold_one_name_at_a_time(work: Path) -> None:
    """The watcher looks up the artifact several times a second."""
    with runtime_parts("artifact.outcome") as outcome:
        assert outcome.listed(str(work / "result.json")) and not outcome.listed(str(work / "missing"))
        assert held(lambda: outcome.listed(str(work / "missing"))) < LITTLE
    with runtime_parts("core.workdir") as workdir:
        assert held(lambda: workdir.relink(str(work), "/nowhere", "/elsewhere")) < LITTLE


def test_of_many_files_of_metrics_the_first_are_read(work: Path) -> None:
    assert metric_files(Beneath(str(work)))[0] == [f"deep/metrics-{number:08d}.jsonl" for number in range(MOST_FILES)]


def test_pull_looks_into_a_folder_once_and_not_for_each_of_its_files(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 files were 20,000 lists of 20,000 names."""
    source, looks, scandir = Beneath(str(work)), [], os.scandir
    files = [(f"deep/metrics-{number:08d}.jsonl", 0) for number in range(0, MANY // 2, 50)]
    monkeypatch.setattr(os, "scandir", lambda *given: looks.append(given) or scandir(*given))
    parts, _more = archive.plan(source, files, {})
    written = archive.write_archive(source, parts, str(tmp_path / "logs.tar.gz"))
    assert [part.path for part in written] == [path for path, _size in files]
    assert all(outputs.digest(source, path, 0) for path, _size in files) and outputs.digest(source, "gone", 0) is None
    assert len(looks) < 10


def test_pull_names_a_limit(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MOST_FILES", 100)
    assert len(listing(Beneath(str(work)), ["result.json"])[0]) == 1
    with pytest.raises(RankzeroError, match=r"paths: .* more than 100 files"):
        listing(Beneath(str(work)), ["deep"])
