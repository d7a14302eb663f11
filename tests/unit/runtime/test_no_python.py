# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A first node without a Python: the verdict names it, later launches leave it out, and the job goes elsewhere."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import excluded_nodes
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.harness import Job, Site
from tests.unit.runtime.test_preflight import PLACE, requeuing

MESSAGE = "no python3 on localhost, where the batch script runs: install it, or give the job an environment"
FOLLOWS = "requeued without localhost: attempt 2 of at most 6 follows"


@pytest.fixture(autouse=True)
def no_python(site: Site) -> None:
    site.functions["command"] = 'case "$*" in *python*) return 1 ;; *) builtin command "$@" ;; esac'


def verdict(job: Job) -> dict[str, Any]:
    """As the controller reads it."""
    return RunDirectory(str(job.run)).outcome() or {}


def state(run: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in run.iterdir() if path.is_file()}


def test_the_verdict_names_the_node_and_the_remedy_and_later_launches_leave_it_out(site: Site) -> None:
    job = site.job({"env": {"A": "1"}}, secrets={"S": "x"})
    assert job.finish(**PLACE) == 78
    found = verdict(job)
    assert (found["message"], found["unfit_nodes"]) == (MESSAGE, {"localhost": "no python3"})
    assert (found["ended_by"], found["exit_code"], found["success"]) == ("setup", 78, False)
    assert (found["job_id"], found["attempt"]) == ("1", 0)
    assert not (job.run / "secrets.env").exists()
    (left_out,) = excluded_nodes.load(str(site.state), "lab", found["time"] + 1)
    assert (left_out.node, left_out.reason, left_out.job_id) == ("localhost", "no python3", "1")
    excluded_nodes.forget(str(site.state), "lab", "localhost")
    assert not excluded_nodes.any_recorded(str(site.state))


@pytest.mark.parametrize(("exclude_for", "more"), [(0, {}), (60, {"RANKZERO_ATTACHED": "1.4"})])
def test_nothing_is_remembered_where_nothing_shall_be(site: Site, exclude_for: int, more: dict[str, str]) -> None:
    job = site.job({"preflight": {"exclude_for": exclude_for}})
    assert job.finish(**PLACE, **more) == 78
    assert verdict(job)["message"] == MESSAGE
    assert not (site.state / "clusters").exists()


@pytest.mark.parametrize(
    ("answers", "sinfo", "attempt", "ending"),
    [
        ({}, "localhost\nn9\nn2\n", 0, FOLLOWS),
        ({}, "localhost\nn9\n", 0, FOLLOWS),
        ({}, "localhost\nn2\n", 5, "not requeued: this was attempt 6 of at most 6 (checkpoint.max_restarts)"),
        (
            {"show": 'if [ "$2" = job ]; then echo "JobId=1 ReqNodeList=localhost,n2 ExcNodeList=(null) "; exit; fi'},
            "localhost\nn2\n",
            0,
            "not requeued: the job asks for localhost,n2 by name (resources.sbatch.nodelist)",
        ),
        ({"requeue": "echo disabled >&2; exit 1"}, "localhost\nn2\n", 0, "Slurm did not requeue the job: disabled"),
        (
            {"update": "echo denied >&2; exit 1"},
            "localhost\nn2\n",
            0,
            "cancelled: Slurm requeued the job, but did not exclude localhost: denied",
        ),
    ],
)
def test_by_policy_the_job_goes_back_into_the_queue_without_it(
    site: Site, answers: dict[str, str], sinfo: str, attempt: int, ending: str
) -> None:
    requeuing(site, {"requeue": "exit 0", "update": "exit 0", **answers}, sinfo)
    job = site.job({"preflight": {"on_failure": "requeue"}})
    assert job.finish(attempt=attempt, **PLACE) == 69
    found = verdict(job)
    assert found["message"] == f"{MESSAGE}; {ending}"
    assert found["ended_by"] == ("requeue" if ending == FOLLOWS else "setup")
    asked = (site.root / "scontrol").read_text()
    assert ("update JobId=1 ExcNodeList=n9,localhost" in asked) is (ending == FOLLOWS or "denied" in ending)
    assert (site.root / "scancel").exists() is ending.startswith("cancelled")


def test_a_partition_with_too_few_other_nodes_is_said(site: Site) -> None:
    requeuing(site, {"requeue": "exit 0"}, "localhost\nn2\nn3\n")
    job = site.job({"preflight": {"on_failure": "requeue"}})
    job.finish(**{**PLACE, "SLURM_JOB_NUM_NODES": "3"})
    assert verdict(job)["message"].endswith(
        "not requeued: without n9,localhost partition batch has 2 nodes, and the job needs 3"
    )


def test_the_next_attempt_runs_and_keeps_the_verdict_of_this_one(site: Site) -> None:
    requeuing(site, {"requeue": "exit 0", "update": "exit 0"})
    job = site.job({"preflight": {"on_failure": "requeue"}})
    assert job.finish(**PLACE) == 69
    del site.functions["command"]
    assert job.finish(attempt=1, **PLACE) == 0
    run = RunDirectory(str(job.run))
    assert verdict(job)["success"] is True
    assert run.before()[0]["outcome"]["message"] == f"{MESSAGE}; {FOLLOWS}"


def test_a_job_that_may_not_run_says_nothing_in_the_owners_place(site: Site) -> None:
    job = site.job({})
    (job.run / "claim").write_text("1 lab 77\n")
    before = state(job.run)
    assert job.finish(**PLACE) == 0
    assert "belongs to another job (1 lab 77)" in job.log()
    assert job.finish(job_id=2, by_hand=True, **PLACE) == 78
    (job.run / "claim").write_text("1 lab 3\n")
    (job.run / ".attempt").write_text("0\n")
    assert job.finish(job_id=3, **PLACE) == 75
    assert "has begun before" in job.log(3)
    for name in ("claim", ".attempt"):
        (job.run / name).unlink()
    del before["claim"]
    assert state(job.run) == before


def test_a_newer_generation_and_a_link_in_the_place_of_a_file_stop_it(site: Site) -> None:
    job = site.job({})
    newer = site.job({}, generation=2).run
    assert job.finish(**PLACE) == 75
    for name in ("launch.json", "journal.jsonl"):
        (newer / name).unlink()
    os.symlink("/nowhere", job.run / "no-python")
    assert job.finish(**PLACE) == 77
    assert not (job.run / "claim").exists()


def test_a_job_that_was_handed_on_takes_the_claim_of_its_giver(site: Site) -> None:
    job = site.job({})
    (job.run / "claim").write_text("1 lab 1\n")
    assert job.finish(job_id=5, submission="chain:1", **PLACE) == 78
    assert (job.run / "claim").read_text() == "1 lab 5\n"
    assert verdict(job)["job_id"] == "5"


@pytest.mark.parametrize("name", ["job/conduct.py", "node/imports.py", "container/inside.py", "hook/sitecustomize.py"])
def test_what_the_jobs_own_python_reads_is_for_an_old_one(name: str) -> None:
    """The job's python3 may be older than the one that the runtime finds."""
    text = Path(RUNTIME, name).read_text(encoding="utf-8")
    assert "__future__" not in text
    tree = ast.parse(text, feature_version=(3, 6))
    names = ("list", "dict", "tuple", "set", "type")
    evaluated = [
        f"{note.lineno}: {ast.unparse(note)}"
        for node in ast.walk(tree)
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if note is not None and any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(note))
    ]
    assert not evaluated, "a Python of 3.6 evaluates it: write it as a string"


def test_a_python_that_is_too_old_says_so(tmp_path: Path) -> None:
    program = Path(RUNTIME, "job", "conduct.py")
    line = f"import runpy, sys; sys.version_info = (3, 6, 8); runpy.run_path({str(program)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", line, "", "job.sbatch", "--submission", "x"],
        env={
            "PATH": os.defpath,
            "SLURM_JOB_ID": "1",
            "SLURMD_NODENAME": "n1",
            "RANKZERO_RUN_DIR": str(tmp_path / "gone"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 66, done.stderr
    assert f"no python3 of at least 3.9 ({sys.executable} is 3.6) on n1" in done.stdout


def chosen(path: str, *names: str) -> str:
    """What a node of this PATH takes of these names."""
    line = f'. {RUNTIME}/start/python.sh; rankzero_python "$@"'
    words = ["/bin/bash", "-c", line, "sh", *names]
    done = subprocess.run(words, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout


def test_a_python3_that_leads_to_the_one_beside_it_is_not_asked(tmp_path: Path) -> None:
    """Nothing is started for it, on any node of any job."""
    asked = tmp_path / "asked"
    for name in ("python3.13", "readlink"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho >> {asked}\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python3").symlink_to("python3.13")
    assert chosen(str(tmp_path), "python3") == f"{tmp_path}/python3\n" and not asked.exists()
    # A manager of Pythons makes all its names of one file, whichever Python they lead to.
    (tmp_path / "python3").unlink()
    (tmp_path / "python3").hardlink_to(tmp_path / "python3.13")
    assert chosen(str(tmp_path), "python3") == f"{tmp_path}/python3.13\n" and asked.exists()


def test_a_newer_python_beside_an_old_python3_is_taken(tmp_path: Path) -> None:
    """By its own name in PATH: as on the systems whose python3 is 3.6."""
    links = {"python3": "python3.6", "python3.12": sys.executable, "python3.11": sys.executable}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    started = tmp_path / "started"
    (tmp_path / "python3.6").write_text(f'#!/bin/sh\necho "$*" > {started}\nexit 1\n', encoding="utf-8")
    (tmp_path / "python3.6").chmod(0o755)

    path = f"{tmp_path}:/bin"
    assert chosen(path, "python3") == f"{tmp_path}/python3.12\n" and not started.exists(), "its name says its version"
    assert chosen(path, "nowhere/python", "python3.11") == f"{tmp_path}/python3.11\n"
    # A wrapper's name says nothing: it is asked.
    (tmp_path / "python3").unlink()
    (tmp_path / "python3.6").rename(tmp_path / "python3")
    assert chosen(path, "python3") == f"{tmp_path}/python3.12\n" and started.exists()
    # Whoever notes the calls of a user's programs knows this one by the file that it names.
    assert f"{RUNTIME}/start/python.sh" in started.read_text(encoding="utf-8").split()
    assert chosen(str(tmp_path), "python3") == f"{tmp_path}/python3.12\n", "a node may have no readlink in PATH"
