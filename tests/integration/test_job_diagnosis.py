# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""job_diagnosis as Ansible ships it, packed with what its imports name, and playbook diagnose on a bare folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from tests import recording
from tests.repository import run

MODULE = "rankzero.slurm.job_diagnosis"
RANK_1 = """[rankzero] RANK=1 LOCAL_RANK=1 WORLD_SIZE=2
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    import lightning
ModuleNotFoundError: No module named 'lightning'
"""


def played(folder: Path, *arguments: str, check: bool = True) -> str:
    """One run of ansible-playbook on this machine."""
    python = f"ansible_python_interpreter={sys.executable}"
    env = {"ANSIBLE_LOCALHOST_WARNING": "0", "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0"}
    env |= recording.settings(folder / "record")
    command = ("ansible-playbook", "-i", "localhost,", "-c", "local", *arguments, "-e", python)
    return run(*command, cwd=folder, env=env, check=check).stdout


def test_a_shipped_module_has_every_family(tmp_path: Path) -> None:
    """A registry that scanned its folder would find nothing in the archive, and would call every log healthy."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0000.log").write_text("loading\n" * 200_000)
    (tmp_path / "logs" / "rank-0001.log").write_text(RANK_1)
    os.symlink("nowhere", tmp_path / "logs" / "rank-0002.log")
    family = {"family": "own", "what": "x", "remedy": "y", "examples": ["it burns"]}
    (tmp_path / "own.yml").write_text(json.dumps({**family, "says": [{"regex": "it burns", "needles": ["it burns"]}]}))
    task: dict[str, Any] = {"path": str(tmp_path / "logs"), "write": False, "processes": 2, "families": "own.yml"}
    tasks = [{MODULE: task}]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    played(tmp_path, "play.yml")
    (found,) = recording.results(tmp_path / "record", MODULE)
    assert found["families"] == len(SIGNATURES) + 1 >= 38
    diagnosis = found["diagnosis"]
    assert (diagnosis["family"], diagnosis["root"]["file"], diagnosis["root"]["line"]) == (
        "import_error",
        "rank-0001.log",
        5,
    )
    assert [entry["file"] for entry in diagnosis["unreadable"]] == ["rank-0002.log"]
    assert not found["changed"]


def test_the_playbook_reads_a_bare_folder(tmp_path: Path) -> None:
    (tmp_path / "slurm-12.out").write_text(
        "1: [rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB\n"
    )
    said = played(tmp_path, "rankzero.slurm.diagnose", "-e", f"logs={tmp_path}")
    for words in ("(cuda_oom, confidence high)", "rank 1", "slurm-12.out:1"):
        assert words in said
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "contains no logs" in played(tmp_path, "rankzero.slurm.diagnose", "-e", f"logs={empty}", check=False)
    assert "does not exist" in played(tmp_path, "rankzero.slurm.diagnose", "-e", f"logs={empty}/x", check=False)


def test_a_reader_of_the_site_says_a_sentence_about_what_no_family_knows(tmp_path: Path) -> None:
    logs, reader = tmp_path / "logs", tmp_path / "reader"
    logs.mkdir()
    frame = '  File "/project/rows.py", line 3, in colour_of\n    raise NoSuchRow(name)'
    log = f"Traceback (most recent call last):\n{frame}\nshop.errors.NoSuchRow: colour\n"
    (logs / "rank-0000.log").write_text(log)
    reader.write_text("#!/bin/sh\ngrep -c '^| ' >&2 && echo 'a row is missing'\n")
    reader.chmod(0o755)
    cluster = {"diagnosis": {"reader": {"command": [str(reader)]}}}
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"logs": str(logs), "launch_cluster": cluster}))
    out = played(tmp_path, "rankzero.slurm.diagnose", "-e", f"@{given}")
    assert "shop.errors.NoSuchRow" in out and "a row is missing" in out
    (found,) = recording.results(tmp_path / "record", MODULE)
    assert found["reader"]["sentence"] == "a row is missing" and "digest" not in found
    assert found["diagnosis"]["family"] == "exception"


def test_families_are_given_as_files_and_not_as_they_travel(tmp_path: Path) -> None:
    task = {MODULE: {"path": str(tmp_path), "x_families": [{"family": "own"}]}}
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    said = " ".join(played(tmp_path, "play.yml", check=False).split())
    assert "Unsupported parameters" in said and "x_families" in said
