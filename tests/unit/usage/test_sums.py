# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module usage_info: sums over launches, with one question to accounting; launches that have ended are read once."""

from __future__ import annotations

import csv
import getpass
import io
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import history
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.usage import launch_ledger
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.accounting import COLUMNS
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.step_times import StepTimes, read_step_times
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import ARGUMENTS, usage
from tests.unit.page.runs import write_attempt
from tests.unit.run.test_launches import make_run, outcome, started
from tests.unit.slurm.recorded import NO_ACCOUNTING, UNKNOWN_ID, FakeSlurm, said

# A launch is indexed some minutes after its end.
ENDED = time.time() - 7200
MONTH = time.strftime("%Y-%m", time.localtime(ENDED - 3600))


def launches(root: Path, count: int, *, name: str = "gpt") -> None:
    """Launches that held two nodes for an hour each, of which the last ten minutes made no steps."""
    for number in range(count):
        job = str(100 + number)
        began = ENDED - 3600
        journal = [{"time": began - 60, "event": "intent"}, {"time": began - 59, "event": "submitted", "job_id": job}]
        run = make_run(
            root, *journal, name=name, key=f"{number:016x}", claim=f"1 lab {job}\n",
            asked=lambda made: made.launch({"resources": {"account": "asked"}}),
            started_json=started(job_id=job, time=began), outcome_json=outcome(job_id=job, began=began, at=ENDED),
        )  # fmt: skip
        if number == 0:
            write_attempt(run, 0, 1, range(300), began, 10.0)


def slurm(count: int, **answers: Any) -> FakeSlurm:
    """Accounting knows the first `count` jobs."""
    rows = []
    for number in range(count):
        times = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(ENDED - ago)) for ago in (3660, 3600, 0)]
        account = "physics" if number % 2 else "biology"
        tres = "gres/gpu=16,node=2"
        values = [str(100 + number), *times, "3600", "2", tres, "3600000", "ada", account]
        assert len(values) == len(COLUMNS)
        rows.append(parse.FIELD.join(values) + "\n")
    return FakeSlurm(**{"squeue": said(""), "scontrol": UNKNOWN_ID, "sacct": said("".join(rows)), **answers})


def summed(fake: FakeSlurm, root: Path, **given: Any) -> dict[str, Any]:
    options = {name: option.get("default") for name, option in ARGUMENTS.items()}
    return usage(fake.slurm(), {**options, "state_root": str(root), **given})


def test_the_sums_of_some_launches(tmp_path: Path) -> None:
    launches(tmp_path, 3)
    result = summed(slurm(2), tmp_path)
    by_account = {row["account"]: row for row in result["rows"]}
    assert set(by_account) == {"biology", "physics", "asked"} and {row["month"] for row in result["rows"]} == {MONTH}
    assert (by_account["biology"]["user"], by_account["biology"]["launches"]) == ("ada", 1)
    assert by_account["biology"]["node_hours"] == 2 and by_account["biology"]["gpu_hours"] == 16
    assert by_account["biology"]["energy_kwh"] == 1 and by_account["biology"]["queue_hours"] == pytest.approx(
        1 / 60, abs=0.001
    )
    assert by_account["biology"]["steps"] == pytest.approx(2 * 2990 / 3600, abs=0.01)
    assert by_account["physics"]["steps"] is None and by_account["physics"]["not known"] == pytest.approx(2, abs=0.01)
    # Accounting does not know the third one.
    assert by_account["asked"]["estimated"] == 1 and by_account["asked"]["gpu_hours"] is None
    assert by_account["asked"]["node_hours"] == pytest.approx(2)
    assert by_account["asked"]["user"] == getpass.getuser()
    (everything,) = summed(slurm(3), tmp_path, by=["name"])["rows"]
    assert everything["launches"] == 3 and everything["node_hours"] == 6 and everything["estimated"] == 0
    table = list(csv.DictReader(io.StringIO(result["csv"])))
    assert [row["account"] for row in table] == ["biology", "physics", "asked"] and table[2]["gpu_hours"] == ""
    assert result["lines"][0].split()[:4] == ["user", "account", "month", "launches"] and len(result["lines"]) == 4


def test_only_some_months_and_one_name(tmp_path: Path) -> None:
    launches(tmp_path, 2)
    launches(tmp_path, 1, name="other")
    assert summed(slurm(3), tmp_path, name="other", by=["name"])["rows"][0]["launches"] == 1
    assert summed(slurm(3), tmp_path, since="2999-01")["rows"] == []
    assert summed(slurm(3), tmp_path, until="2000-12")["lines"] == []
    assert len(summed(slurm(3), tmp_path, since=MONTH, until=MONTH, by=["month"])["rows"]) == 1
    for wrong in ("2026", "2026-13", "March", "2026-03-01"):
        with pytest.raises(RankzeroError, match=f"since: '{wrong}' is not a month; write YEAR-MONTH"):
            summed(slurm(3), tmp_path, since=wrong)


def test_launches_that_have_ended_are_read_once(tmp_path: Path) -> None:
    count = history.WORTH_AN_INDEX + 8
    launches(tmp_path, count)
    first = slurm(count)
    rows = summed(first, tmp_path)["rows"]
    assert first.programs.count("sacct") >= 1
    for log in tmp_path.glob("runs/*/*/1/logs/0/*"):
        log.write_text("")
    again = slurm(count)
    assert summed(again, tmp_path)["rows"] == rows and again.programs == []
    assert (tmp_path / "index" / "usage").exists()
    # What the index says of a launch counts only as long as its run directory is the same.
    changed = next((tmp_path / "runs" / "gpt" / f"{0:016x}").iterdir())
    (changed / "outcome.json").touch()
    third = slurm(count)
    summed(third, tmp_path)
    assert "sacct" in third.programs


def test_what_accounting_does_not_know_yet_is_asked_again(tmp_path: Path) -> None:
    count = history.WORTH_AN_INDEX + 8
    launches(tmp_path, count)
    late = slurm(count - 1)
    assert sum(row["estimated"] for row in summed(late, tmp_path)["rows"]) == 1
    assert sum(row["estimated"] for row in summed(slurm(count), tmp_path)["rows"]) == 0
    # Without accounting there is nothing to wait for.
    other = tmp_path / "other"
    other.mkdir()
    launches(other, count)
    assert {row["estimated"] for row in summed(slurm(0, sacct=NO_ACCOUNTING), other)["rows"]} == {count}
    nothing = slurm(0)
    assert summed(nothing, other)["rows"][0]["launches"] == count and nothing.programs == []


def test_a_log_that_cannot_be_read_is_a_warning_and_its_hours_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches(tmp_path, 2)

    def unreadable(root: Beneath, *_rest: Any) -> StepTimes:
        if f"{1:016x}" in root.path:
            raise OverflowError("int too large")
        return read_step_times(root, *_rest)

    monkeypatch.setattr(launch_ledger, "read_step_times", unreadable)
    fake = slurm(2).slurm()
    options = {name: option.get("default") for name, option in ARGUMENTS.items()}
    (row,) = usage(fake, {**options, "state_root": str(tmp_path), "by": ["name"]})["rows"]
    assert (row["launches"], row["node_hours"]) == (2, 4) and row["steps"] > 0
    (note,) = [note for note in fake.notes if "its logs" in note]
    assert note.startswith(f"gpt/{1:016x}/1: its logs cannot be read (OverflowError: int too large)")
