# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import client, jobs
from tests.unit.slurm.recorded import NO_ACCOUNTING, NO_CONTROLLER, NO_DATABASE, UNKNOWN_ID, FakeSlurm, recorded, said

SQUEUE = said(recorded("squeue.txt"))
SACCT = said(recorded("sacct.txt"))
SCONTROL = said(recorded("scontrol_job.txt"))
SUBMITTED = 1795209649.0


def test_one_squeue_for_any_number_of_jobs() -> None:
    fake = FakeSlurm(squeue=SQUEUE)
    slurm = fake.slurm()
    found = jobs.find_by_id(slurm, ["18", "23", "28", "34", "33", "18"])
    assert slurm.commands == 1
    assert "--jobs=18,23,28,34,33" in fake.asked[0]
    assert sorted(found) == ["18", "23", "28_1", "28_2", "28_3", "28_4", "28_5", "33", "34"]
    assert found["18"].state == "RUNNING" and found["18"].running and found["18"].active and found["18"].end is None
    assert found["18"].limit and not found["23"].limit, "when the time limit will end it"
    assert found["18"].node_list == "node[01-02]" and found["18"].nodes == 2
    assert (found["23"].state, found["23"].exit_code, found["23"].final) == ("FAILED", 3, True)
    assert found["23"].reason == "NonZeroExitCode"
    assert found["28_1"].array_job_id == "28"
    assert found["33"].pending and found["33"].active and found["33"].reason == "DependencyNeverSatisfied"
    assert found["34"].signal == 15 and found["34"].source == "squeue"


def test_a_task_without_a_record_of_its_own_is_one_that_nobody_knows() -> None:
    """Of an array that was cancelled while all of it waited. The words of 22.05, 24.11 and 26.05, on stdout."""
    fake = FakeSlurm(squeue=said(), scontrol=said("Job 1_0 not found\n", rc=1), sacct=said())
    assert jobs.find_by_id(fake.slurm(), ["1_0"]) == {} and fake.programs == ["squeue", "scontrol", "sacct"]


def test_a_requeued_job_counts_its_restarts() -> None:
    squeue = jobs.find_by_id(FakeSlurm(squeue=SQUEUE).slurm(), ["30"])["30"]
    assert (squeue.state, squeue.restarts) == ("PENDING", 1)
    sacct = jobs.find_by_id(FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=SACCT).slurm(), ["30"])["30"]
    assert (sacct.state, sacct.restarts) == ("FORGOTTEN", 1), "only slurmctld says that a job waits"
    assert [attempt.state for attempt in sacct.earlier] == ["REQUEUED"]
    assert sacct.earlier[0].elapsed == 6


def test_a_job_that_may_be_requeued_is_active_until_slurm_had_the_time() -> None:
    make = jobs.JobRecord
    now = time.time()
    assert make("7", "a", "NODE_FAIL", end=now, source="squeue").active
    assert make("7", "a", "PREEMPTED", end=now - jobs.REQUEUE_TIME - 1, source="squeue").final
    assert make("7", "a", "PREEMPTED", end=now, source="sacct").final
    assert make("7", "a", "FAILED", end=now, source="squeue").final
    assert make("7", "a", "", source="squeue").active


def test_what_left_the_queue_is_asked_of_scontrol_then_sacct() -> None:
    fake = FakeSlurm(squeue=UNKNOWN_ID, scontrol=[SCONTROL], sacct=SACCT)
    found = jobs.find_by_id(fake.slurm(), ["23"])
    assert fake.programs == ["squeue", "scontrol"]
    assert (found["23"].source, found["23"].state, found["23"].exit_code) == ("scontrol", "FAILED", 3)

    fake = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=SACCT)
    found = jobs.find_by_id(fake.slurm(), ["23"])
    assert fake.programs == ["squeue", "scontrol", "sacct"]
    assert (found["23"].source, found["23"].state, found["23"].exit_code) == ("sacct", "FAILED", 3)
    assert "--duplicates" in fake.asked[2]
    assert any(argument.startswith("--starttime=") for argument in fake.asked[2])


def test_lists_of_jobs_and_names_fit_in_an_argument() -> None:
    """Linux refuses an argument of 128 KiB."""
    ids = [str(number) for number in range(1_000_000, 1_040_000)]
    fake = FakeSlurm(squeue=said(""), sacct=SACCT)
    jobs.find_by_id(fake.slurm(), ids)
    names = [f"gpt.{number:016x}.1" for number in range(12_000)]
    jobs.find_by_name(fake.slurm(), names, since=SUBMITTED)
    for program, option, words in (("squeue", "--jobs=", ids), ("sacct", "--jobs=", ids), ("squeue", "--name=", names)):
        lists = [
            word.removeprefix(option)
            for name, argv in zip(fake.programs, fake.asked)
            for word in argv
            if name == program and word.startswith(option)
        ]
        assert [word for listed in lists for word in listed.split(",")] == words
        assert 1 < len(lists) < 5 and max(map(len, lists)) < 128 * 1024
    assert all(len(word) < 128 * 1024 for argv in fake.asked for word in argv)


def test_accounting_that_stops_answering_between_two_lists_is_silent() -> None:
    ids = [str(number) for number in range(1_000_000, 1_020_000)]
    fake = FakeSlurm(squeue=said(""), sacct=[SACCT, NO_DATABASE])
    slurm = fake.slurm()
    assert jobs.find_by_id(slurm, ids) == {} and slurm.accounting == "silent"


def test_many_missing_jobs_cost_one_sacct() -> None:
    # With several ids squeue is silent about unknown ones and exits 0.
    fake = FakeSlurm(squeue=said(""), sacct=SACCT)
    found = jobs.find_by_id(fake.slurm(), ["18", "19", "20", "21", "99"])
    assert fake.programs == ["squeue", "sacct", "squeue"]
    assert sorted(found) == ["18", "19", "20", "21"]


def test_array_tasks_from_scontrol() -> None:
    fake = FakeSlurm(squeue=UNKNOWN_ID, scontrol=SCONTROL, sacct=NO_ACCOUNTING)
    found = jobs.find_by_id(fake.slurm(), ["28"])
    assert sorted(found) == ["28_1", "28_2", "28_3-5%2"]


def test_a_job_that_the_controller_forgot_is_over_although_accounting_lists_it_as_active() -> None:
    """Seen after slurmctld was killed before it had saved a job: accounting has it PENDING for ever."""
    (name,) = {row.name for row in jobs.query_sacct(FakeSlurm(sacct=SACCT).slurm(), [], 0) if row.job_id == "18"}
    for ask in (
        lambda slurm: jobs.find_by_id(slurm, ["18"])["18"],
        lambda slurm: jobs.find_by_name(slurm, [name], since=0)[0],
    ):
        slurm = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=SACCT).slurm()
        record = ask(slurm)
        assert (record.job_id, record.state, record.active, record.final) == ("18", "FORGOTTEN", False, True)


def test_a_waiting_task_of_a_forgotten_array_is_forgotten() -> None:
    """Accounting has one row for all tasks that wait."""
    fields = {"JobID": "13_[2,4-5%3]", "State": "PENDING", "JobName": "sweep"}
    row = jobs.parse.FIELD.join(fields.get(column, "") for column in jobs.SACCT_COLUMNS)
    fake = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=said(f"{row}\n"))
    found = jobs.find_by_id(fake.slurm(), ["13_4"])
    assert {job_id: record.state for job_id, record in found.items()} == {"13_4": "FORGOTTEN"}


def test_a_job_that_another_one_with_its_id_replaced_is_forgotten() -> None:
    mine = jobs.JobRecord("18", "mine", "RUNNING", source="sacct")
    theirs = FakeSlurm(squeue=SQUEUE).slurm()
    (record,) = jobs.without_forgotten(theirs, [mine])
    assert (record.state, record.active) == ("FORGOTTEN", False)
    (same,) = jobs.without_forgotten(FakeSlurm(squeue=SQUEUE).slurm(), [jobs.JobRecord("18", "", "RUNNING")])
    assert same.active, "accounting may have lost the name"


def test_a_job_that_appears_between_two_questions_is_not_forgotten() -> None:
    mine = jobs.JobRecord("33", jobs.find_by_id(FakeSlurm(squeue=SQUEUE).slurm(), ["33"])["33"].name, "PENDING")
    assert jobs.without_forgotten(FakeSlurm(squeue=SQUEUE).slurm(), [mine]) == [mine]
    with pytest.raises(SlurmUnavailable):
        jobs.without_forgotten(FakeSlurm(squeue=NO_CONTROLLER).slurm(), [mine])


def test_a_silent_controller_is_never_gone() -> None:
    for answers in ({"squeue": NO_CONTROLLER}, {"squeue": UNKNOWN_ID, "scontrol": NO_CONTROLLER}):
        with pytest.raises(SlurmUnavailable):
            jobs.find_by_id(FakeSlurm(**answers).slurm(), ["7"])  # type: ignore[arg-type]
    with pytest.raises(SlurmUnavailable):
        jobs.find_by_name(FakeSlurm(squeue=NO_CONTROLLER).slurm(), ["a"], since=0)


@pytest.mark.parametrize(
    ("answer", "accounting"),
    [(NO_ACCOUNTING, "disabled"), (NO_DATABASE, "silent"), (said("", "", 124, True), "silent"), (None, "disabled")],
)
def test_accounting_is_optional_and_its_absence_is_told(answer: object, accounting: str) -> None:
    answers = {"squeue": UNKNOWN_ID, "scontrol": UNKNOWN_ID}
    if answer is not None:
        answers["sacct"] = answer  # type: ignore[assignment]
    slurm = FakeSlurm(**answers).slurm()  # type: ignore[arg-type]
    assert jobs.find_by_id(slurm, ["7"]) == {}
    assert slurm.accounting == accounting
    assert bool(slurm.notes) == (accounting == "silent")


def test_disabled_accounting_is_asked_once() -> None:
    fake = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=NO_ACCOUNTING)
    slurm = fake.slurm()
    jobs.find_by_id(slurm, ["7"])
    jobs.find_by_id(slurm, ["8"])
    assert fake.programs.count("sacct") == 1


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a month after the recorded jobs."""
    monkeypatch.setattr(jobs.time, "time", lambda: SUBMITTED + 30 * 86400)


@pytest.mark.usefixtures("later")
def test_an_old_job_with_a_reused_id_is_another_job() -> None:
    answers = {"squeue": UNKNOWN_ID, "scontrol": UNKNOWN_ID, "sacct": SACCT}
    assert jobs.find_by_id(FakeSlurm(**answers).slurm(), ["23"], since=SUBMITTED + 86400) == {}  # type: ignore[arg-type]
    assert jobs.find_by_id(FakeSlurm(**answers).slurm(), ["23"], since=SUBMITTED + 60) != {}  # type: ignore[arg-type]


def test_rows_of_another_job_with_the_same_id_are_no_attempts() -> None:
    make = jobs.JobRecord
    (folded,) = jobs.fold_attempts(
        [
            make("7", "mine", "NODE_FAIL", submit=200.0),
            make("7", "theirs", "COMPLETED", submit=100.0),
            make("7", "mine", "RUNNING", submit=300.0),
        ]
    )
    assert folded.state == "RUNNING"
    assert [row.state for row in folded.earlier] == ["NODE_FAIL"]
    assert folded.restarts == 1


def test_by_name_is_exact_and_only_mine() -> None:
    fake = FakeSlurm(squeue=SQUEUE, sacct=SACCT)
    slurm = fake.slurm()
    found = jobs.find_by_name(slurm, ["ok", "fail3"], since=SUBMITTED)
    assert [(record.job_id, record.name) for record in found] == [("23", "fail3"), ("24", "ok")]
    assert slurm.commands == 1
    assert "--name=ok,fail3" in fake.asked[0]
    assert any(argument.startswith("--user=") for argument in fake.asked[0])


def test_by_name_asks_accounting_only_for_what_is_missing() -> None:
    fake = FakeSlurm(squeue=said(recorded("squeue.txt").split("24" + jobs.parse.FIELD)[0]), sacct=SACCT)
    found = jobs.find_by_name(fake.slurm(), ["cancelled", "ok"], since=SUBMITTED)
    assert fake.programs == ["squeue", "sacct"]
    assert "--name=ok" in fake.asked[1]
    assert {(record.job_id, record.source) for record in found} == {("34", "squeue"), ("24", "sacct")}


@pytest.mark.usefixtures("later")
def test_by_name_since() -> None:
    fake = FakeSlurm(squeue=SQUEUE, sacct=NO_ACCOUNTING)
    assert jobs.find_by_name(fake.slurm(), ["ok"], since=SUBMITTED + 86400) == []


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("ahead", [7200.0, 31 * 86400.0])
def test_a_job_in_the_queue_is_found_whatever_the_clock_of_its_submitter_said(ahead: float) -> None:
    queue = jobs.query_squeue(FakeSlurm(squeue=SQUEUE).slurm(), [])
    waiting = next(record for record in queue if record.active)
    slurm = FakeSlurm(squeue=SQUEUE, scontrol=UNKNOWN_ID, sacct=NO_ACCOUNTING).slurm()
    since = (waiting.submit or 0.0) + ahead
    assert waiting.job_id in jobs.find_by_id(slurm, [waiting.job_id], since=since)
    assert waiting.job_id in {record.job_id for record in jobs.find_by_name(slurm, [waiting.name], since=since)}


@pytest.mark.usefixtures("later")
def test_accounting_is_never_asked_from_a_time_that_has_not_come() -> None:
    """sacct refuses it, and accounting would seem silent until that time."""
    fake = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=SACCT)
    slurm, future = fake.slurm(), SUBMITTED + 31 * 86400
    assert jobs.find_by_id(slurm, ["23"], since=future)
    assert jobs.find_by_name(slurm, ["fail3"], since=future)
    asked = [argument for words in fake.asked for argument in words if argument.startswith("--starttime=")]
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(jobs.time.time()))
    assert len(asked) == 2 and all(argument.partition("=")[2] <= now for argument in asked), asked


def test_nothing_asked_costs_nothing() -> None:
    slurm = FakeSlurm().slurm()
    assert jobs.find_by_id(slurm, []) == {}
    assert jobs.find_by_name(slurm, [], since=0) == []
    assert slurm.commands == 0


def test_bad_input_names_the_option() -> None:
    with pytest.raises(RankzeroError, match="job_id: '7; rm' is not a Slurm job id"):
        jobs.find_by_id(FakeSlurm().slurm(), ["7; rm"])
    with pytest.raises(RankzeroError, match="comma"):
        jobs.find_by_name(FakeSlurm().slurm(), ["a,b"], since=0)


def test_host_lists_are_expanded_by_slurm() -> None:
    fake = FakeSlurm(scontrol=said("node01\nnode02\n"))
    slurm = fake.slurm()
    assert client.expand_nodes(slurm, "node[01-02]") == ["node01", "node02"]
    assert client.expand_nodes(slurm, "node07") == ["node07"]
    assert client.expand_nodes(slurm, "") == []
    assert fake.asked == [["/usr/bin/scontrol", "show", "hostnames", "node[01-02]"]]
