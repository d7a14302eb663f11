# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a launch is another one than the newest of its name: recorded on the cluster, told by the controller."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan import changes
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import predecessor as before
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.create import create
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import Change, compared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job

SIDES = ("before", "after")


class Project:
    """A program, and the cluster's folders: `launch` leaves there what a launch leaves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.src = root / "src"
        self.src.mkdir()
        (self.src / "train.py").write_text("a\nb\nc\n", encoding="utf-8")
        self.time = 1000.0

    def prepared(self, *command: str, **data: Any) -> Prepared:
        job = read_job({"name": "x", "command": ["train.py", *command], **data}, None, None, None, str(self.src))
        site = Site(str(self.root / "state"), str(self.root / "store"), job.settings)
        return prepare(job, site, relaunch="on_failure", facts={})

    def launch(self, *command: str, **data: Any) -> Prepared:
        made = self.prepared(*command, **data)
        request = made.request
        self.time += 1
        target = RunDirectory(f"{request.runs_dir}/1")
        assert create(request, target, lambda run: run.record("intent", time=self.time))
        code = made.plan.ref("code")
        assert code
        shutil.copytree(self.src, code.path, symlinks=True, dirs_exist_ok=True)
        return made

    def compared(self, *command: str, **data: Any) -> tuple[Change | None, dict[str, str]]:
        made = self.prepared(*command, **data)
        return compared(made, before.predecessor(Request.of(json.loads(json.dumps(made.sent())))))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_new_default_of_the_cluster_is_named_as_the_cause(project: Project) -> None:
    """The user's own files have not changed."""
    project.launch("--steps", "1")
    job = {"name": "x", "command": ["train.py", "--steps", "2"]}
    defaults = {"env": {"NCCL_DEBUG": "WARN"}, "resources": {"partition": "batch"}}
    read = read_job(job, defaults, None, {"nodes": 2}, str(project.src))
    site = Site(str(project.root / "state"), str(project.root / "store"), read.settings)
    made = prepare(read, site, relaunch="on_failure", facts={})
    changed, _diff = compared(made, before.predecessor(Request.of(json.loads(json.dumps(made.sent())))))
    assert changed is not None
    assert changed.changes == [
        *("command --steps 1 -> 2", "resources.nodes 1 -> 2", "env.NCCL_DEBUG none -> WARN (launch_cluster)")
    ]


def test_values_and_files_that_changed_are_named(project: Project) -> None:
    first = project.launch("--steps", "100", env={"A": "1"})
    (project.src / "train.py").write_text("a\nB\nc\nd\ne\n", encoding="utf-8")
    (project.src / "new.py").write_text("\n", encoding="utf-8")
    changed, diff = project.compared("--steps", "200", env={"A": "2"}, resources={"nodes": 2, "time": "02:00:00"})
    assert changed is not None
    assert changed.changes == [
        "command --steps 100 -> 200",
        "resources.nodes 1 -> 2",
        "env.A 1 -> 2",
        "train.py +3 -1",
        "new.py added",
    ]
    assert changed.text == f"another launch than {first.plan.key[:8]}: " + ", ".join(changed.changes)
    assert changed.run_dir == f"{first.plan.runs_dir()}/1"
    # The diff also has what does not make another launch, and no file that is the same.
    assert 'resources.time: "02:00:00"' in diff["after"] and "resources.time" not in diff["before"]
    files = [[line.split()[1] for line in diff[side].splitlines() if line.startswith("code ")] for side in SIDES]
    assert files == [["train.py"], ["new.py", "train.py"]]


def test_the_newest_launch_is_compared_and_the_own_key_is_not(project: Project) -> None:
    project.launch("--steps", "100")
    second = project.launch("--steps", "200")
    changed, _diff = project.compared("--steps", "300")
    assert changed is not None and changed.key == second.plan.key[:16]
    again, _diff = project.compared("--steps", "200")
    assert again is not None and again.changes == ["command --steps 100 -> 200"]


def test_a_first_launch_shows_its_values_and_no_script(project: Project) -> None:
    changed, diff = project.compared("--steps", "100")
    assert changed is None
    assert diff["before"] == "" and "#SBATCH" not in diff["after"]
    assert 'command: ["train.py", "--steps", "100"]' in diff["after"]


def test_code_that_a_prune_has_removed_is_known_by_its_digest(project: Project) -> None:
    project.launch()
    shutil.rmtree(project.root / "store")
    (project.src / "train.py").write_text("b\n", encoding="utf-8")
    changed, _diff = project.compared()
    assert changed is not None and len(changed.changes) == 1
    assert changed.changes[0].startswith("code ") and " -> " in changed.changes[0]


def test_a_launch_is_compared_with_the_nearest_one_of_its_name(project: Project) -> None:
    """And not with the newest: five other configurations since then are no reason why this is another launch."""
    first = project.launch("--steps", "10")
    project.launch("--steps", "10", "--lr", "0.1", resources={"nodes": 2})
    newest = project.launch("--steps", "30", "--lr", "0.4", resources={"nodes": 2})
    (project.src / "five.py").write_text("5\n", encoding="utf-8")
    changed, _diff = project.compared("--steps", "10")
    assert changed is not None and changed.changes == ["five.py added"]
    assert first.plan.key.startswith(changed.key)
    changed, _diff = project.compared("--steps", "30", "--lr", "0.4", resources={"nodes": 2})
    assert changed is not None and newest.plan.key.startswith(changed.key)
    (project.src / "five.py").unlink()
    changed, _diff = project.compared("--steps", "20")
    assert changed is not None and changed.changes == ["command --steps 10 -> 20"]


def test_a_removed_file_a_link_and_a_binary_file_are_named(project: Project) -> None:
    (project.src / "old.py").write_text("\n", encoding="utf-8")
    (project.src / "data.bin").write_bytes(b"\0\1")
    os.symlink("train.py", project.src / "link")
    project.launch()
    (project.src / "old.py").unlink()
    (project.src / "data.bin").write_bytes(b"\0\2")
    (project.src / "link").unlink()
    os.symlink("data.bin", project.src / "link")
    changed, _diff = project.compared()
    assert changed is not None
    assert changed.changes == ["data.bin changed", "link changed", "old.py removed"]


def test_what_another_version_recorded_is_read_as_far_as_it_is_valid(project: Project) -> None:
    first = project.launch("--steps", "100")
    path = Path(first.plan.runs_dir()) / "1" / "launch.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["spec"]["gone"] = {"of": "another version"}
    path.write_text(json.dumps(record), encoding="utf-8")
    changed, _diff = project.compared("--steps", "200")
    assert changed is not None and changed.changes == ["command --steps 100 -> 200"]
    path.write_text("not JSON", encoding="utf-8")
    assert project.compared("--steps", "200")[0] is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (["a", "--lr", "1"], ["a", "--lr", "1", "--warm", "5"], ["command with --warm 5"]),
        (["a", "--lr=1", "--fp8"], ["a", "--lr=2"], ["command --lr=1 --fp8 -> --lr=2"]),
        (["a", "--fp8", "b"], ["a", "b"], ["command without --fp8"]),
    ],
)
def test_a_command_is_compared_word_by_word(old: list[str], new: list[str], expected: list[str]) -> None:
    specs = [changes.recorded_spec({"name": "x", "command": command}) for command in (old, new)]
    assert changes.spec_changes(*specs) == expected


def test_an_artifact_that_is_now_required_is_a_change() -> None:
    given = ({}, {"artifact": {"then": "end"}})
    specs = [changes.recorded_spec({"name": "x", "command": ["a"], **more}) for more in given]
    assert "artifact.path none -> result.json" in changes.spec_changes(*specs)


def test_a_line_names_a_few_changes_and_counts_the_rest() -> None:
    text = changes.sentence("0123456789abcdef", [f"file{number} added" for number in range(20)])
    assert text.startswith("another launch than 01234567: file0 added, ") and text.endswith(", and 14 more")
