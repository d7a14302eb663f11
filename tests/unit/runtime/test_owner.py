# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of checkpoints has one live owner: who may take it, from whom, and what is said. Slurm is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.harness import Site
from tests.writers import Run

OWNER = os.path.join(RUNTIME, "owner.py")


class Folder:
    """A folder of checkpoints, jobs that want it, and a squeue that says what a test tells it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "checkpoints"
        (root / "bin").mkdir()
        self.squeue('echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')

    def squeue(self, text: str) -> None:
        command = self.root / "bin" / "squeue"
        command.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        command.chmod(0o755)

    def environment(self, job_id: int, attempt: int = 0, **more: str) -> dict[str, str]:
        return {
            "PATH": f"{self.root / 'bin'}:/usr/bin:/bin",
            "SLURM_JOB_ID": str(job_id),
            "SLURM_JOB_NAME": f"gpt.{job_id}",
            "SLURM_CLUSTER_NAME": "lab",
            "RANKZERO_GENERATION": "1",
            "RANKZERO_ATTEMPT": str(attempt),
            "RANKZERO_RUN_DIR": str(self.run(job_id)),
            "LOGNAME": "someone",
            **more,
        }

    def run(self, job_id: int) -> Path:
        made = self.root / "runs" / str(job_id)
        made.mkdir(parents=True, exist_ok=True)
        return made

    def ask(
        self, command: str, job_id: int, attempt: int = 0, program: str | None = None, **more: str
    ) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-I", "-c", program or FAST, command, str(self.path)],
            env=self.environment(job_id, attempt, **more),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.strip()

    def take(self, job_id: int, attempt: int = 0, **more: str) -> tuple[int, str]:
        return self.ask("take", job_id, attempt, **more)

    def ends(self, job_id: int, attempt: int = 0, ended_by: str = "program") -> None:
        Run(self.run(job_id), str(job_id)).ended(1, "so it ended", by=ended_by, number=attempt)

    def files(self) -> list[str]:
        return sorted(os.listdir(self.path / ".rankzero"))


#: The program with no patience: what it waits for does not come in these tests.
FAST = f"""
import runpy, subprocess, sys, time
sys.argv = ["owner.py", *sys.argv[1:]]
time.sleep = lambda seconds: None
clock = iter(range(0, 10**6, 7))
time.monotonic = lambda: next(clock)
runpy.run_path({OWNER!r}, run_name="__main__")
"""


def linking(link: str) -> str:
    """The program on a file system whose link() is what `link` defines; `real` is the system's."""
    return FAST.replace("runpy.run_path", f"import os\nreal = os.link\n{link}os.link = link\nrunpy.run_path")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_first_job_takes_it_and_says_so(folder: Folder) -> None:
    assert folder.take(7) == (0, f"{folder.path} is this job's")
    assert folder.files() == ["owner.1"]
    owner = json.loads((folder.path / ".rankzero" / "owner.1").read_text(encoding="utf-8"))
    assert owner.pop("time") > 1
    assert owner == {
        "generation": 1,
        "cluster": "lab",
        "job_id": "7",
        "job_name": "gpt.7",
        "attempt": 0,
        "run_dir": str(folder.run(7)),
        "user": "someone",
    }
    assert (folder.ask("held", 7)[0], folder.ask("held", 8)[0], folder.ask("held", 7, attempt=1)[0]) == (0, 1, 1)


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "REQUEUED", "PREEMPTED", "SUSPENDED"])
def test_a_live_owner_is_not_robbed(folder: Folder, state: str) -> None:
    folder.take(7)
    folder.squeue(f"echo '{state}|gpt.7'")
    code, said = folder.take(8)
    assert code == 75
    assert said == (
        f"{folder.path} belongs to job 7 of someone (gpt.7, attempt 1; {folder.run(7)}): it is {state}; cancel it, or "
        "name another folder"
    )
    assert folder.ask("held", 7)[0] == 0
    assert folder.files() == ["owner.1"]


@pytest.mark.parametrize(
    ("squeue", "why"),
    [
        ("echo 'FAILED|gpt.7'", "FAILED"),
        ("echo 'RUNNING|another.job'", "Slurm has given its number to another job"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "Slurm no longer knows it"),
        ("echo 'NODE_FAIL|gpt.7'", "NODE_FAIL; a node that Slurm cannot reach may still run it and write here"),
    ],
)
def test_a_dead_owner_is_followed_by_slurms_word(folder: Folder, squeue: str, why: str) -> None:
    folder.take(7)
    folder.squeue(squeue)
    code, said = folder.take(8)
    assert (code, said) == (
        0,
        f"{folder.path} is taken over from job 7 of someone (gpt.7, attempt 1; {folder.run(7)}): {why}",
    )
    assert folder.files() == ["owner.2"]
    assert (folder.ask("held", 7)[0], folder.ask("held", 8)[0]) == (1, 0)


def test_a_node_that_failed_may_be_back_for_the_next_attempt_at_once(folder: Folder) -> None:
    folder.take(7)
    seen = folder.root / "seen"
    folder.squeue(f"echo x >> {seen}; [ $(wc -l < {seen}) -gt 1 ] && echo 'PENDING|gpt.7' || echo 'NODE_FAIL|gpt.7'")
    code, said = folder.take(8)
    assert code == 75 and "it is PENDING" in said


def test_its_own_verdict_needs_no_slurm_unless_the_same_job_may_come_back(folder: Folder) -> None:
    folder.take(7)
    folder.squeue("echo 'RUNNING|gpt.7'")
    folder.ends(7, ended_by="signal")
    assert folder.take(8)[0] == 75
    folder.ends(7)
    code, said = folder.take(8)
    assert code == 0 and said.endswith("it has ended: the program ended with exit code 1; so it ended")


def test_a_requeued_job_keeps_it_and_its_old_attempt_has_lost_it(folder: Folder) -> None:
    folder.take(7)
    folder.squeue("exit 99")
    assert folder.take(7, attempt=1) == (0, f"{folder.path} stays this job's, from attempt 1 on")
    assert (folder.ask("held", 7)[0], folder.ask("held", 7, attempt=1)[0]) == (1, 0)
    code, said = folder.take(7, attempt=0)
    assert (code, said) == (75, f"{folder.path} belongs to a later attempt of this job (2)")


@pytest.mark.parametrize(
    ("squeue", "more", "why"),
    [
        ("echo 'Unable to contact slurm controller' >&2; exit 1", {}, "squeue does not answer"),
        ("exit 0", {"LOGNAME": "other"}, "it is another user's"),
        ("echo 'RUNNING|gpt.7'", {"SLURM_CLUSTER_NAME": "elsewhere"}, "it is of another cluster (lab)"),
        ("echo 'COMPLETING|gpt.7'", {}, "it is COMPLETING"),
    ],
)
def test_while_nobody_knows_whether_the_owner_lives_it_is_not_robbed(
    folder: Folder, squeue: str, more: dict[str, str], why: str
) -> None:
    folder.take(7)
    folder.squeue(squeue)
    code, said = folder.take(8, **more)
    assert code == 75
    assert why in said
    assert said.endswith(f"if it is over, remove {folder.path}/.rankzero/owner.1")


def test_of_many_that_find_the_owner_dead_one_follows(folder: Folder) -> None:
    folder.take(7)
    folder.squeue(
        "for word; do case $word in --jobs=7) echo 'FAILED|gpt.7' ;; "
        '--jobs=*) echo "RUNNING|gpt.${word#*=}" ;; esac; done'
    )
    argv = [sys.executable, "-I", "-c", FAST, "take", str(folder.path)]
    running: list[Any] = [
        subprocess.Popen(argv, env=folder.environment(number), stdout=subprocess.PIPE, text=True)
        for number in range(10, 18)
    ]
    said = [process.communicate()[0] for process in running]
    codes = [process.returncode for process in running]
    assert sorted(codes) == [0] + [75] * 7, said
    winner = 10 + codes.index(0)
    assert folder.ask("held", winner)[0] == 0
    assert folder.files() == ["owner.2"]


def test_a_link_whose_reply_was_lost_is_a_link(folder: Folder) -> None:
    """link() made the file and reports that it exists: the content decides."""
    link = "def link(a, b):\n    real(a, b)\n    raise FileExistsError(b)\n"
    assert folder.ask("take", 7, program=linking(link)) == (0, f"{folder.path} is this job's")


def test_a_file_system_without_links_is_said_and_not_waited_for_for_ever(folder: Folder) -> None:
    link = "def link(a, b):\n    raise PermissionError(1, 'Operation not permitted')\n"
    said = f"{folder.path} cannot be taken: no link can be made there: Operation not permitted"
    assert folder.ask("take", 7, program=linking(link)) == (73, said)
    assert folder.files() == []


def test_the_script_takes_it_before_any_rank_and_ends_where_it_cannot(tmp_path: Path) -> None:
    site = Site(tmp_path / "cluster")
    place = tmp_path / "checkpoints"
    spec = {"checkpoint": {"dir": str(place)}, "preflight": {"enabled": False}}
    first = site.job({"name": "one", "shell": "echo $RANKZERO_CHECKPOINT_DIR > seen", **spec})
    assert first.finish(job_id=7, SLURM_JOB_NAME="one.7") == 0, first.log(7)
    assert f"[rankzero] checkpoint.dir: {place} is this job's" in first.log(7)
    assert (first.run / "work" / "seen").read_text(encoding="utf-8").strip() == str(place)
    # The verdict of a job that runs once more is out of the way, and Slurm says that it lives.
    (first.run / "outcome.json").unlink()
    site.functions["squeue"] = "echo 'RUNNING|one.7'"
    second = site.job({"name": "two", "shell": "touch never", **spec})
    assert second.finish(job_id=8) == 75
    outcome = second.outcome()
    assert (outcome["ended_by"], outcome["success"]) == ("setup", False)
    assert outcome["message"].startswith(f"checkpoint.dir: {place} belongs to job 7 of ")
    assert not (second.run / "work" / "never").exists()


# --- where others may write


def test_a_link_in_the_place_of_the_owners_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.path.mkdir()
    (folder.path / ".rankzero").symlink_to(elsewhere)
    code, said = folder.ask("take", 1)
    assert code == 73 and "cannot be taken" in said
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "link", "list", "other types", "words for squeue", "brackets", "nothing"])
def test_an_owner_that_we_would_not_write_is_an_obstacle_and_not_waited_for(folder: Folder, kind: str) -> None:
    place = folder.path / ".rankzero"
    place.mkdir(parents=True)
    planted = place / "owner.1"
    if kind == "pipe":
        os.mkfifo(planted)
    elif kind == "link":
        planted.symlink_to("/dev/zero")
    else:
        owner = {**dict.fromkeys(("cluster", "job_name", "run_dir", "user"), "x"), "job_id": "7", "attempt": 0}
        documents = {
            "list": [owner],
            "other types": {**owner, "attempt": "0"},
            "words for squeue": {**owner, "job_id": "7 --help"},
        }
        text = {"brackets": "[" * 100_000, "nothing": ""}.get(kind) or json.dumps(documents.get(kind))
        planted.write_text("" if kind == "nothing" else text, encoding="utf-8")
    (place / "owner.x2").touch()
    (place / "unknown7").touch()
    code, said = folder.ask("take", 1)
    assert code == 75 and "its owner's file cannot be read" in said and "owner.1" in said


def test_a_dead_owner_on_top_of_a_living_one_does_not_hide_it(folder: Folder) -> None:
    assert folder.ask("take", 1)[0] == 0
    folder.squeue(
        '[[ "$*" == *--jobs=1* ]] && echo "RUNNING|gpt.1" || { echo "Invalid job id specified" >&2; exit 1; }'
    )
    owner = json.loads((folder.path / ".rankzero" / "owner.1").read_text(encoding="utf-8"))
    dead = {**owner, "job_id": "66", "job_name": "\x1b[2Jgone"}
    (folder.path / ".rankzero" / "owner.900").write_text(json.dumps(dead), encoding="utf-8")
    code, said = folder.ask("take", 2)
    assert code == 75 and "belongs to job 1 of" in said and "\x1b" not in said
