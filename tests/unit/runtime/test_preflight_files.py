# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a preflight leaves for the next attempt, as few as can be."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import node_texts, text_lines
from ansible_collections.rankzero.slurm.plugins.module_utils.watch import remote_poll
from tests.unit.runtime.harness import Site, runtime_parts


@pytest.fixture(scope="module")
def preflight() -> Iterator[ModuleType]:
    with runtime_parts("preflight.program") as part:
        yield part


def test_an_answer_is_remembered_for_this_boot_and_this_interpreter_only(
    preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho >> {tmp_path}/asked\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    attempts = itertools.count()

    def ask(*imports: str) -> tuple[bool, int]:
        """Whether an attempt takes the answer of the one before, and how often the interpreter was asked so far."""
        folder = tmp_path / str(next(attempts))
        folder.mkdir()
        known = preflight.answer_before(str(folder), "n1")
        found, torch, trouble, kept = preflight.probed(str(python), list(imports), known)
        assert (found.get("python") is None) is (trouble is not None)
        (folder / "n1.json").write_text(json.dumps({"columns": found, "torch": torch, "probed": kept}))
        return known is not None and kept is known, (tmp_path / "asked").read_text().count("\n")

    assert ask("json") == (False, 1)
    assert ask("json") == (True, 1)
    assert ask("json") == (True, 1), "each attempt hands the answer on"
    assert ask("json", "csv") == (False, 2)
    (tmp_path / "boot").write_text("another boot\n")
    monkeypatch.setattr(preflight, "BOOT_ID", str(tmp_path / "boot"))
    assert ask("json", "csv") == (False, 3)
    os.utime(python, ns=(1, 1))
    assert ask("json", "csv") == (False, 4)
    assert ask("no_such_module_here") == (False, 5)
    assert ask("json", "csv") == (False, 6), "a failure is not taken over"
    for damage in ("", "[]", '{"probed": []}', '{"probed": {"asked": 1}}'):
        (tmp_path / "7" / "n1.json").write_text(damage)
        assert preflight.answer_before(str(tmp_path / "8"), "n1") is None


def test_one_file_takes_what_all_nodes_say(site: Site) -> None:
    job = site.job({"resources": {"nodes": 1}})
    assert job.finish() == 0, job.log()
    (path,) = (job.run / "preflight" / "0").glob("*.log")
    assert "[binding] task=0 " in path.read_text()
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert {file.name for file in files} >= {"_tasks.log", "table", "unfit.json"} and len(files) <= 5
    assert "proj=ok" in (path.parent / "table").read_text(), "the report was read"
    place = remote_poll._Place(str(job.run))
    assert remote_poll._looked_at(place, "preflight/0") == 1, "who waits sees it, too"


def test_what_a_node_has_learned_is_remembered_from_one_file_too(preflight: ModuleType, tmp_path: Path) -> None:
    known = {"asked": ["boot"], "versions": {"python": "3.11"}, "torch": False, "long": os.urandom(2000).hex()}
    (tmp_path / "0").mkdir()
    printed = text_lines("report", "n1", json.dumps({"probed": known})) + text_lines("report", "n2", "{}")
    assert all(len(line) < 1000 for line in printed.splitlines()) and printed.count("\n") > 3
    labelled = "".join(f"{number % 2}: {line}\n" for number, line in enumerate(printed.splitlines()))
    (tmp_path / "0" / "_tasks.log").write_text("0: [binding] task=0\n" + labelled)
    assert preflight.answer_before(str(tmp_path / "1"), "n1") == known
    assert preflight.answer_before(str(tmp_path / "1"), "n2") is None
    assert preflight.answer_before(str(tmp_path / "1"), "n3") is None


def test_a_text_that_is_not_whole_is_left_out() -> None:
    text = os.urandom(3000).hex()
    lines = [f"{line}\n".encode() for line in text_lines("report", "n1", text).splitlines()]
    assert len(lines) > 4
    for damaged in (lines[:-1], lines[1:], [lines[0], *lines[2:]], [lines[0], b"[report n1 2/9] =\n", *lines[1:3]]):
        assert not list(node_texts(damaged, ["report"]))
    again = [*lines[:3], *lines]
    assert list(node_texts(again, ["report"])) == [("report", "n1", text)]
    assert not list(node_texts(again, ["host"])) and not list(node_texts(again, ["report"], ["n2"]))


def test_what_is_no_report_is_read_as_none(tmp_path: Path) -> None:
    """The conductor itself reads what the tasks have printed: it must not end of it."""
    printed = [text_lines("report", name, text) for name, text in (("n1", "[" * 100_000), ("n2", "7"), ("n3", "{}"))]
    (tmp_path / "_tasks.log").write_text("".join(f"0: {line}\n" for text in printed for line in text.splitlines()))
    with runtime_parts("node.reports") as part:
        found = part.reports_of(str(tmp_path), ["n1", "n2", "n3", "n4"])
    assert found == {"n1": None, "n2": None, "n3": {}, "n4": None}
