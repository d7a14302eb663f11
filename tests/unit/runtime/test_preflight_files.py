# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a preflight leaves for the next attempt, and those that it does not make on many nodes."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

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


@pytest.mark.parametrize("many", [0, 64])
def test_on_many_nodes_one_file_takes_what_all_nodes_say(site: Site, many: int) -> None:
    job = site.job({"resources": {"nodes": 1}, "setup": {"commands": [f"export RANKZERO_MANY_NODES={many}"]}})
    assert job.finish() == 0, job.log()
    (path,) = (job.run / "preflight" / "0").glob("*.log")
    assert path.name == ("_tasks.log" if many == 0 else "%N.log"), "the stand-in for srun takes %N as it is"
    assert "[binding] task=0 " in path.read_text()
