# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module course_checkoff over run directories: what passes, what is found out, and by whose word."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.course import checkoff, folders, judge
from tests.unit.course.semester import CODE, Semester, against, launch_of, results, spec_of
from tests.unit.slurm.recorded import NO_DATABASE
from tests.writers import Run


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_two_good_runs_pass_every_task(semester: Semester) -> None:
    checked = semester.check(students=["ada"])
    assert results(checked, "ada") == {}
    (ada,) = checked["students"]
    assert (ada["result"], ada["passed"], ada["of"]) == ("passed", 13, 13)
    assert checked["accounting"] == "ok" and checked["counts"] == {"passed": 1, "failed": 0, "unproven": 0}
    # One question to accounting for the whole class; names of nodes are expanded without asking the controller.
    assert semester.programs.count("sacct") == 1 and "squeue" not in semester.programs
    text = "\n".join(ada["lines"])
    assert "step 11.0 ran on 3 nodes for 8 s (Slurm)" in text
    assert "6 ranks reported their node, on 3 of 3 nodes (student's word)" in text
    assert "sanity, 3 nodes: 6 files not changed since (file system)" in text
    assert "an epoch on 5 nodes takes 1.5 times as long as on 3" in text


def test_who_has_handed_in_nothing_fails_in_one_line(semester: Semester) -> None:
    checked = semester.check()
    assert set(results(checked, "ben").values()) == {"failed"} and len(results(checked, "ben")) == 13
    assert [line for line in checked["lines"] if "ben" in line or "no run" in line] == [
        "ben      3             -  FAIL    FAIL  FAIL       FAIL    FAIL        FAIL   FAIL    failed 0 of 13",
        "ben:",
        "  FAIL  3 nodes: no run on 3 nodes; there is no run of ddp-lab (student's word)",
        "  FAIL  5 nodes: no run on 5 nodes; there is no run of ddp-lab (student's word)",
    ]
    rows = list(csv.DictReader(checked["csv"].splitlines()))
    assert [(row["student"], row["result"], row["job_3"], row["record_5"]) for row in rows] == [
        ("ada", "passed", "11", "passed"),
        ("ben", "failed", "", "failed"),
    ]
    json.dumps(checked)


def test_a_run_on_too_few_ranks_is_seen_in_logs_and_result(semester: Semester) -> None:
    semester.hand_in("ben", 3, 13, world_size=2)
    checked = semester.check(students=["ben"], nodes=[3])
    assert results(checked, "ben") == {"world_size 3": "failed"}
    assert against(checked, "ben", "world_size") == [
        ("student", "the ranks' logs: 6 of 6 ranks with WORLD_SIZE 2, not 6"),
        ("student", "result.json: world_size 2, 2 ranks, not proven by all of them with one model"),
    ]


def test_a_job_that_slurm_saw_on_fewer_nodes(semester: Semester) -> None:
    """The run directory says five everywhere; Slurm gave three."""
    semester.hand_in("ben", 5, 13, recorded={"NNodes": "3", "NodeList": "node[01-03]"})
    checked = semester.check(students=["ben"], nodes=[5])
    found = [text for source, text in against(checked, "ben", "record", 5) if source == "slurm"]
    assert found == ["nodes is 3, not 5", "step 13.0 ran on 3 nodes for 8 s"]
    assert {"record 5", "preflight 5", "sanity 5", "world_size 5"} == set(results(checked, "ben"))


def test_an_edited_record_of_a_launch_has_another_key(semester: Semester) -> None:
    run = semester.hand_in("ben", 3, 13)
    edit(run / "launch.json", '"nodes": "3"', '"nodes": "5"')
    checked = semester.check(students=["ben"], nodes=[5])
    assert {"record 5", "key 5"} <= set(results(checked, "ben"))
    texts = [text for _source, text in against(checked, "ben", "key", 5)]
    assert texts[0].startswith(f"launch.json has key {launch_of(5)['key'][:16]}, its folder says {run.parts[-2]}")
    assert "the job's name does not have the key of the record" in texts


def test_a_folder_renamed_to_fit_an_edited_record(semester: Semester) -> None:
    """Then only Slurm still knows the key that ran."""
    run = semester.hand_in("ben", 3, 13)
    Run(run).launch(spec_of(5), code_key=CODE)
    run.parent.rename(run.parent.parent / launch_of(5)["key"][:16])
    checked = semester.check(students=["ben"], nodes=[5])
    assert ("slurm", "the job's name does not have the key of the record") in against(checked, "ben", "key", 5)
    assert results(checked, "ben")["record 5"] == "failed"


def test_a_run_copied_from_another_student(semester: Semester) -> None:
    shutil.copytree(semester.root / "students/ada/state", semester.root / "students/ben/state")
    checked = semester.check()
    assert results(checked, "ada") == {}
    texts = [text for source, text in against(checked, "ben", "record") if source == "slurm"]
    assert texts[0] == "account is ddp-ada, not ddp-ben" and texts[1].startswith("working directory is ")
    (_ada, ben) = checked["students"]
    assert "result.json of job 11 is byte for byte that of ada (job 11)" in ben["notes"]


def test_a_copied_run_whose_job_id_is_a_good_job_of_ones_own(semester: Semester) -> None:
    """ben ran something on three nodes, and writes the number of that job into a copy of ada's run."""
    run = semester.hand_in("ben", 3, 13, spec={"name": "ddp-lab", "command": ["sleep.py"]})
    copied = run.parent.parent / launch_of(3)["key"][:16]
    shutil.rmtree(run.parent)
    shutil.copytree(semester.root / "students/ada/state/runs/ddp-lab" / copied.name, copied)
    edit(copied / "1" / "claim", "11", "13")
    checked = semester.check(students=["ben"], nodes=[3])
    texts = [text for source, text in against(checked, "ben", "record") if source == "slurm"]
    assert texts[0] == f"job name is ddp-lab.{run.parts[-2]}.1, not ddp-lab.{copied.name}.1"


def test_a_job_id_that_never_was(semester: Semester) -> None:
    run = semester.hand_in("ben", 3, 13)
    edit(run / "claim", "13", "999")
    checked = semester.check(students=["ben"], nodes=[3])
    assert against(checked, "ben", "record") == [("slurm", "accounting has no job 999")]


@pytest.mark.parametrize("claim", ["", "1 lab 13; rm -rf /\n", "1 lab --help\n", "2 lab 13\n", "1 lab 13_4\n", "\0"])
def test_a_claim_that_is_none(semester: Semester, claim: str) -> None:
    run = semester.hand_in("ben", 3, 13)
    (run / "claim").write_text(claim)
    checked = semester.check(students=["ben"], nodes=[3])
    assert against(checked, "ben", "record") == [("student", "no job has claimed this run")]


def test_a_job_that_only_slept_has_no_steps(semester: Semester) -> None:
    """Whoever writes all files himself needs a job of the right name and place. Slurm saw that nothing ran in it."""
    semester.hand_in("ben", 3, 13)
    semester.steps["13"] = []
    checked = semester.check(students=["ben"], nodes=[3])
    assert against(checked, "ben", "record") == [("slurm", "no step of this job ever ran")]


def test_files_that_changed_after_the_job_had_ended(semester: Semester) -> None:
    run = semester.hand_in("ben", 3, 13)
    end = int(semester.rows["13"]["End"])
    # Slurm's word is older: the files are as new as if they had been edited now, one by one.
    for column, before in (("Start", 620), ("End", 600)):
        semester.rows["13"][column] = str(end - before)
    edit(run / "started.json", '"time"', '"_"')
    checked = semester.check(students=["ben"], nodes=[3])
    assert set(results(checked, "ben").values()) == {"failed"}
    (found,) = against(checked, "ben", "preflight")
    assert found[0] == "system" and found[1].startswith("preflight/0/table changed, ")
    for task in ("sanity", "world_size", "saved", "key"):
        assert [source for source, _text in against(checked, "ben", task)] == ["system"], task
    assert ("student", "started.json and outcome.json do not say when the job began and ended") in against(
        checked, "ben", "record"
    )


def test_clocks_may_differ_by_so_much(semester: Semester) -> None:
    """The files are five seconds newer than the end that Slurm's controller knows."""
    semester.hand_in("ben", 3, 13)
    for column in ("Start", "End"):
        semester.rows["13"][column] = str(int(semester.rows["13"][column]) - 5)
    assert results(semester.check(students=["ben"], nodes=[3], clock_slack=20.0), "ben") == {}
    strict = semester.check(students=["ben"], nodes=[3], clock_slack=2.0)
    assert [source for source, _text in against(strict, "ben", "saved")] == ["system"]
    assert against(strict, "ben", "record")[0][1].endswith("s off Slurm's")


def test_files_older_than_the_job(semester: Semester) -> None:
    semester.hand_in("ben", 3, 13)
    for column in ("Start", "End"):
        semester.rows["13"][column] = str(int(semester.rows["13"][column]) + 600)
    checked = semester.check(students=["ben"], nodes=[3])
    assert against(checked, "ben", "saved")[0] == (
        "system",
        "work/model.pt, work/result.json, outcome.json older than the job",
    )
    assert "off Slurm's" in against(checked, "ben", "record")[0][1]


def test_a_result_that_was_replaced_during_the_job_s_last_seconds(semester: Semester) -> None:
    run = semester.hand_in("ben", 3, 13)
    edit(run / "work" / "result.json", '"epochs": 30', '"epochs": 31')
    checked = semester.check(students=["ben"], nodes=[3])
    assert against(checked, "ben", "saved") == [
        ("student", "result.json is not the file that the job found at its end")
    ]


def test_an_epoch_longer_than_the_job(semester: Semester) -> None:
    semester.hand_in("ben", 3, 13, epoch=1.0)
    semester.hand_in("ben", 5, 14)
    checked = semester.check(students=["ben"])
    assert against(checked, "ben", "epoch_time", None) == [
        ("slurm", "30 epochs of that do not fit into the 8 s of the job")
    ]


def test_a_node_that_was_not_fit(semester: Semester) -> None:
    run = semester.hand_in("ben", 3, 13)
    edit(run / "preflight/0/table", "node02 proj=ok", "node02 proj=MISSING")
    with (run / "preflight/0/table").open("a") as table:
        table.write("unfit node02: the code is not here\n")
    checked = semester.check(students=["ben"], nodes=[3])
    assert against(checked, "ben", "preflight") == [
        ("student", "2 of 3 nodes ok (node01, node03); unfit node02: the code is not here")
    ]


def test_nodes_that_are_not_the_jobs(semester: Semester) -> None:
    run = semester.hand_in("ben", 3, 13)
    for log in sorted((run / "logs/0").iterdir())[:2]:
        edit(log, "host=node01", "host=node08")
    checked = semester.check(students=["ben"], nodes=[3])
    (found,) = against(checked, "ben", "sanity")
    assert found[1].endswith("nothing from node01; node08 did not belong to the job")


def test_a_failed_job_is_no_pass_whatever_its_files_say(semester: Semester) -> None:
    semester.hand_in("ben", 3, 13, recorded={"State": "FAILED", "ExitCode": "1:0"})
    checked = semester.check(students=["ben"], nodes=[3])
    assert against(checked, "ben", "record")[0] == ("slurm", "FAILED, exit code 1, 8 s on node[01-03]")


def test_a_job_that_still_runs_is_noted(semester: Semester) -> None:
    semester.hand_in("ben", 3, 13, recorded={"State": "RUNNING", "End": "Unknown"})
    (ben,) = semester.check(students=["ben"], nodes=[3])["students"]
    assert ben["result"] == "failed"
    assert ben["notes"] == ["job 13 has not ended (RUNNING): check again later"]


@pytest.mark.parametrize("pick", ["latest", "best"])
def test_of_several_runs_one_counts_and_all_are_listed(semester: Semester, pick: str) -> None:
    good = semester.hand_in("ben", 3, 13)
    bad = semester.hand_in("ben", 3, 14, generation=2, world_size=2)
    for job_id, before in (("13", 100), ("14", 0)):
        semester.rows[job_id]["Submit"] = str(int(semester.rows[job_id]["Submit"]) - before)
    (ben,) = semester.check(students=["ben"], nodes=[3], pick=pick)["students"]
    assert [(one["job_id"], one["counts"], one["passed"]) for one in ben["runs"]] == [
        ("13", pick == "best", 6),
        ("14", pick == "latest", 5),
    ]
    assert [one["run_dir"] for one in ben["runs"]] == [str(good), str(bad)]
    assert ben["result"] == ("passed" if pick == "best" else "failed")


def test_only_the_code_that_was_handed_out(semester: Semester) -> None:
    assert results(semester.check(students=["ada"], code=[CODE]), "ada") == {}
    checked = semester.check(students=["ada"], code=["f" * 64])
    assert against(checked, "ada", "key") == [
        ("student", f"code {CODE[:12]}, which is not the code that was handed out")
    ]


def test_another_exercise(semester: Semester) -> None:
    """Names of files, values and jobs are the teacher's."""
    run = semester.hand_in("ben", 4, 13)
    jobs = run.parent.parent
    (run / "work/result.json").rename(run / "work/proof.json")
    (run / "work/model.pt").rename(run / "work/weights.bin")
    edit(run / "work/proof.json", "seconds_per_epoch", "epoch")
    edit(run / "outcome.json", json.loads((run / "outcome.json").read_text())["artifact"]["sha256"], "0" * 64)
    semester.rows["13"].update(JobName=semester.rows["13"]["JobName"].replace("ddp-lab", "fit"))
    jobs.rename(jobs.parent / "fit")
    semester.rows["13"].update(WorkDir=str(run).replace("ddp-lab", "fit"))
    asked: dict[str, Any] = {"artifact": "proof.json", "saved": ["weights.bin"], "epoch_time": "epoch"}
    checked = semester.check(students=["ben"], job="fit", nodes=[4], **asked)
    assert results(checked, "ben") == {"saved 4": "failed"}
    two = semester.check(students=["ben"], job="fit", nodes=[4, 2], **asked)
    assert against(two, "ben", "epoch_time", None) == [("student", "2 nodes: no epoch")]
    assert results(semester.check(students=["ben"], job="fit", nodes=[4], ranks_per_node=4, **asked), "ben").keys() >= {
        "sanity 4",
        "world_size 4",
    }


def test_without_accounting_nothing_is_proven_and_that_is_said(semester: Semester) -> None:
    semester.without_accounting()
    checked = semester.check(students=["ada"])
    assert checked["accounting"] == "disabled"
    assert checked["counts"]["unproven"] == 1
    assert results(checked, "ada") == {"record 3": "unproven", "record 5": "unproven", "epoch_time": "unproven"}
    why = "this cluster keeps no accounting, and the queue has forgotten the job"
    assert against(checked, "ada", "record") == [("student", f"job 11, only from the student's files: {why}")]
    assert any("has no accounting" in line for line in checked["lines"][:2])


def test_without_accounting_a_copied_run_is_still_seen(semester: Semester) -> None:
    semester.without_accounting()
    shutil.copytree(semester.root / "students/ada/state", semester.root / "students/ben/state")
    checked = semester.check()
    assert against(checked, "ben", "record") == [("student", "job 11 is the run of ada")]
    assert against(checked, "ada", "record") == [("student", "job 11 is the run of ben")]


def test_an_accounting_that_does_not_answer_accuses_nobody(semester: Semester) -> None:
    semester.accounting = NO_DATABASE
    checked = semester.check(students=["ada"])
    assert checked["accounting"] == "silent" and "failed" not in results(checked, "ada").values()
    assert "Accounting does not answer: check again later." in checked["lines"]


def test_a_teacher_who_may_not_see_accuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    semester = Semester(tmp_path, mode="accounts")
    semester.hand_in("ada", 3, 11)
    semester.rows.clear()
    own = os.geteuid()
    monkeypatch.setattr(checkoff.os, "geteuid", lambda: own or 12345)
    monkeypatch.setattr(folders, "read", lambda _root: semester.course)
    monkeypatch.setattr(os, "access", lambda path, _mode: not str(path).endswith("ben"))
    checked = semester.check(nodes=[3])
    assert set(results(checked, "ada").items()) == {("record 3", "unproven")}
    assert "accounting does not show it to you" in against(checked, "ada", "record")[0][1]
    assert set(results(checked, "ben").values()) == {"unproven"}
    assert "students/ben cannot be read: run the check-off as root" in against(checked, "ben", "record")[0][1]


def test_what_a_student_puts_in_the_way_is_not_followed(semester: Semester, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"world_size": 6, "secret": "of the teacher"}')
    run = semester.hand_in("ben", 3, 13)
    for name in ("work/result.json", "outcome.json"):
        (run / name).unlink()
        (run / name).symlink_to(secret)
    (run / "claim").unlink()
    os.mkfifo(run / "claim")
    (run / "started.json").write_text("[" * 100000)
    (run / "preflight/0/table").write_text("node01 \x1b[31m=\x1b[0m\nunfit node01: \x1b]0;owned\x07\n")
    (run / "logs/0").rename(run / "logs/real")
    (run / "logs/0").symlink_to(run / "logs/real")
    checked = semester.check(students=["ben"], nodes=[3])
    failed = {f"{task} 3": "failed" for task in judge.RUN_TASKS if task != "key"}
    assert results(checked, "ben") == failed
    everything = json.dumps(checked)
    assert "of the teacher" not in everything and "\\u001b" not in everything


def test_the_same_times_with_values_of_any_kind(semester: Semester) -> None:
    run = semester.hand_in("ben", 3, 13)
    (run / "work/result.json").write_text(
        '{"world_size": true, "ranks": "all", "hosts": 7, "epochs": 1e999, "seconds_per_epoch": ' + "9" * 400 + "}"
    )
    (run / "started.json").write_text('{"attempt": 0, "time": [], "nodes": {"a": 1}}')
    (run / "launch.json").write_text('{"spec": {"resources": {"nodes": 3}, "after": 7}, "refs": [{}]}')
    checked = semester.check(students=["ben"], nodes=[3, 5])
    assert {"record 3", "key 3", "world_size 3", "saved 3", "epoch_time"} <= set(results(checked, "ben"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"students": ["eve"]}, "students: 'eve' is not in the class ddp; it has ada, ben"),
        ({"students": ["\x1b[2J"]}, "is not in the class"),
        ({"job": "../ada"}, "job: '../ada'"),
        ({"nodes": []}, "nodes: [] must be different numbers"),
        ({"nodes": [3, 3]}, "nodes: [3, 3] must be different numbers"),
        ({"artifact": "/etc/passwd"}, "artifact, saved: '/etc/passwd'"),
        ({"saved": ["../../x"]}, "artifact, saved: '../../x'"),
        ({"root": "/nowhere"}, "root: /nowhere contains no class"),
    ],
)
def test_a_wrong_option_is_named(semester: Semester, options: dict[str, Any], says: str) -> None:
    with pytest.raises(RankzeroError) as error:
        semester.check(**options)
    assert says in error.value.message and "\x1b" not in error.value.message


def test_every_task_has_a_column() -> None:
    assert len({*judge.RUN_TASKS, judge.EPOCH_TIME}) == 7
