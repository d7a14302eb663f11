# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches of an earlier release are found under their own key, by one look at the cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch_many import LaunchManyAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.earlier import LaunchesOfNames
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import Rendered, stages
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import Snapshots

#: With this override, the code is what earlier releases took: every file.
EARLIER = {"code.include": ["*"]}
SWEEP = {"command": ["train.py", "{lr}"], "sweep": {"parameters": {"lr": ["1", "2", "3"]}}}


class Action(LaunchManyAction):
    """The action with a shell of this machine in the place of the connection."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._kept, self._snapshots = None, Snapshots()
        self._launches = LaunchesOfNames(self._answer)

    def _low_level_execute_command(self, command: str, sudoable: bool = True) -> dict[str, Any]:
        self.asked.append(command)
        # Ansible appends this command, too.
        done = subprocess.run(["/bin/sh", "-c", f"{command} && sleep 0"], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": f"Welcome!\n{done.stdout}", "stderr": done.stderr}

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        raise AssertionError


class Project:
    """A user's project with job files, and the cluster that it is launched on."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.runs = root / "it's the state" / "runs"
        (self.root / "jobs").mkdir(parents=True)
        (self.root / "train.py").touch()

    def write(self, name: str, **more: Any) -> None:
        spec = {"name": name, "command": ["train.py"], "code": {"src": ".."}, **more}
        (self.root / "jobs" / f"{name}.yml").write_text(json.dumps(spec, indent=1), encoding="utf-8")

    def render(self, last: str, overrides: dict[str, Any] | None = None) -> tuple[list[Rendered], int]:
        """(the launches up to the job `last`, how often the cluster was asked)"""
        cluster = {"state_root": str(self.runs.parent), "store_root": "/store"}
        cwd = str(self.root)
        found = stages(f"jobs/{last}.yml", lambda path: read_job(path, cluster, overrides, None, cwd), cwd)
        action = Action()
        action._launches.names = {stage.job.spec.name for stage in found}
        rendered: list[Rendered] = []
        for stage in found:
            rendered.append(action.rendered(stage, rendered, "on_failure"))
        return rendered, len(action.asked)

    def make(self, name: str, *keys: str) -> None:
        """The first generation of launches, as far as it can be seen by its folder."""
        for key in keys:
            (self.runs / name / key[:16] / "1").mkdir(parents=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def key(rendered: Rendered) -> str:
    return str(rendered.request["key"])


def test_a_job_keeps_its_key_and_its_code(project: Project) -> None:
    project.write("a")
    ((earlier,), asked) = project.render("a", EARLIER)
    assert asked == 0, "nothing was left out, so there is one key only"
    ((present,), asked) = project.render("a")
    assert asked == 1 and key(present) != key(earlier)

    project.make("a", key(earlier))
    ((found,), asked) = project.render("a")
    assert asked == 1 and found.request["files"]["job.sbatch"] == earlier.request["files"]["job.sbatch"]
    assert found.first.snapshot == earlier.first.snapshot
    # It is there under both keys.
    project.make("a", key(present))
    assert key(project.render("a")[0][0]) == key(present)
    # Nothing that an earlier release has launched.
    project.write("a", seed=3)
    assert key(project.render("a")[0][0]) not in (key(present), key(earlier))


def test_what_is_no_generation_of_this_launch_is_none(project: Project) -> None:
    project.write("a")
    ((earlier,), _asked) = project.render("a", EARLIER)
    ((present,), _asked) = project.render("a")
    short = key(earlier)[:16]
    for path in (f"a/{short}/.new-1", f"a/{short}/logs", f"b/{short}/1", f"a/.sweep-{short}/1", f"a/b/{short}/1"):
        (project.runs / path).mkdir(parents=True)
    assert key(project.render("a")[0][0]) == key(present)


def test_the_elements_of_a_sweep_keep_their_keys(project: Project) -> None:
    project.write("lr", **SWEEP)
    ((earlier,), _asked) = project.render("lr", EARLIER)
    ((present,), _asked) = project.render("lr")
    project.make("lr", earlier.element_keys()[1])
    ((found,), asked) = project.render("lr")
    assert asked == 1 and found.request == earlier.request and found.element_keys() == earlier.element_keys()
    # Two are there under their present key.
    project.make("lr", *present.element_keys()[:2])
    assert project.render("lr")[0][0].element_keys() == present.element_keys()


def test_jobs_that_follow_each_other_keep_their_keys(project: Project) -> None:
    project.write("first")
    project.write("second", after=["first.yml"], **SWEEP)
    project.write("third", after=["second.yml"])
    project.write("alone", after=["first.yml"], seed=1)
    earlier, _asked = project.render("third", EARLIER)
    project.make("first", key(earlier[0]))
    project.make("second", *earlier[1].element_keys())
    project.make("third", key(earlier[2]))
    found, asked = project.render("third")
    assert asked == 1 and [key(one) for one in found] == [key(one) for one in earlier]
    # One that was never launched follows the launch that is there, with the code of now.
    first, alone = project.render("alone")[0]
    assert key(first) == key(earlier[0]) and alone.first.snapshot.left_out
    assert json.loads(alone.first.files["launch.json"])["after"][0]["key"] == key(earlier[0])


def test_the_code_of_every_element_counts(project: Project) -> None:
    """A job file that only the second element names is part of the code of both, which share it."""
    project.write("other")
    words = {"command": ["train.py", "{file}"], "sweep": {"parameters": {"file": ["x", "jobs/other.yml"]}}}
    project.write("lr", **words)
    ((swept,), _asked) = project.render("lr")
    assert swept.first.snapshot.left_out == ("jobs/lr.yml",)


def test_launches_that_cannot_be_listed_stop_the_command(tmp_path: Path) -> None:
    def closed(command: str) -> tuple[int, str]:
        return 2, "sh: cannot cd to it\n"

    with pytest.raises(RankzeroError, match=r"cannot cd to it.*not known which launches exist"):
        LaunchesOfNames(closed).of(str(tmp_path), ["a"])


def test_names_are_asked_for_once_and_never_read_as_options(tmp_path: Path) -> None:
    action = Action()
    action._launches.names = {"-delete", "b"}
    (tmp_path / "runs" / "-delete" / ("0" * 16) / "7").mkdir(parents=True)
    os.symlink(tmp_path / "runs" / "-delete", tmp_path / "runs" / "b")
    of = action._launches.of
    assert of(str(tmp_path), ["-delete"]) == {f"-delete/{'0' * 16}"} and of(str(tmp_path), ["b"]) == {f"b/{'0' * 16}"}
    assert len(action.asked) == 1
    assert of(str(tmp_path), ["c"]) == frozenset() and len(action.asked) == 2
    assert Action()._launches.of(str(tmp_path / "none"), ["a"]) == frozenset()
