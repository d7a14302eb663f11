# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run import launches, select
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import find, launch_list
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import SQUEUE_COLUMNS
from tests.unit.slurm.recorded import NO_ACCOUNTING, NO_CONTROLLER, NO_DATABASE, UNKNOWN_ID, FakeSlurm, said
from tests.writers import Run

KEY = "0123456789abcdef"
NOW = time.time()


def entry(event: str, **more: Any) -> dict[str, Any]:
    return {"time": NOW - 100, "event": event, **more}


def make_run(
    root: Path, *journal: dict[str, Any], name: str = "gpt", key: str = KEY, generation: int = 1, **files: Any
) -> Path:
    """A run directory with a journal, what the job wrote (`started`, `outcome`), and files (dots as underscores)."""
    made = Run.below(root, name, key, generation).journal(*journal)
    for name, content in files.items():
        if callable(content):
            content(made)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            (made.path / name.replace("_", ".")).write_text(text)
    return made.path


def started(
    attempt: int = 0, *, time: float = NOW - 90, world_size: int | None = None, **more: Any
) -> Callable[[Run], Run]:
    """The start of an attempt. `more`: as in Run.started."""
    return lambda run: run.started(attempt, at=time, ranks=world_size, **more)


def outcome(
    success: bool = True, attempt: int = 0, message: str = "", values: Mapping[str, Any] | None = None, **more: Any
) -> Callable[[Run], Run]:
    """The end of an attempt. A success has an artifact with these values, or a loss of 1.5. `more`: as in Run.ended."""

    def end(run: Run) -> Run:
        if success:
            run.contract(path="result.json").begun(attempt).leaves(**({"loss": 1.5} if values is None else values))
        facts = {"began": NOW - 90, "at": NOW - 10, "exit_code": 0 if success else 3, **more}
        return run.ended(message=message, number=attempt, **facts)

    return end


def row(state: str, **more: str) -> str:
    values = dict.fromkeys(SQUEUE_COLUMNS, "N/A") | {
        "JobArrayID": "7",
        "State": state,
        "Reason": "None",
        "restartcnt": "0",
        "exit_code": "0",
        "SubmitTime": str(int(NOW) - 100),
        "NodeList": "node[01-02]",
        "Name": f"gpt.{KEY}.1",
    }
    return parse.FIELD.join({**values, **more}.values()) + parse.RECORD + "\n"


def queue(state: str, **more: str) -> FakeSlurm:
    return FakeSlurm(squeue=said(row(state, **more)), scontrol=said("node01\nnode02\n"))


def gone(accounting: object = NO_ACCOUNTING) -> FakeSlurm:
    return FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=accounting)  # type: ignore[arg-type]


def options(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(select.RUN_ARGUMENTS), "state_root": "/nowhere", **given}


def look(fake: FakeSlurm, run: Path) -> dict[str, Any]:
    (launch,) = launch_list.job_info(fake.slurm(), options(run_dir=str(run)))["launches"]
    return launch


SUBMITTED = (entry("intent"), entry("submitted", job_id="7"))


def test_a_success_as_the_job_said_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n", started_json=started(), outcome_json=outcome())
    fake = queue("COMPLETED", StartTime=str(int(NOW) - 91), EndTime=str(int(NOW) - 9))
    found = look(fake, run)
    assert (found["name"], found["key"], found["generation"], found["job_id"]) == ("gpt", KEY, 1, "7")
    assert (found["completed"], found["success"], found["active"], found["slurm_state"]) == (
        True,
        True,
        False,
        "COMPLETED",
    )
    assert (found["exit_code"], found["wall_time"], found["source"]) == (0, 82.0, "squeue")
    assert found["artifact"] == json.loads((run / "outcome.json").read_text())["artifact"]
    assert (found["artifact"]["valid"], found["artifact"]["scalars"]) == (True, {"loss": 1.5})
    assert found["nodes"] == ["node01", "node02"]
    assert found["message"] == "the artifact is proven; the program ended with exit code 0"
    assert [line["event"] for line in found["journal"]] == ["intent", "submitted"]
    assert found["logs_dir"] == f"{run}/logs"
    assert fake.programs == ["squeue"]
    # Newer Ansible takes these keys for its own, of asynchronous tasks, and turns their values into booleans.
    assert not {"started", "finished"} & set(found)


def test_slurms_success_without_the_jobs_own_is_a_failure(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started())
    found = look(queue("COMPLETED", StartTime=str(int(NOW) - 91), EndTime=str(int(NOW) - 9)), run)
    assert (found["completed"], found["success"], found["slurm_state"]) == (True, False, "COMPLETED")
    assert "job 7 ended without writing its outcome" in found["message"]


@pytest.mark.parametrize("words", ["ended by a signal (cancelled, time limit or preemption)", "cancelled"])
def test_what_ended_a_job_by_a_signal_is_said_once(tmp_path: Path, words: str) -> None:
    end = outcome(False, by="signal", message=words)
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=end)
    assert look(queue("CANCELLED", StartTime="5", EndTime="9"), run)["message"] == "CANCELLED: it was cancelled"


def test_a_job_cancelled_in_the_queue_never_started(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED)
    found = look(queue("CANCELLED", StartTime="9", EndTime="9"), run)
    assert found["message"] == "job 7 never started: CANCELLED: it was cancelled"


@pytest.mark.parametrize(
    ("left", "hidden"), [({}, True), ({"claim": "1 lab 7\n"}, False), ({"started_json": started()}, False)]
)
def test_a_job_that_ran_and_left_nothing_blames_the_state_root(
    tmp_path: Path, left: dict[str, Any], hidden: bool
) -> None:
    run = make_run(tmp_path, *SUBMITTED, **left)
    slurm = queue("FAILED", exit_code="17664", Reason="NonZeroExitCode", StartTime="5", EndTime="12")
    message = look(slurm, run)["message"]
    assert message.startswith("job 7 ended without writing its outcome: FAILED")
    assert ("launch_cluster.state_root" in message) is hidden
    (run / "logs" / "job.7.log").write_text("it was here\n")
    assert "state_root" not in look(slurm, run)["message"]


def test_a_failure_names_both_words(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome(False))
    found = look(queue("FAILED", exit_code="768", Reason="NonZeroExitCode"), run)
    assert (found["completed"], found["success"], found["exit_code"]) == (True, False, 3)
    assert found["message"].startswith("the program ended with exit code 3; FAILED: the batch script failed")


@pytest.mark.parametrize(
    ("exit_code", "left", "never"),
    [("4021", {}, True), ("256", {}, False), ("4021", {"claim": "1 lab 7\n"}, False)],
)
def test_a_job_whose_log_slurm_could_not_open_never_started(
    tmp_path: Path, exit_code: str, left: dict[str, Any], never: bool
) -> None:
    """4021 is what squeue of Slurm 22.05 shows for ExitCode 0:53. A job with a claim has run."""
    run = make_run(tmp_path, *SUBMITTED, **left)
    if not never:
        (run / "logs" / "job.7.log").touch()
    launch = look(queue("FAILED", exit_code=exit_code), run)
    assert launch["completed"] and launch["never_started"] is never
    assert (str(tmp_path) in launch["message"] and "state_root" in launch["message"]) is never
    assert ("node01" in launch["message"]) is never


def test_pending_says_why_and_has_no_times(tmp_path: Path) -> None:
    found = look(queue("PENDING", Reason="Priority", NodeList=""), make_run(tmp_path, *SUBMITTED))
    assert (found["completed"], found["active"], found["started_at"], found["nodes"]) == (False, True, None, [])
    assert "higher priority" in found["message"]


def test_a_requeued_job_is_active_whatever_its_last_attempt_wrote(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome(False, by="signal"))
    found = look(queue("PENDING", Reason="BeginTime", restartcnt="1", NodeList=""), run)
    assert (found["completed"], found["active"], found["attempt"], found["outcome"]) == (False, True, 1, None)
    assert [attempt["attempt"] for attempt in found["attempts"]] == [0, 1]
    assert found["started_at"] is None


def test_a_proof_stands_where_slurm_has_requeued_the_job_after_a_crash(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome())
    fake = queue("PENDING", Reason="launch failed requeued held", restartcnt="1", NodeList="")
    fake.answers["sinfo"] = said("node02|Duplicate jobid\n")
    found = look(fake, run)
    assert (found["success"], found["completed"], found["active"]) == (True, True, False)
    assert "scancel 7" in found["message"] and "NodeName=node02 State=RESUME" in found["message"]


@pytest.mark.parametrize(("success", "state"), [(True, "COMPLETED"), (False, "FAILED")])
def test_gone_from_slurm_the_run_directory_tells(tmp_path: Path, success: bool, state: str) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome(success))
    found = look(gone(), run)
    assert (found["completed"], found["success"], found["slurm_state"], found["source"]) == (True, success, state, None)
    assert found["wall_time"] == pytest.approx(80.0)


def test_gone_from_slurm_without_an_outcome_is_a_failure(tmp_path: Path) -> None:
    found = look(gone(), make_run(tmp_path, *SUBMITTED))
    assert (found["completed"], found["success"], found["slurm_state"]) == (True, False, None)
    assert "gone from Slurm and left no outcome" in found["message"]


@pytest.mark.parametrize("fake", [FakeSlurm(squeue=NO_CONTROLLER), gone(NO_DATABASE)])
def test_silence_concludes_nothing(tmp_path: Path, fake: FakeSlurm) -> None:
    slurm = fake.slurm()
    run = make_run(tmp_path, *SUBMITTED)
    (found,) = launch_list.job_info(slurm, options(run_dir=str(run)))["launches"]
    assert (found["completed"], found["active"], found["slurm_state"]) == (False, True, None)
    assert slurm.notes, "the user is warned"


def test_a_proven_outcome_stands_while_slurm_is_silent(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome())
    found = look(FakeSlurm(squeue=NO_CONTROLLER), run)
    assert (found["completed"], found["success"], found["slurm_state"]) == (True, True, "COMPLETED")


def test_a_failure_by_signal_may_be_requeued_while_slurm_is_silent(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome(False, by="signal"))
    assert look(FakeSlurm(squeue=NO_CONTROLLER), run)["completed"] is False


def test_an_intent_without_an_id_is_looked_up_by_name(tmp_path: Path) -> None:
    run = make_run(tmp_path, entry("intent"))
    fake = queue("RUNNING")
    found = look(fake, run)
    assert (found["job_id"], found["slurm_state"], found["active"]) == ("7", "RUNNING", True)
    assert f"--name=gpt.{KEY}.1" in fake.asked[0]

    found = look(FakeSlurm(squeue=said(""), sacct=NO_ACCOUNTING), run)
    assert (found["job_id"], found["slurm_state"], found["completed"]) == (None, None, False)
    assert "the next launch resolves it" in found["message"]


def test_a_job_of_the_same_name_in_another_run_directory_is_another_launch(tmp_path: Path) -> None:
    run = make_run(tmp_path, entry("intent"))
    elsewhere = queue("RUNNING", WorkDir=f"/elsewhere/runs/gpt/{KEY}/1")
    assert look(elsewhere, run)["job_id"] is None
    assert look(queue("RUNNING", WorkDir=str(run)), run)["job_id"] == "7"


def test_launches_of_one_name_under_two_state_roots_are_told_apart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / root, entry("intent")) for root in ("a", "b")]
    rows = row("RUNNING", WorkDir=str(runs[0])) + row("PENDING", JobArrayID="8", WorkDir=str(runs[1]))
    directories = [RunDirectory(str(run)) for run in runs]
    answer = ask_slurm(FakeSlurm(squeue=said(rows)).slurm(), directories)
    assert [answer.status(run).job_id for run in directories] == ["7", "8"]


def test_a_rejected_submission(tmp_path: Path) -> None:
    run = make_run(tmp_path, entry("intent"), entry("rejected", message="Invalid account"))
    fake = FakeSlurm()
    found = look(fake, run)
    assert (found["slurm_state"], found["completed"], found["success"]) == (None, True, False)
    assert found["message"] == "Slurm refused the job: Invalid account"
    assert fake.asked == []


def test_the_owner_of_the_claim_is_reported(tmp_path: Path) -> None:
    run = make_run(tmp_path, entry("intent"), entry("submitted", job_id="8"), claim="1 lab 7\n")
    assert look(queue("RUNNING"), run)["job_id"] == "7"


def test_torn_and_missing_parts_are_no_error(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json="{ torn", outcome_json="[]", claim="half")
    with (run / "journal.jsonl").open("a") as stream:
        stream.write('{"time": 1, "ev')
    found = look(queue("RUNNING"), run)
    assert (found["slurm_state"], found["outcome"], len(found["journal"])) == ("RUNNING", None, 2)
    assert found["nodes"] == ["node01", "node02"], "from Slurm, as the job's own list is torn"


def test_many_launches_take_one_squeue(tmp_path: Path) -> None:
    for generation in range(1, 6):
        make_run(tmp_path, entry("intent"), entry("submitted", job_id=str(generation)), generation=generation)
    body = "".join(row("RUNNING", JobArrayID=str(i), Name=f"gpt.{KEY}.{i}", NodeList="node01") for i in range(1, 6))
    fake = FakeSlurm(squeue=said(body))
    found = launch_list.job_info(fake.slurm(), options(state_root=str(tmp_path), name="gpt"))
    assert [launch["generation"] for launch in found["launches"]] == [1, 2, 3, 4, 5]
    assert found["slurm_commands"] == 1


def test_selection(tmp_path: Path) -> None:
    for name, generation in (("gpt", 1), ("gpt", 10), ("gpt", 9), ("bert", 1)):
        make_run(
            tmp_path, entry("intent"), entry("submitted", job_id=f"{generation}"), name=name, generation=generation
        )
    root = str(tmp_path)

    def found(**given: Any) -> list[str]:
        return [f"{select.identity(r.path).name}/{r.generation}" for r in find.find_runs(root, **given)]

    assert found() == ["bert/1", "gpt/1", "gpt/9", "gpt/10"]
    assert found(name="gpt", key=KEY + "0000ffff") == ["gpt/1", "gpt/9", "gpt/10"]
    assert found(key="ffff") == []
    assert found(generation=9) == ["gpt/9"]
    assert found(job_id="10") == ["gpt/10"]
    assert find.one_run(options(state_root=root, name="gpt")).generation == 10
    with pytest.raises(RankzeroError, match="job_id=1 names 2 launches"):
        find.one_run(options(state_root=root, job_id="1"))


def test_a_name_means_its_newest_launch(tmp_path: Path) -> None:
    """Also if its key sorts first; and the person is told which, with the times and states of the others."""
    old, new = "f" * 16, "0" * 16
    for key, generation, made in ((old, 1, 1_700_000_000), (old, 2, 1_700_000_100), (new, 1, 1_700_000_200)):
        event = {**entry("intent"), "time": made}
        make_run(tmp_path, event, key=key, generation=generation)
    asked = options(state_root=str(tmp_path), name="gpt")
    run = find.one_run(asked)
    assert select.identity(run.path).key == new
    slurm = gone().slurm()
    choice = find.choice_made(slurm, asked, run)
    assert choice and choice.startswith("gpt 00000000, generation 1, 2023-11-1")
    assert "the newest of 2 launches named gpt (others: gpt ffffffff, generation 2, 2023-11-1" in choice
    assert "unsubmitted" in choice and find.choice_made(slurm, options(run_dir=run.path), run) is None
    only = options(state_root=str(tmp_path), name="gpt", key=old)
    assert find.one_run(only).generation == 2 and find.choice_made(slurm, only, find.one_run(only)) is None


def test_the_name_of_a_sweep_does_not_say_which_element(tmp_path: Path) -> None:
    for task, key in enumerate(("1" * 16, "2" * 16)):
        make_run(tmp_path, entry("intent", array=".sweep-0123456789abcdef/1", task=task), key=key)
    with pytest.raises(RankzeroError, match=r"(?s)name=gpt names 2 launches .*gpt 1111.*Give name and key"):
        find.one_run(options(state_root=str(tmp_path), name="gpt"))


def test_bad_input_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match=r"state_root \S+; nothing was launched there yet$"):
        find.one_run(options(state_root=str(tmp_path), name="last"))
    make_run(tmp_path, entry("intent"))
    with pytest.raises(RankzeroError, match="which launch"):
        find.one_run(options())
    with pytest.raises(RankzeroError, match="is not a run directory"):
        find.one_run(options(run_dir="/tmp"))
    with pytest.raises(RankzeroError, match="cannot be read on this host"):
        find.one_run(options(run_dir=str(tmp_path / "runs" / "gpt" / KEY / "7")))


def test_nothing_found_says_where_and_what_slurm_knows(tmp_path: Path) -> None:
    root = str(tmp_path)
    found = launch_list.job_info(FakeSlurm().slurm(), options(state_root=root, name="gpt"))
    nothing = {"launches": [], "omitted": 0, "slurm_commands": 0}
    assert found == {
        **nothing,
        "message": f"no launch with name gpt is recorded under {root}; nothing was launched there yet",
    }
    found = launch_list.job_info(gone().slurm(), options(state_root=root, job_id="7"))
    assert found["message"].endswith("and Slurm does not know that job")
    found = launch_list.job_info(queue("RUNNING", Name="other").slurm(), options(state_root=root, job_id="7"))
    assert "Slurm knows the job as 'other' (RUNNING)" in found["message"]


def test_the_final_report_lets_slurm_close_the_job(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome())
    closing, closed = said(row("COMPLETING")), said(row("COMPLETED", EndTime=str(int(NOW))))
    fake = FakeSlurm(squeue=[closing, closing, closed])
    naps: list[float] = []
    found = launches.final_report(
        fake.slurm(), select.open_run(str(run)), settle=3.0, sleep=naps.append, clock=lambda: sum(naps)
    )
    assert (found.slurm_state, found.completed, len(naps)) == ("COMPLETED", True, 2)


def test_the_final_report_does_not_wait_for_ever(tmp_path: Path) -> None:
    run = make_run(tmp_path, *SUBMITTED, started_json=started(), outcome_json=outcome())
    naps: list[float] = []
    found = launches.final_report(
        queue("COMPLETING").slurm(),
        select.open_run(str(run)),
        settle=3.0,
        sleep=naps.append,
        clock=lambda: sum(naps),
    )
    assert (found.slurm_state, found.completed, found.success) == ("COMPLETED", True, True)
    assert sum(naps) <= 3.0


def test_the_final_report_of_what_still_runs_is_immediate(tmp_path: Path) -> None:
    fake = queue("RUNNING")
    found = launches.final_report(fake.slurm(), select.open_run(str(make_run(tmp_path, *SUBMITTED))), settle=3.0)
    assert found.completed is False and fake.programs.count("squeue") == 1
