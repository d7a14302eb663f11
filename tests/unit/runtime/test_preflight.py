# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight (P4, P6, E4): what a node reports, what the first node concludes, and what the job does about it."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.launching import RUNTIME
from tests.unit.runtime.harness import Site

PROGRAM = os.path.join(RUNTIME, "preflight.py")


@pytest.fixture(scope="module")
def preflight() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rankzero_preflight", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def report(folder: Path, name: str, usable: list[str], *problems: str) -> None:
    document = {"columns": {"proj": "ok", "cpus": "4"}, "problems": list(problems), "usable": usable}
    (folder / f"{name}.json").write_text(json.dumps(document))


def judged(folder: Path, names: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-I", PROGRAM, "judge", str(folder), names, "--budget", "9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_the_fast_interface_that_all_nodes_reach_the_first_one_by_is_chosen(tmp_path: Path) -> None:
    report(tmp_path, "n1", ["ib0", "ib1", "eth0"])
    report(tmp_path, "n2", ["ib1", "eth0"])
    report(tmp_path, "n3", ["ib0", "ib1", "eth0"])
    assert judged(tmp_path, "n1,n2,n3") == (
        0,
        ["n1 proj=ok cpus=4", "n2 proj=ok cpus=4", "n3 proj=ok cpus=4", "interface ib1"],
    )


def test_without_a_common_interface_none_is_chosen(tmp_path: Path) -> None:
    report(tmp_path, "n1", ["ib0"])
    report(tmp_path, "n2", ["eth1"])
    assert judged(tmp_path, "n1,n2")[1][-1] == "n2 proj=ok cpus=4"


def test_bad_and_silent_nodes_are_named(tmp_path: Path) -> None:
    report(tmp_path, "n1", ["eth0"])
    report(tmp_path, "n2", ["eth0"], "the code /c is not here", "/r is not writable")
    code, lines = judged(tmp_path, "n1,n2,n3")
    assert code == 1
    assert lines[2] == "n3 no report within 9 s"
    assert lines[-1] == "n2: the code /c is not here; n2: /r is not writable; n3: no report within 9 s"


def arguments(tmp_path: Path, **given: object) -> Namespace:
    folder = tmp_path / "run" / "preflight" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    values = {"folder": str(folder), "code": "", "python": sys.executable, "imports": "", "gpus": 0}
    values.update(image="", mounts="", runtime="", enter=[])
    return Namespace(**{**values, **given})


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the script exports for a job with a container."""
    monkeypatch.setenv("RANKZERO_RUNTIME", "/runtime")
    monkeypatch.setenv("RANKZERO_CLEARED", "LD_PRELOAD PYTHONPATH")


def test_a_fit_node_reports_versions_and_has_no_problem(preflight: ModuleType, tmp_path: Path) -> None:
    columns, problems = preflight.examine(
        arguments(tmp_path, imports="json", code=str(tmp_path)), {"eth0": "10.0.0.1", "ib0": "x"}
    )
    assert problems == []
    assert columns["proj"] == columns["env"] == columns["run"] == "ok"
    assert columns["python"].startswith("3.") and columns["json"]
    assert columns["if"] == "ib0,eth0"
    assert columns["free"].endswith("G")


@pytest.mark.parametrize(
    ("given", "column", "problem"),
    [
        ({"code": "/nowhere/at/all"}, "proj", "the code /nowhere/at/all is not here"),
        ({"python": "/nowhere/python"}, "env", "environment: /nowhere/python: No such file or directory"),
        ({"imports": "no_such_module_here"}, "env", "No module named 'no_such_module_here'"),
        ({"image": "/nowhere.sqsh"}, "image", "the image /nowhere.sqsh is not here"),
        ({"mounts": "/:/nowhere/a:/nowhere/b"}, "mounts", "to be mounted, but not here: /nowhere/a, /nowhere/b"),
        ({"image": __file__, "runtime": "pyxis"}, "image", f"the image {__file__} is no squashfs, which pyxis needs"),
        ({"enter": ["/nowhere/apptainer"], "runtime": "apptainer"}, "apptainer", "/nowhere/apptainer: No such file"),
    ],
)
def test_what_is_missing_is_said(
    preflight: ModuleType, tmp_path: Path, given: dict[str, str], column: str, problem: str, inside: None
) -> None:
    columns, problems = preflight.examine(arguments(tmp_path, **given), {})
    assert columns[column] == "missing"
    assert len(problems) == 1 and problem in problems[0]


def container(tmp_path: Path, text: str) -> list[str]:
    """A command that enters a container which says `text`."""
    command = tmp_path / "enter"
    command.write_text(f"#!/bin/sh\n{text}\n")
    command.chmod(0o755)
    return [str(command), "--"]


def test_image_mounts_and_what_is_in_the_container_are_looked_at(
    preflight: ModuleType, tmp_path: Path, inside: None
) -> None:
    image = tmp_path / "torch.sqsh"
    image.write_bytes(b"hsqs")
    enter = container(
        tmp_path, """[ -z "${PYTHONPATH:-}" ] && echo noise && echo '{"columns": {"torch": "2"}, "problems": []}'"""
    )
    given = arguments(tmp_path, image=str(image), mounts=f"{tmp_path}:/", runtime="pyxis", enter=enter)
    columns, problems = preflight.examine(given, {})
    assert problems == []
    assert (columns["image"], columns["mounts"], columns["pyxis"], columns["torch"]) == ("ok", "ok", "ok", "2")
    assert not {"image", "mounts", "pyxis", "torch"} & set(preflight.examine(arguments(tmp_path), {})[0])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("""echo '{"columns": {}, "problems": ["no torch"]}'""", "the container: no torch"),
        ("echo first >&2; echo '[rankzero] last' >&2; exit 7", "the container does not start: first; last"),
        ("exit 7", "the container does not start: exit code 7"),
        ("echo '{}'", "the container does not start: {}"),
    ],
)
def test_a_container_that_will_not_do_is_a_problem(
    preflight: ModuleType, tmp_path: Path, inside: None, text: str, problem: str
) -> None:
    given = arguments(tmp_path, runtime="oci", enter=container(tmp_path, text))
    columns, problems = preflight.examine(given, {})
    assert (columns["oci"], problems) == ("missing", [problem])


def test_cpus_and_gpus_are_columns(preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few of them are binding.py's to judge: by task."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(preflight.os, "sched_getaffinity", lambda _pid: {0, 1, 2})
    columns, problems = preflight.examine(arguments(tmp_path, gpus=4), {})
    assert (columns["cpus"], columns["gpus"], problems) == ("3", "2", [])


def test_a_refused_connection_proves_the_way_and_an_unanswered_one_does_not(
    preflight: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert preflight.carries("lo", "127.0.0.1", "127.0.0.1")

    class Dead(socket.socket):
        def connect(self, _address: object) -> None:
            raise TimeoutError

    monkeypatch.setattr(preflight.socket, "socket", Dead)
    assert not preflight.carries("lo", "127.0.0.1", "127.0.0.1")


def test_a_node_uses_only_what_reaches_the_first_node(
    preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = tmp_path / "head.addresses"
    head.write_text(json.dumps({"eth0": "10.0.0.1", "ib0": "10.1.0.1"}))
    monkeypatch.setattr(preflight, "carries", lambda name, _source, _target: name != "ib0")
    own = {"eth0": "10.0.0.2", "eth9": "10.9.0.2", "ib0": "10.1.0.2"}
    assert preflight.usable(own, str(head), False) == ["eth0"]
    assert preflight.usable(own, str(head), True) == ["ib0", "eth0", "eth9"]
    monkeypatch.setattr(preflight, "HEAD_SECONDS", 0.0)
    assert preflight.usable(own, str(tmp_path / "none"), False) == []


def test_a_job_shows_the_table_and_all_ranks_get_the_chosen_interface(site: Site) -> None:
    job = site.job({"resources": {"nodes": 1}})
    assert job.finish() == 0, job.log()
    table = (job.run / "preflight" / "0" / "table").read_text().splitlines()
    assert "env=ok run=ok" in table[0]
    chosen = table[-1].removeprefix("interface ")
    environment = job.seen()["env"]
    if table[-1].startswith("interface "):  # a machine without a network has none to choose
        assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == chosen
    assert "[preflight] " in job.log()


def test_a_node_that_lacks_a_module_ends_the_job_before_any_rank_starts(site: Site) -> None:
    job = site.job({"preflight": {"imports": ["no_such_module_here"]}})
    assert job.finish() == 69
    outcome = json.loads((job.run / "outcome.json").read_text())
    assert not outcome["success"]
    assert "preflight: localhost: environment: " in outcome["message"]
    assert "no_such_module_here" in outcome["message"]
    assert not list((job.run / "logs" / "0").glob("rank-*"))
