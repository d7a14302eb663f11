# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A class on real clusters: students with logins of their own, and a lab without accounting, made by one command.

The course with real torch is in test_example_cpu_ddp_lab.py; here the program is a few lines that need no package.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster
from tests.cluster.conftest import LabCluster, instance_name, lab_of
from tests.cluster.launching import Site

pytestmark = pytest.mark.needs_root("the teacher administers Slurm's accounts, and reads the files of the students")

PROGRAM = """
import json, os, pathlib, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
began = time.monotonic()
pathlib.Path(f"rank.{rank}").write_text(f"{rank} {world} {socket.gethostname()}")
while rank == 0 and len(list(pathlib.Path().glob("rank.*"))) < world:
    time.sleep(0.05)
if rank == 0:
    time.sleep(0.2)
    said = sorted((p.read_text().split() for p in pathlib.Path().glob("rank.*")), key=lambda words: int(words[0]))
    pathlib.Path("model.pt").write_text("weights")
    result = {
        "world_size": world,
        "ranks": [int(words[0]) for words in said],
        "world_size_proven": [words[:2] for words in said] == [[str(n), str(world)] for n in range(world)],
        "models_identical": True,
        "hosts": sorted({words[2] for words in said}),
        "epochs": 10,
        "seconds_per_epoch": (time.monotonic() - began) / 10,
    }
    pathlib.Path("result.json.tmp").write_text(json.dumps(result))
    os.replace("result.json.tmp", "result.json")
"""


def job_of(site: Site, nodes: int) -> dict[str, Any]:
    (site.folder / "code" / "fit.py").write_text(PROGRAM)
    return {
        "name": "fit",
        "command": ["python3", "fit.py"],
        "code": {"src": str(site.folder / "code")},
        "resources": {"nodes": nodes, "time": "00:05:00", "memory": "100M"},
        "launcher": {"kind": "srun", "ranks_per_node": 2},
        "artifact": {"path": "result.json", "require": {"world_size_proven": {"eq": "true"}}},
    }


def course(site: Site, *arguments: str, playbook: str = "course", **variables: Any) -> Any:
    return site.play(None, *arguments, playbook=f"rankzero.slurm.{playbook}", **variables)


def hand_in_as_nobody(site: Site, given: dict[str, Any]) -> str:
    """Files that Ansible's local connection would write belong to root, who runs the test: so root brings the code.
    Returns the id of the job.
    """
    site.launch(job_of(site, 2), launch_cluster={**given, "state_root": site.state_root})
    home = site.host_path(given["state_root"]).parent
    site.lab.head(["chown", "-R", "nobody:", f"{Path(given['state_root']).parent}"])
    assert home.owner() == "nobody"
    options = {"ansible_shell_executable": site.ordinary_user(), "env": {"ANSIBLE_PIPELINING": "1"}}
    launch = site.launch(job_of(site, 2), launch_cluster=given, **options)
    assert site.outcome(launch)["success"]
    site.ended(launch["job_id"])
    return str(launch["job_id"])


def lose_the_name(site: Site, job_id: str) -> None:
    """A row as slurmdbd makes it when it hears of the batch step before the job: named for nothing, with one node."""
    table, (node, *_others) = f"slurm_acct_db.`{site.lab.cluster_name}_job_table`", site.lab.nodes
    spoilt = f"update {table} set job_name='allocation', nodelist='{node}' where id_job={job_id}"
    site.lab.head(["mariadb", "--execute", spoilt])
    shown = site.lab.head(
        ["sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={job_id}", "--format=JobName"]
    )
    assert shown.stdout.split() == ["allocation"]


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_a_student_with_a_login_of_his_own_hands_in_and_edits(site: Site) -> None:
    """nobody is a student: his folder is his, accounting knows him, and what he does after the end is seen."""
    name = f"own-{site.token}"
    root = f"{site.lab.shared_inside}/{name}"
    class_: dict[str, Any] = {
        "course_name": name,
        "course_root": root,
        "course_mode": "accounts",
        "course_students": ["nobody", "daemon"],
        "course_limits": {"nodes": 4},
    }
    made = course(site, **class_)
    assert made.rc == 0, made.output
    assert "not done: limits: written down, but Slurm does not enforce them here" in made.output
    try:
        given = json.loads((site.host_path(root) / "vars" / "nobody.json").read_text())["launch_cluster"]
        job_id = hand_in_as_nobody(site, given)
        check: dict[str, Any] = {
            "course_root": root,
            "course_job": "fit",
            "course_nodes": [2],
            "course_dest": str(site.folder / "checkoff"),
            "course_clock_slack": 1,
        }
        checked = course(site, playbook="checkoff", **check)
        assert checked.rc == 0, checked.output
        nobody, daemon = rows(site.folder / "checkoff" / f"{name}.csv")
        assert (nobody["student"], nobody["result"], nobody["passed"]) == ("nobody", "passed", "6"), checked.output
        assert (daemon["result"], daemon["job_2"]) == ("failed", "")
        told = json.loads((site.folder / "checkoff" / f"{name}.json").read_text())
        evidence = [one["text"] for one in told["students"][0]["tasks"][0]["evidence"] if one["source"] == "slurm"]
        assert {"user nobody", f"account {name}-nobody", "nodes 2"} <= set(evidence)

        lose_the_name(site, job_id)
        named = course(site, "-e", "students=nobody", playbook="checkoff", **check)
        assert re.search(r"nobody +2 +\d+ +ok +ok +ok +ok +ok +ok +passed 6 of 6", named.output), named.output

        (run,) = site.host_path(given["state_root"]).glob("runs/fit/*/1")
        (log,) = (run / "logs" / "0").glob("rank-0003.log")
        site.lab.head(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c",
                       'sleep 2; echo "accuracy 100 %" >> "$1"; touch -d "1 hour ago" "$1"', "sh",
                       f"{given['state_root']}/{log.relative_to(site.host_path(given['state_root']))}"])  # fmt: skip
        edited = course(site, "-e", "students=nobody", "-e", "evidence=true", playbook="checkoff", **check)
        assert re.search(r"nobody +2 +\d+ +ok +ok +ok +FAIL +FAIL +ok +failed 4 of 6", edited.output), edited.output
        assert "rank-0003.log changed, " in edited.output and "(file system)" in edited.output
        # A look at some of the class leaves the tables of all as they are.
        assert [row["result"] for row in rows(site.folder / "checkoff" / f"{name}.csv")] == ["passed", "failed"]
    finally:
        gone = course(site, "-e", "course_state=absent", **class_)
        assert gone.rc == 0, gone.output
        assert (site.host_path(root) / "students" / "nobody" / "state").is_dir()
        shutil.rmtree(site.host_path(root))
    left = site.lab.head(["sacctmgr", "--noheader", "--parsable2", "show", "account", "format=account"]).stdout
    assert name not in left


@pytest.fixture
def bare(tmp_path: Path) -> Any:
    """A lab without accounting that only the course's own playbook makes; removed at the end."""
    this = lab_of(instance_name("bare"), nodes=2, gpus=0, accounting="none", internet=False)
    cluster.apply(this, "absent")
    try:
        yield this
    finally:
        cluster.apply(this, "absent")


# The course with accounting: above, and in test_example_cpu_ddp_lab.py.
@pytest.mark.more
def test_one_command_on_a_lab_without_accounting(bare: Any, site: Site) -> None:
    settings = {
        "lab": bare.name,
        "lab_cluster_accounting": "none",
        "lab_cluster_nodes": 2,
        "lab_cluster_gpus": 0,
        "lab_cluster_internet": False,
        "lab_cluster_install": False,
        "lab_cluster_slurm": bare.slurm,
        "course_root": "/shared/course",
        "course_students": "ada,ben",
        "course_limits": {"nodes": 1},
        "course_exercise": str(site.folder / "code"),
    }
    nowhere = site.folder / "empty.yml"
    nowhere.write_text("all: {}\n")
    made = course(site, inventory=nowhere, **settings)
    assert made.rc == 0, made.output
    assert "not done: accounts and limits: this cluster keeps no accounting" in made.output
    this = LabCluster(bare)
    assert (this.shared / "course" / "exercise" / "README").is_file()
    given = json.loads((this.shared / "course" / "vars" / "ada.json").read_text())["launch_cluster"]
    assert "resources" not in given
    site.cluster = given
    launched = site.play(job_of(site, 2), inventory=this.inventory, wait=True)
    assert launched.rc == 0, launched.output
    # ben has a copy of what ada has done.
    students = this.shared / "course" / "students"
    shutil.copytree(students / "ada" / "state", students / "ben" / "state", symlinks=True)
    check: dict[str, Any] = {"course_root": "/shared/course", "course_job": "fit", "course_nodes": [2]}
    checked = course(site, inventory=this.inventory, playbook="checkoff", **check, course_dest=str(site.folder))
    assert "This cluster has no accounting" in checked.output
    # The queue still remembers the job, and is Slurm's word, too.
    ada, ben = rows(site.folder / "ddp.csv")
    assert (ada["result"], ada["record_2"]) == ("passed", "passed"), checked.output
    assert (ben["result"], ben["record_2"]) == ("failed", "failed")
    assert "working directory is /shared/course/students/ada/state/runs/fit/" in checked.output
