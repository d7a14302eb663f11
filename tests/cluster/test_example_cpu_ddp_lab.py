# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU lab with real torch over Gloo, and the course around it: ada runs it on 5
and on 3 nodes, ben asks for a package that no node has, and the check-off tells them apart.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import EXAMPLES, Example, read_json


@pytest.fixture(scope="module")
def course(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    """The class of the example course, made by the teacher's fifteen lines on the session's lab."""
    place = tmp_path_factory.mktemp("course")
    Example(lab, "cpu_ddp_lab", place, root=True)  # the exercise that the teacher hands out
    made = Example(lab, "course", place, root=True)
    made.state_root = f"{lab.shared_inside}/course-{os.getpid()}"
    done = teach(made, "teacher.yml")
    assert done.returncode == 0, done.stdout
    yield made
    gone = teach(made, "rankzero.slurm.course", course_state="absent")
    assert gone.returncode == 0, gone.stdout
    made.remove()


def teach(course: Example, playbook: str, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
    """A playbook of the teacher. The lab is the session's, and the store that of all examples."""
    lab = {"name": course.lab.name, "slurm": course.lab.lab.slurm, "install": False}
    given = {
        **{f"lab_cluster_{name}": value for name, value in lab.items()},
        "course_root": course.state_root,
        "course_store": course.cluster["store_root"],
        **variables,
    }
    return course.play(*arguments, playbook=playbook, **given)


def hand_out(course: Example, folder: Path, student: str) -> Example:
    """A student's own copy of the exercise, whose runs go where his variables say."""
    made = Example(course.lab, "cpu_ddp_lab", folder / student, root=True)
    given = read_json(course.host_path(course.state_root) / "vars" / f"{student}.json")["launch_cluster"]
    made.cluster, made.state_root = given, given["state_root"]
    return made


@pytest.fixture
def example(course: Example, tmp_path: Path) -> Example:
    return hand_out(course, tmp_path, "ada")


def proven(example: Example, nodes: int, said: str, seen: str = "proj=ok env=ok") -> Path:
    """The run directory of the launch, with everything that every run must have left."""
    world = 2 * nodes
    run = [one for one in example.runs("ddp-lab") if read_json(one / "launch.json")["world_size"] == world][-1]
    result = read_json(run / "work" / "result.json")
    assert (result["world_size"], result["ranks"]) == (world, list(range(world)))
    assert result["world_size_proven"] and result["models_identical"] and result["model_saved"]
    assert len(result["hosts"]) == nodes
    assert (run / "work" / "model.pt").stat().st_size > 0
    job_id = read_json(run / "started.json")["job_id"]
    names = {path.name: path for path in (run / "logs" / "0").glob("*.out")}
    assert len(names) == world
    for rank in range(world):
        (path,) = [
            path for name, path in names.items() if re.fullmatch(rf"ddp-lab\.{job_id}\.node\d\d\.{rank}\.out", name)
        ]
        text = path.read_text(encoding="utf-8")
        host = path.name.split(".")[2]
        assert re.search(rf"^\[rankzero\] RANK={rank} .*WORLD_SIZE={world} .*host={host} ", text, re.MULTILINE)
        assert f"[RANK {rank}] WORLD_SIZE={world} host={host} threads=1\n" in text
    table = (run / "preflight" / "0" / "table").read_text(encoding="utf-8").splitlines()
    lines = [line for line in table if line.startswith("node")]
    assert sorted(line.split()[0] for line in lines) == sorted(result["hosts"])
    unfit = [line for line in lines if not (seen in line and f"torch={result['torch']}" in line)]
    assert not unfit
    # What the user sees: the followed rank's own lines, the check-off, the last losses.
    assert f"ranks     {world} of {world} started with WORLD_SIZE {world}" in said
    assert re.search(r"losses    \d+-\d+-\d+ [\d:]+ step \d+/30 loss 0\.\d+", said)
    assert "artifact  work/result.json is proven" in said
    return run


def test_five_nodes_without_the_bad_one(example: Example) -> None:
    done = example.play("-e", "nodes=5", "-e", "exclude=node02")
    assert done.returncode == 0, done.stdout
    run = proven(example, 5, done.stdout)
    assert "node02" not in read_json(run / "work" / "result.json")["hosts"]
    assert re.search(r"step 30/30 loss", done.stdout)


@pytest.mark.more
def test_three_nodes_that_see_neither_code_nor_environment(example: Example) -> None:
    """Only the login node sees the store: each node unpacks what it needs to its own disk, and leaves nothing. An
    environment of a few files does so in tests/cluster/test_launch_staging.py.
    """
    if example.lab.way != "realistic":
        pytest.skip("nodes of the simple way share the host's folders: nothing can be hidden from them")
    nodes = example.lab.nodes[3:6]
    store = example.cluster["store_root"]
    example.cluster.update(store_shared=False, local_dir="/var/tmp")
    example.host_path(store).mkdir(parents=True, exist_ok=True)
    hidden = []
    try:
        for node in nodes:
            example.lab.faults.hide(node, store)
            hidden.append(node)
        asked = {"resources.sbatch": {"nodelist": ",".join(nodes)}}
        done = example.play("-e", "nodes=3", launch_overrides=asked)
    finally:
        for node in hidden:
            example.lab.faults.unhide(node, store)
    assert done.returncode == 0, done.stdout
    proven(example, 3, done.stdout, seen="proj=staged env=staged")
    for node in nodes:
        gone = lambda node=node: "rankzero-0-" not in example.lab.node(node, ["ls", "/var/tmp"]).stdout  # noqa: E731
        example.lab.wait_until(gone, 60, f"{node} has removed its copies")


def compared(example: Example) -> None:
    """The epochs of both launches, beside each other."""
    done = example.play(playbook="rankzero.slurm.compare", launches="ddp-lab")
    assert done.returncode == 0, done.stdout
    rows = re.findall(r'^ +"(.+)",?$', done.stdout, re.MULTILINE)
    columns = {row.rsplit(None, 2)[0]: row.split()[-2:] for row in rows if len(row.split()) > 2}
    assert sorted(columns["nodes"]) == ["3", "5"] and sorted(columns["ranks"]) == ["10", "6"], done.stdout
    assert columns["epochs"] == ["30", "30"]
    seconds = [float(cell) for cell in columns["seconds_per_epoch"]]
    assert float(columns["speed-up (seconds_per_epoch)"][1]) == pytest.approx(seconds[0] / seconds[1], rel=0.02)
    assert columns["efficiency"][0] == "100%"


def check(course: Example, **variables: object) -> tuple[str, dict[str, dict[str, str]], dict[str, Any]]:
    """(what the teacher sees, the table for grading by student, all of it by student) of a check-off."""
    done = teach(course, "rankzero.slurm.checkoff", **variables)
    assert done.returncode == 0, done.stdout
    rows = csv.DictReader((course.folder / "checkoff" / "ddp.csv").read_text(encoding="utf-8").splitlines())
    told = read_json(course.folder / "checkoff" / "ddp.json")
    return done.stdout, {row["student"]: row for row in rows}, {one["id"]: one for one in told["students"]}


def test_the_check_off_tells_ada_from_ben(course: Example, example: Example, tmp_path: Path) -> None:
    """ada has what the tests before this one have run; ben asks for a package that no node has."""
    worlds = {read_json(run / "launch.json")["world_size"] for run in example.runs("ddp-lab")}
    for nodes in {3, 5} - {world // 2 for world in worlds}:  # this test may be run alone
        assert example.play("-e", f"nodes={nodes}").returncode == 0
    compared(example)
    ben = hand_out(course, tmp_path, "ben")
    failed = ben.play("-e", "nodes=3", launch_overrides={"preflight.imports": ["torch", "einops"]})
    assert failed.returncode != 0 and "No module named 'einops'" in failed.stdout, failed.stdout

    said, rows, told = check(course)
    assert (rows["ada"]["result"], rows["ada"]["passed"]) == ("passed", "13"), said
    assert re.search(r"ada +3 +\d+ +ok +ok +ok +ok +ok +ok +ok +passed 13 of 13", said)
    assert re.search(r"ben +3 +\d+ +FAIL +ok +FAIL +FAIL +FAIL +FAIL +FAIL +failed 1 of 13", said)
    assert "FAIL  record, 3 nodes: FAILED, exit code 69" in said
    assert "FAIL  preflight, 3 nodes: 0 of 3 nodes ok; unfit node01: environment: ModuleNotFoundError" in said
    assert "FAIL  5 nodes: no run on 5 nodes; there are runs of ddp-lab on 3 nodes (student's word)" in said
    slurm = [one["text"] for one in told["ada"]["tasks"][0]["evidence"] if one["source"] == "slurm"]
    assert {"account ddp-ada", "nodes 3"} <= set(slurm)
    (times,) = [task for task in told["ada"]["tasks"] if task["task"] == "epoch_time"]
    assert [one["ok"] for one in times["evidence"]].count(True) == len(times["evidence"])

    # ben takes over what ada has on five nodes, and ada mends her log.
    (five,) = [run for run in example.runs("ddp-lab") if read_json(run / "launch.json")["world_size"] == 10]
    theirs = ben.host_path(ben.state_root) / "runs" / "ddp-lab" / five.parent.name
    shutil.copytree(five.parent, theirs, symlinks=True)
    log = next((five / "logs" / "0").glob("*.3.out"))
    times_of_log = log.stat()
    log.write_text(log.read_text(encoding="utf-8").replace("threads=1", "threads=2"), encoding="utf-8")
    os.utime(log, ns=(times_of_log.st_atime_ns, times_of_log.st_mtime_ns))
    said, rows, told = check(course, course_clock_slack=1, course_evidence=True)
    assert [task for task, result in rows["ada"].items() if result == "failed"] == [
        "result",
        "sanity_5",
        "world_size_5",
    ]
    assert f"logs/0/{log.name} changed, " in said
    (record,) = [task for task in told["ben"]["tasks"] if (task["task"], task["nodes"]) == ("record", 5)]
    against = [one["text"] for one in record["evidence"] if one["ok"] is False and one["source"] == "slurm"]
    assert against[0] == "account is ddp-ada, not ddp-ben" and against[1].startswith("working directory is ")
    assert any("is byte for byte that of ada" in note for note in told["ben"]["notes"])


def test_the_teacher_needs_fifteen_lines_and_three_roles() -> None:
    text = (EXAMPLES / "course" / "teacher.yml").read_text(encoding="utf-8")
    roles = [role["role"] for play in yaml.safe_load(text) for role in play["roles"]]
    assert text.count("\n") <= 15
    assert roles == [f"rankzero.slurm.{name}" for name in ("lab_cluster", "course", "environment")]


def test_what_the_reader_is_told_to_run_exists() -> None:
    job = yaml.safe_load((EXAMPLES / "cpu_ddp_lab" / "jobs" / "ddp.yml").read_text(encoding="utf-8"))
    assert (job["resources"]["nodes"], job["launcher"]["ranks_per_node"], job["logs"]["style"]) == (3, 2, "slurm")
