# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight: what a node reports, what the first node concludes, and what the job does about it."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS, Starter
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.harness import ENVIRONMENT_KEY, Job, Site, runtime_parts

PROGRAM = os.path.join(RUNTIME, "preflight", "program.py")


@pytest.fixture(scope="module")
def preflight() -> Iterator[ModuleType]:
    with runtime_parts("preflight.program") as part:
        yield part


@pytest.fixture(scope="module")
def network() -> Iterator[ModuleType]:
    with runtime_parts("preflight.network") as part:
        yield part


def arguments(tmp_path: Path, **given: object) -> Namespace:
    folder = tmp_path / "run" / "preflight" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    values = {"folder": str(folder), "code": "", "sealed": "", "python": sys.executable, "imports": "", "gpus": 0}
    values.update(image="", mounts="", runtime="", enter=[], gpu_health="off", free_run=0, free_tmp=0)
    return Namespace(**{**values, **given})


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the script exports for a job with a container."""
    monkeypatch.setenv("RANKZERO_RUNTIME", "/runtime")
    monkeypatch.setenv("RANKZERO_CLEARED", "LD_PRELOAD PYTHONPATH")


def examined(preflight: ModuleType, given: Namespace, own: Mapping[str, str] = {}) -> tuple[dict[str, str], list[str]]:
    report = preflight.examine(given, own)
    return report["columns"], report["problems"]


def test_a_fit_node_reports_versions_and_has_no_problem(preflight: ModuleType, tmp_path: Path) -> None:
    given = arguments(tmp_path, imports="json", code=str(tmp_path), free_run=1, free_tmp=1)
    columns, problems = examined(preflight, given, {"eth0": "10.0.0.1", "ib0": "x"})
    assert problems == []
    assert columns["proj"] == columns["env"] == columns["run"] == "ok"
    assert columns["python"].startswith("3.") and columns["json"]
    assert columns["if"] == "ib0,eth0"
    assert columns["free"][-1] in "MGT" and columns["tmp"][-1] in "MGT"


@pytest.mark.parametrize(
    ("given", "column", "problem"),
    [
        ({"code": "/nowhere/at/all"}, "proj", "the code /nowhere/at/all is not here"),
        ({"python": "/nowhere/python"}, "env", "environment: /nowhere/python: No such file or directory"),
        ({"imports": "no_such_module_here"}, "env", "No module named 'no_such_module_here'"),
        ({"imports": "json ?no_such:torchrun"}, "env", f"environment: {sys.prefix} has no Python package no_such,"),
        ({"image": "/nowhere.sqsh"}, "image", "the image /nowhere.sqsh is not here"),
        (
            {"mounts": "/:/nowhere/a:/nowhere/b"},
            "mounts",
            "mount sources missing on this node: /nowhere/a, /nowhere/b",
        ),
        (
            {"image": __file__, "runtime": "pyxis"},
            "image",
            f"the image {__file__} is not a squashfs file, which pyxis needs",
        ),
        ({"enter": ["/nowhere/apptainer"], "runtime": "apptainer"}, "apptainer", "/nowhere/apptainer: No such file"),
    ],
)
def test_what_is_missing_is_said(
    preflight: ModuleType, tmp_path: Path, given: dict[str, str], column: str, problem: str, inside: None
) -> None:
    columns, problems = examined(preflight, arguments(tmp_path, **given))
    assert columns[column] == "missing"
    assert len(problems) == 1 and problem in problems[0]


def test_too_little_room_is_a_problem_and_that_of_tmp_the_nodes_own(
    preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    report = preflight.examine(arguments(tmp_path, free_run=1 << 60, free_tmp=1 << 60), {})
    run = f"{tmp_path / 'run'} has less than 1048576T free (preflight.free_run)"
    tmp = f"{tmp_path} has less than 1048576T free (preflight.free_tmp)"
    assert (report["problems"], report["ailments"]) == ([run, tmp], [tmp])
    status = os.statvfs(tmp_path)
    full = Namespace(**{name: getattr(status, name) for name in dir(status) if name.startswith("f_")})
    full.f_files, full.f_favail = 1000, 0
    monkeypatch.setattr(preflight.os, "statvfs", lambda _path: full)
    assert preflight.room("/x", 1)[1] == "/x has no inode left"
    assert preflight.room("/x", 0)[1] is None
    monkeypatch.undo()
    assert preflight.room("/nowhere/at/all", 1) == ("unknown", "/nowhere/at/all: No such file or directory")


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
    columns, problems = examined(preflight, given)
    assert problems == []
    assert (columns["image"], columns["mounts"], columns["pyxis"], columns["torch"]) == ("ok", "ok", "ok", "2")
    assert not {"image", "mounts", "pyxis", "torch"} & set(examined(preflight, arguments(tmp_path))[0])


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
    columns, problems = examined(preflight, given)
    assert (columns["oci"], problems) == ("missing", [problem])


def test_cpus_and_gpus_are_columns(preflight: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few of them are binding.py's to judge: by task."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(preflight.os, "sched_getaffinity", lambda _pid: {0, 1, 2})
    columns, problems = examined(preflight, arguments(tmp_path, gpus=4))
    assert (columns["cpus"], columns["gpus"], problems) == ("3", "2", [])


def test_a_refused_connection_proves_the_way_and_an_unanswered_one_does_not(
    network: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert network.carries("lo", "127.0.0.1", "127.0.0.1")

    class Dead(socket.socket):
        def connect(self, _address: object) -> None:
            raise TimeoutError

    monkeypatch.setattr(network.socket, "socket", Dead)
    assert not network.carries("lo", "127.0.0.1", "127.0.0.1")


def test_a_node_uses_only_what_reaches_each_node_that_may_become_the_first(
    network: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, address in (("n1", "10.1.0.1"), ("n2", "10.1.0.2")):
        (tmp_path / "heads").mkdir(exist_ok=True)
        (tmp_path / "heads" / f"{name}.addresses").write_text(json.dumps({"eth0": "10.0.0.1", "ib0": address}))
    monkeypatch.setattr(network, "carries", lambda name, _source, target: name != "ib0" or target == "10.1.0.2")
    own = {"eth0": "10.0.0.3", "eth9": "10.9.0.3", "ib0": "10.1.0.3"}
    found = network.usable(own, "n3", ["n1", "n2", "n3"], str(tmp_path))
    assert found == {"n1": ["eth0"], "n2": ["ib0", "eth0"], "n3": ["ib0", "eth0", "eth9"]}
    monkeypatch.setattr(network, "HEAD_SECONDS", 0.0)
    assert network.usable(own, "n3", ["silent"], str(tmp_path)) == {"silent": []}


def test_a_fast_interface_is_known_by_its_link_its_name_or_its_rdma_adapter(
    network: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RoCE has ordinary names: its adapter says which interfaces it serves, also those that a bond consists of."""
    monkeypatch.setattr(network, "SYSFS", str(tmp_path))
    speeds = {"ibs1": -1, "hsn0": 200000, "eno1": 25000, "ens1f0": 400000, "bond0": 0}
    for name, speed in speeds.items():
        (tmp_path / "net" / name).mkdir(parents=True)
        (tmp_path / "net" / name / "type").write_text("32\n" if name == "ibs1" else "1\n")
        (tmp_path / "net" / name / "speed").write_text(f"{speed}\n")
    (tmp_path / "net" / "bond0" / "lower_ens2f0").mkdir()
    for adapter, names in (("mlx5_0", ["eno1"]), ("mlx5_1", ["ens1f0"]), ("mlx5_2", ["ens2f0"]), ("cxi_0", [])):
        for name in names:
            (tmp_path / "infiniband" / adapter / "device" / "net" / name).mkdir(parents=True)
    names = ["bond0", "em4", "eno1", "ens1f0", "hsn0", "ibs1"]
    assert network.rules(names) == {
        "ibs1": "InfiniBand",
        "hsn0": "a name of fast networks",
        "eno1": "RDMA adapter mlx5_0",
        "ens1f0": "RDMA adapter mlx5_1",
        "bond0": "RDMA adapter mlx5_2 of ens2f0",
    }
    assert network.fastest_first(names) == ["hsn0", "ibs1", "ens1f0", "eno1", "bond0", "em4"]


def test_a_job_shows_the_table_and_all_ranks_get_the_chosen_interface(site: Site) -> None:
    job = site.job({"resources": {"nodes": 1}})
    assert job.finish() == 0, job.log()
    table = (job.run / "preflight" / "0" / "table").read_text().splitlines()
    assert "env=ok run=ok" in table[0]
    chosen = table[-1].removeprefix("interface ").partition(" ")[0]
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


@pytest.mark.parametrize("starter", [row for row in STARTERS if row.packages], ids=lambda starter: starter.kind)
def test_a_launcher_without_its_package_starts_no_rank(site: Site, starter: Starter) -> None:
    """The Python of the environment has no site packages, so nothing but the standard library."""
    site.environment()
    python = site.store / "environments" / ENVIRONMENT_KEY / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n', encoding="utf-8")
    job = site.job({"launcher": {"kind": starter.kind}}, environment=True)
    assert job.finish() == 69
    message = json.loads((job.run / "outcome.json").read_text())["message"]
    assert "preflight: localhost: environment: " in message and f"launcher.kind {starter.kind} needs" in message
    assert f"add {', '.join(starter.packages)} to" in message
    assert not list((job.run / "logs" / "0").glob("rank-*"))


# --- back into the queue


def requeuing(site: Site, answers: Mapping[str, str], sinfo: str = "localhost\nn2\nn3\n") -> None:
    """A scontrol whose verbs answer as given, beside what the harness's own one says; what it was asked is kept."""
    cases = "".join(f"{verb}) {answer} ;; " for verb, answer in answers.items())
    site.functions["scontrol"] = (
        f'echo "$*" >> {site.root}/scontrol; case "$1" in {cases}esac; '
        'case "$2" in hostnames) echo "$3" | tr , "\\n" ;; '
        'job) echo "JobId=1 ReqNodeList=(null) ExcNodeList=n9 x=y" ;; *) echo "NodeAddr=192.0.2.7" ;; esac'
    )
    site.functions["sinfo"] = f"printf {shlex.quote(sinfo)}"
    site.functions["scancel"] = f'echo "$*" >> {site.root}/scancel'


def unfit(site: Site, **checkpoint: Any) -> Job:
    """A job on a node whose /tmp is never big enough: nobody else's fault."""
    wanted = {"on_failure": "requeue", "free_tmp": "900000T"}
    return site.job({"preflight": wanted, "checkpoint": checkpoint, "env": {"A": "1"}}, secrets={"S": "x"})


@pytest.mark.parametrize("where", ["env", "setup"])
def test_a_home_of_python_that_is_none_is_named_before_the_ranks(site: Site, tmp_path: Path, where: str) -> None:
    """What the collection starts ignores PYTHONHOME, so only the ranks would fail, each with a page of text."""
    given = {"env": {"PYTHONHOME": str(tmp_path)}, "setup": {"commands": [f"export PYTHONHOME={tmp_path}"]}}
    job = site.job({where: given[where]})
    assert job.finish() == 69, job.log()
    assert f"does not start with PYTHONHOME={tmp_path}" in job.outcome()["message"]


PLACE = {"SLURM_JOB_PARTITION": "batch", "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "localhost"}
REASON = "/tmp has less than 900000T free (preflight.free_tmp)"


def test_a_job_excludes_the_node_between_requeue_and_its_own_end(site: Site) -> None:
    requeuing(site, {"requeue": "exit 0", "update": "exit 0"})
    job = unfit(site)
    assert job.finish(**PLACE) == 69
    asked = (site.root / "scontrol").read_text().splitlines()
    assert asked[-2:] == ["requeue 1", "update JobId=1 ExcNodeList=n9,localhost"]
    outcome = job.outcome()
    assert (outcome["ended_by"], outcome["success"]) == ("requeue", False)
    assert outcome["message"] == (
        f"preflight: localhost: {REASON}; requeued without localhost: attempt 2 of at most 6 follows"
    )
    assert outcome["unfit_nodes"] == {"localhost": REASON}
    # The next attempt needs them.
    assert (job.run / "secrets.env").exists()
    (file,) = site.state.glob("clusters/lab/nodes/*.json")
    remembered = json.loads(file.read_text())
    assert (file.name, remembered["reason"], remembered["job_id"]) == ("localhost.json", REASON, "1")
    assert remembered["expires"] - remembered["time"] == 86400


@pytest.mark.parametrize(
    ("answers", "sinfo", "attempt", "said"),
    [
        ({}, "localhost\nn2\n", 5, "not requeued: this was attempt 6 of at most 6 (checkpoint.max_restarts)"),
        ({}, "localhost\nn9\nn2\n", 0, ""),
        ({}, "localhost\nn9\n", 0, ""),  # Slurm knows more than a sinfo that lists nothing else
        (
            {"show": 'if [ "$2" = job ]; then echo "JobId=1 ReqNodeList=localhost,n2 ExcNodeList=(null) "; exit; fi'},
            "localhost\nn2\n",
            0,
            "not requeued: the job asks for localhost,n2 by name (resources.sbatch.nodelist)",
        ),
        (
            {"requeue": "echo 'Requested operation is presently disabled' >&2; exit 1"},
            "localhost\nn2\n",
            0,
            "Slurm did not requeue the job: Requested operation is presently disabled",
        ),
        (
            {"requeue": "exit 0", "update": "echo 'Access/permission denied' >&2; exit 1"},
            "localhost\nn2\n",
            0,
            "cancelled: Slurm requeued the job, but did not exclude localhost: Access/permission denied",
        ),
    ],
)
def test_why_a_job_does_not_go_back_into_the_queue(
    site: Site, answers: dict[str, str], sinfo: str, attempt: int, said: str
) -> None:
    requeuing(site, {"requeue": "exit 0", "update": "exit 0", **answers}, sinfo)
    job = unfit(site)
    assert job.finish(attempt=attempt, **PLACE) == 69
    outcome = job.outcome()
    assert outcome["ended_by"] == ("setup" if said else "requeue")
    if said:
        assert outcome["message"] == f"preflight: localhost: {REASON}; {said}"
    assert (site.root / "scancel").exists() is said.startswith("cancelled")


@pytest.mark.parametrize(("policy", "requeue"), [("requeue", 1), ("replace", 1), ("replace", 0)])
def test_what_a_preemption_ends_is_no_fault_of_the_node(site: Site, policy: str, requeue: int) -> None:
    shown = f"JobId=1 Requeue={requeue} StartTime=2026-01-01T10:00:00 PreemptTime=2026-01-01T10:00:05 x=y"
    requeuing(site, {"requeue": "exit 0", "--oneliner": f"echo '{shown}'; exit 0"})
    job = site.job({"preflight": {"on_failure": policy, "free_tmp": "900000T"}})
    assert job.finish(**PLACE) == 143
    outcome = job.outcome()
    assert (outcome["ended_by"], outcome["success"]) == ("signal", False)
    assert outcome["message"].startswith("preempted by a job of a higher priority; ")
    asked = (site.root / "scontrol").read_text()
    assert ("requeue 1" in asked, "ExcNodeList=" in asked) == (bool(requeue), False)
    assert not (site.state / "clusters").exists()


def test_a_job_that_needs_more_nodes_than_are_left_says_so(site: Site) -> None:
    requeuing(site, {"requeue": "exit 0"}, "localhost\nn2\nn3\n")
    job = unfit(site)
    job.finish(**{**PLACE, "SLURM_JOB_NUM_NODES": "3"})
    assert job.outcome()["message"].endswith(
        "not requeued: without n9,localhost partition batch has 2 nodes, and the job needs 3"
    )


@pytest.mark.parametrize(("exclude_for", "more"), [(0, {}), (60, {"RANKZERO_ATTACHED": "1.4"})])
def test_nothing_is_remembered_where_nothing_shall_be(site: Site, exclude_for: int, more: dict[str, str]) -> None:
    """Inside another job it may be that job which fills the node's /tmp."""
    job = site.job({"preflight": {"free_tmp": "900000T", "exclude_for": exclude_for}})
    assert job.finish(**PLACE, **more) == 69
    assert job.outcome()["unfit_nodes"] == {"localhost": REASON}
    assert not (site.state / "clusters").exists()
