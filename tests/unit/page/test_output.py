# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of report_page: the same launches give the same files, which are replaced whole."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.action import report_page
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.report.pages import ACTION_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import modules
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page import output
from tests.unit.page.runs import found, make_launch
from tests.unit.run.test_launches import KEY


class Bench:
    """The action over the module's real answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path, dest: Path) -> None:
        self.root, self.lines = root, []  # type: tuple[Path, list[str]]
        self.options = {name: option.get("default") for name, option in ACTION_ARGUMENTS.items()}
        self.options.update(dest=str(dest), launches=[f"gpt/{KEY}"], annotations="none")
        self.action = report_page.ActionModule.__new__(report_page.ActionModule)
        monkeypatch.setattr(modules.Action, "run", lambda *_args: {})
        monkeypatch.setattr(self.action, "validate_argument_spec", lambda _spec: (None, self.options))
        monkeypatch.setattr(modules, "call_module", lambda *_given: found(self.root, *self.options["launches"]))
        monkeypatch.setattr(report_page.display, "display", self.lines.append)

    def run(self, *, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        self.options.update(options)
        self.action._task = SimpleNamespace(args={}, check_mode=check_mode)
        return self.action.run(None, {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "state"
    root.mkdir()
    make_launch(root, ranks=2, steps=20)
    return root


def test_the_second_run_changes_nothing(monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> None:
    page = tmp_path / "public" / "report.html"
    bench = Bench(monkeypatch, root, page)
    planned = bench.run(check_mode=True)
    assert planned["changed"] is True and not page.parent.exists()
    first = bench.run()
    assert first["changed"] is True and planned["diff"] == first["diff"] and first["bytes"] == page.stat().st_size
    written = [str(page), str(page.with_suffix(".md")), str(page.with_suffix(".csv"))]
    assert [each["after_header"] for each in first["diff"]] == written and first["hours"] == written[2]
    assert first["diff"][0]["after"].startswith(f"a page of {first['bytes']} bytes, SHA-256 ")
    assert first["diff"][1]["after"] == page.with_suffix(".md").read_text() and first["diff"][1]["before"] == ""
    files = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in page.parent.iterdir()}
    for check_mode in (False, True):
        second = bench.run(check_mode=check_mode)
        assert second["changed"] is False and second["diff"] == []
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in page.parent.iterdir()} == files
    log = next((root / "runs" / "gpt").glob("*/1/logs/1/rank-0000.log"))
    log.write_text(log.read_text() + log.read_text().splitlines()[-1].replace("iteration 19/", "iteration 20/") + "\n")
    assert bench.run(check_mode=True)["changed"] is True
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in page.parent.iterdir()} == files
    assert bench.run()["changed"] is True and bench.run()["changed"] is False


def test_each_kind_of_page_is_the_same_again(monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> None:
    make_launch(root, key="5" * 16, ranks=2, steps=20)
    bench = Bench(monkeypatch, root, tmp_path / "report.html")
    for launches in ([], [f"gpt/{KEY}", "gpt/" + "5" * 16]):
        assert bench.run(launches=launches)["changed"] is True
        assert bench.run(launches=launches)["changed"] is False


def test_gitlabs_report_is_a_file_of_the_page_too(monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> None:
    bench = Bench(monkeypatch, root, tmp_path / "report.html")
    quality = tmp_path / "gl-code-quality-report.json"
    assert len(bench.run(annotations="gitlab")["diff"]) == 4 and quality.read_text() == "[]\n"
    assert bench.run(annotations="gitlab")["changed"] is False
    summary = tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert bench.run(annotations="github", check_mode=True)["changed"] is False and not summary.exists()
    bench.run(annotations="github")
    assert summary.read_text() == (tmp_path / "report.md").read_text() and bench.lines == []


def test_a_page_that_cannot_be_written_names_the_option(
    monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    result = Bench(monkeypatch, root, tmp_path / "file" / "report.html").run()
    assert result["failed"] is True and result["msg"].startswith(f"dest: {tmp_path}/file/report.html cannot be written")


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    real = tmp_path / "real.html"
    real.write_text("old")
    real.chmod(0o640)
    output.write_files({str(real): "new"}, pretend=False)
    assert real.read_text() == "new" and real.stat().st_mode & 0o777 == 0o640
    mask = os.umask(0o027)
    try:
        output.write_files({str(tmp_path / "new.html"): "x"}, pretend=False)
    finally:
        os.umask(mask)
    assert (tmp_path / "new.html").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["new.html", "real.html"]


def test_a_write_that_fails_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")

    def full(*_given: Any, **_more: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(RankzeroError, match=r"dest: .*page\.html cannot be written: No space left on device"):
        output.write_files({str(page): "new"}, pretend=False)
    assert page.read_text() == "old" and list(tmp_path.iterdir()) == [page]
