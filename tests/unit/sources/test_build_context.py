# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job whose image is built: what the controller reads of it, and that both halves agree on its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image import ensure
from ansible_collections.rankzero.slurm.plugins.module_utils.image.host import Way
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.build_context import read_build
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import Snapshots

TEXT = "FROM base\nARG WHO\nCOPY app /app\nRUN --mount=type=secret,id=pip true\n"


class Asker(LaunchAction):
    def act(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("only its own methods are looked at")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """jobs/job.yml beside images/Containerfile, which needs one folder of its context."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    images = tmp_path / "images"
    (images / "app").mkdir(parents=True)
    (images / "Containerfile").write_text(TEXT)
    (images / "app" / "run").write_text("run\n")
    (images / "app" / "left-out").write_text("x\n")
    (images / "unrelated").write_text("x\n")
    (images / ".containerignore").write_text("**/left-*\n")
    return tmp_path


BUILD: dict[str, Any] = {
    "containerfile": "../images",
    "suite": "bookworm",
    "packages": ["python3", "git"],
    "build_args": {"WHO": "me"},
    "secrets": {"pip": "/dev/null"},
    "env": {"A": "b"},
}


def job(project: Path, build: dict[str, Any], runtime: str = "oci") -> Job:
    given = {"name": "x", "command": ["train.py"], "code": {"src": "../code"}}
    path = project / "jobs" / "job.yml"
    path.write_text(json.dumps({**given, "container": {"runtime": runtime, "build": build}}))
    return read_job(str(path), None, None, None, "/")


def ready(read: Job) -> Prepared:
    return prepare(read, Site("/state", "/store", read.settings), relaunch="on_failure", facts={})


def test_only_what_the_containerfile_names_is_read(project: Path) -> None:
    read = read_build(str(project / "images"), None, {"WHO": "me"})
    assert read.context and [path for path, _what in read.listed()] == ["app/run"]
    assert read.text == TEXT and read.context.src == str(project / "images")
    (project / "images" / "Containerfile").write_text("FROM scratch\nCOPY . /\n")
    (project / "images" / ".git").mkdir()
    (project / "images" / ".git" / "config").touch()
    names = [path for path, _what in read_build(str(project / "images"), None, {}).listed()]
    assert names == [".containerignore", "Containerfile", "app/run", "unrelated"]
    (project / "images" / "Containerfile").write_text("FROM scratch\nRUN true\n")
    assert read_build(str(project / "images"), None, {}).listed() == []


@pytest.mark.parametrize(
    ("containerfile", "context", "message"),
    [
        ("gone", None, "containerfile: .*gone does not exist"),
        ("jobs", None, "is a folder without Containerfile and Dockerfile"),
        ("images", "gone", "context: .*gone is not a folder on the controller"),
        ("images", "jobs", "containerfile: line 3: the context has no file app"),
    ],
)
def test_what_is_not_there_is_named(project: Path, containerfile: str, context: str | None, message: str) -> None:
    with pytest.raises(RankzeroError, match=message):
        read_build(str(project / containerfile), context and str(project / context), {})


@pytest.mark.parametrize(
    ("runtime", "file"), [("oci", "image.sqsh"), ("pyxis", "image.sqsh"), ("apptainer", "image.sif")]
)
def test_a_launch_names_the_image_before_it_is_built(project: Path, runtime: str, file: str) -> None:
    made = ready(job(project, BUILD, runtime))
    (ref,) = [one for one in made.sent()["refs"] if one["kind"] == "image"]
    assert ref == {"kind": "image", "key": ref["key"], "path": f"/store/images/{ref['key']}", "file": file}
    assert made.plan.container and made.plan.container.image == f"{ref['path']}/{file}"
    assert f"{ref['path']}/{file}" in made.files["job.sbatch"]
    # Around the container, and not in it; and no wish whose absence would be a mistake.
    assert ref["path"] not in [one.source for one in made.plan.container.mounts]
    assert made.sent()["containers"][0]["image"] == "" and made.sent()["places"]["sources"] == []
    assert f"image {ref['key'][:12]}" in made.details
    record = json.loads(made.files["launch.json"])
    assert record["spec"]["container"]["build"]["containerfile"] == str(project / "images")
    assert ref in record["refs"]


def test_the_image_is_in_the_launch_key(project: Path) -> None:
    first = ready(job(project, BUILD))
    (project / "images" / "unrelated").write_text("y\n")
    assert ready(job(project, {**BUILD, "secrets": {"pip": "/elsewhere"}})).plan.key == first.plan.key
    keys = {ready(job(project, {**BUILD, "packages": ["python3"]})).plan.key, first.plan.key}
    (project / "images" / "app" / "run").write_text("walk\n")
    keys.add(ready(job(project, BUILD)).plan.key)
    assert len(keys) == 3


def test_the_module_comes_to_the_same_key(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the role hands to the module of what is missing, as the role does it."""
    read = job(project, BUILD, "apptainer")
    made = ready(read)
    action = Asker.__new__(Asker)
    action._kept, action._snapshots = None, Snapshots()
    action._snapshots.path = str(tmp_path / "kept")
    missing = action.producers(made.sent()["refs"], made, read).missing
    (item,) = [one for one in missing if one["kind"] == "image"]
    assert (item["name"], item["formats"]) == ("x", ["sqsh", "sif"])
    options = {name: value for name, value in item.items() if name not in ("kind", "path", "key", "file") and value}
    build = read_build(options.pop("containerfile"), options.pop("context", None), options["build_args"])
    monkeypatch.setattr(ensure, "choose", lambda *_facts: Way("tar2sqfs"))
    result = ensure.ensure_image(
        {**options, "store_root": str(tmp_path / "store"), "state": "present"},
        {"text": build.text, "context": build.listed()},
        check_mode=True,
    )
    assert result["ref"]["key"] == item["key"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ({}, "container.build.image: give one of containerfile, suite"),
        ({"context": "../images"}, "container.build.context: requires containerfile"),
        (
            {**BUILD, "build_args": {"WHOM": "x"}},
            r"container.build.build_args: WHOM is not an ARG .*did you mean WHO\?",
        ),
        ({"reference": "oci:/images/torch"}, "container.build.reference: oci:/images/torch is on the cluster"),
        ({**BUILD, "containerfile": "nowhere"}, "container.build.containerfile: .*/jobs/nowhere does not exist"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(project: Path, build: dict[str, Any], message: str) -> None:
    with pytest.raises(RankzeroError, match=message):
        ready(job(project, build))
