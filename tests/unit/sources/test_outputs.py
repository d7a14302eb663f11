# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a command writes into the project, or has its output redirected to, is never code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Chosen, take_snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.provenance import refuse_changes
from tests.unit.sources.trap import git

# As Ansible does: the action runs in a process of its own session, without the command's output.
PROGRAM = """
import json, os, sys
import ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code as code
print("a line before the snapshot", flush=True)
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
os.setsid()
null = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(null, number)
taken = code.take_snapshot(".")
with open(sys.argv[1], "w") as stream:
    json.dump([[entry.path for entry in taken.files], taken.written], stream)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print()\n")
    (folder / "old.log").write_text("an output of last week, which nobody has recorded\n")
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "{command} > train.log",
        "{command} >> train.log 2>&1",
        "{command} > /dev/null 2> train.log",
        "{command} | tee train.log",
        "{command} 2>&1 | tee -a train.log | cat",
        "({command}) > train.log",
        "exec 7> train.log; {command} > /dev/null",
        "set -m; {command} | tee train.log",
    ],
)
def test_what_the_output_goes_to_is_not_code(project: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "look.py").write_text(PROGRAM)
    answer = tmp_path / "answer.json"
    command = f"'{sys.executable}' '{tmp_path / 'look.py'}' '{answer}'"
    subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line.format(command=command)}"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert json.loads(answer.read_text()) == [["old.log", "train.py"], ["train.log"]]


def test_what_a_command_has_written_is_not_code(project: Path) -> None:
    before = take_snapshot(str(project))
    Place.of(str(project)).write("report.html", "<p>\n")
    Place.of(str(project), "reports").write("usage.csv", "a,b\n")
    Place.of(str(project)).record("train.log")
    (project / "train.log").write_text("the command's output\n")
    (project / "reports" / "mine.csv").write_text("a,b\n")
    after = take_snapshot(str(project), Chosen(exclude=("mine.csv",)))
    assert after.digest == before.digest
    assert set(after.left_out) == {"report.html", "reports/usage.csv", "train.log"}
    # The program's own files in the same folder are its code, and what its command names.
    named = take_snapshot(str(project), Chosen(words=("train.py", "--log=train.log")))
    assert {entry.path for entry in named.files} == {"old.log", "train.py", "train.log", "reports/mine.csv"}
    included = take_snapshot(str(project), Chosen(include=("*.html",)))
    assert "report.html" in {entry.path for entry in included.files}


def test_git_is_not_told_of_the_record_and_its_files_are_no_change(project: Path) -> None:
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "x"]):
        git(project, *words)
    Place.of(str(project)).write("report.html", "<p>\n")
    Place.of(str(project)).write("report.html", "<p><p>\n")
    assert git(project, "status", "--porcelain", "--untracked-files=all") == "?? report.html\n"
    snapshot = take_snapshot(str(project))
    assert not snapshot.dirty
    refuse_changes(snapshot)
    # Somebody has decided to track it.
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "y")
    assert "report.html" in {entry.path for entry in take_snapshot(str(project)).files}


def test_a_record_that_cannot_be_written_is_no_error(project: Path) -> None:
    (project / ".rankzero").write_text("a file\n")
    assert Place.of(str(project)).write("report.html", "<p>\n") == str(project / "report.html")
