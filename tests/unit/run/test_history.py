# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of ended launches never says anything else than the run directories."""

from __future__ import annotations

import functools
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import cluster
from ansible_collections.rankzero.slurm.plugins.module_utils.run import status
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import find, history, launch_list, walk
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import SQUEUE_COLUMNS
from tests.unit.slurm.recorded import NO_CONTROLLER, UNKNOWN_ID, FakeSlurm, said
from tests.writers import Run

COUNT = 40
ENDED = time.time() - 3600
ELEMENT = "/bee0000000000039/"


@pytest.fixture
def state_root(tmp_path: Path) -> Path:
    """Forty launches, all ended an hour ago but the first, which runs. The last one is a sweep's element."""
    root = tmp_path / "state"
    for number in range(COUNT):
        made = launched(root, number)
        submitted = {"time": ENDED - 59, "event": "submitted", "job_id": made.job_id}
        if number == COUNT - 1:
            made.job_id = "900_3"
            made.journal({"time": ENDED - 60, "event": "intent", "array": ".sweep-ab/1", "task": 3})
            Run.below(root, "job3", ".sweep-ab").journal({**submitted, "job_id": "900"})
        else:
            made.journal({"time": ENDED - 60, "event": "intent"}, submitted)
        if number:
            end(made)
    return root


def launched(root: Path, number: int) -> Run:
    """One of the forty, and its job."""
    run = Run.below(root, f"job{number % 4}", f"bee{number:013d}")
    run.job_id = str(100 + number)
    return run


def end(run: Run, at: float = ENDED) -> None:
    """Every third one has failed."""
    run.ended(int(int(run.path.parent.name[3:]) % 3 == 0), began=ENDED - 50, at=at)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run directories that are read."""
    paths: list[str] = []
    original = RunDirectory.snapshot

    def snapshot(run: RunDirectory) -> object:
        paths.append(run.path)
        return original(run)

    monkeypatch.setattr(RunDirectory, "snapshot", snapshot)
    return paths


def listed(root: Path, **more: Any) -> list[dict[str, Any]]:
    return list(job_info(root, **more)["launches"])


def job_info(root: Path, **more: Any) -> dict[str, Any]:
    values = dict.fromkeys(SQUEUE_COLUMNS, "N/A") | {"JobArrayID": "100", "State": "RUNNING", "Reason": "None"}
    running = parse.FIELD.join({**values, "Name": "job0.bee0000000000000.1"}.values()) + parse.RECORD + "\n"
    fake = FakeSlurm(squeue=said(running), scontrol=UNKNOWN_ID, sacct=said(""))
    return launch_list.job_info(fake.slurm(), {"state_root": str(root), "newest": True, "active": False, **more})


def test_what_has_ended_is_read_once(state_root: Path, read: list[str]) -> None:
    first = listed(state_root)
    assert len(first) == COUNT and {launch["success"] for launch in first} == {True, False}
    counts = Counter(read)
    running = counts.pop(str(state_root / "runs" / "job0" / "bee0000000000000" / "1"))
    assert running > 1, "what may change is read again after Slurm has answered"
    assert len(counts) == COUNT - 1 and set(counts.values()) == {1}, "what has ended is read once"
    read.clear()
    assert listed(state_root) == first
    assert {path.rsplit("/", 2)[1] for path in read} == {"bee0000000000000"}, "it has not ended"
    read.clear()
    assert [launch["job_id"] for launch in listed(state_root, active=True)] == ["100"] and len(set(read)) == 1
    end(launched(state_root, 0), time.time())
    over = launch_list.job_info(
        FakeSlurm(squeue=said(""), scontrol=UNKNOWN_ID, sacct=said("")).slurm(),
        {"state_root": str(state_root), "active": True},
    )
    assert over["message"].startswith("no active launch is recorded under ")
    assert (state_root / "index" / "launches").stat().st_mode & 0o777 == 0o600


def test_the_claim_of_what_has_ended_is_not_read_again(state_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another job may claim a launch whose job Slurm does not know, but not one that has ended long ago."""
    runs = sorted(state_root.glob("runs/*/bee*/1"), key=lambda run: run.parent.name)
    for number, run in enumerate(runs):
        Run(run, str(100 + number)).claimed()
    end(launched(state_root, 1), time.time() - 5)
    opened: list[int] = []
    open_ = os.open

    def counted(path: str, *rest: Any, **more: Any) -> int:
        descriptor = open_(path, *rest, **more)
        if path == "claim":
            opened.append(os.fstat(descriptor).st_ino)
        return descriptor

    monkeypatch.setattr(os, "open", counted)
    assert len(listed(state_root)) == COUNT
    counts = Counter(opened)
    often = {number for number, run in enumerate(runs) if counts[(run / "claim").stat().st_ino] > 1}
    assert often == {0, 1}, "the one that runs, and the one that has just ended"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each name is opened or looked at, from the folder of a key on."""
    counted: Counter[str] = Counter()

    def of(call: Callable[..., Any], path: object, *rest: Any, **more: Any) -> Any:
        counted[str(path)[max(0, str(path).find("bee")) :]] += 1
        return call(path, *rest, **more)

    monkeypatch.setattr(history, "RACY", -1.0)
    monkeypatch.setattr(os, "open", functools.partial(of, os.open))
    monkeypatch.setattr(os, "stat", functools.partial(of, os.stat))
    return counted


def test_a_list_looks_at_two_folders_of_an_ended_launch(state_root: Path, calls: Counter[str]) -> None:
    whole = job_info(state_root, limit=2)
    calls.clear()
    assert job_info(state_root, limit=2)["launches"] == whole["launches"]
    shown = {os.path.basename(os.path.dirname(launch["run_dir"])) for launch in whole["launches"]}
    assert len(shown) == 3 and "bee0000000000000" in shown
    hidden = {name: count for name, count in calls.items() if name.startswith("bee") and name[:16] not in shown}
    assert set(hidden.values()) == {1} and {name[16:] for name in hidden} == {"", "/1"}
    assert len(hidden) == 2 * (COUNT - 3), "the folder of its key, and its own"
    of_one = {name[16:] for name in calls if name[:16] in shown - {"bee0000000000000"}}
    assert of_one == {"", "/1", "/1/journal.jsonl", "/1/outcome.json"}, "no file that it does not have"


def test_where_the_file_system_takes_its_time_several_launches_are_looked_at_at_once(
    state_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, threads, looked_at = listed(state_root), set[int](), history._change

    def change(path: str, folder: int | None = None) -> str:
        threads.add(threading.get_ident())
        return looked_at(path, folder)

    monkeypatch.setattr(history, "_change", change)
    monkeypatch.setattr(walk, "A_FEW", 3)
    monkeypatch.setattr(walk, "SLOW", 1e9)
    assert listed(state_root) == first and threads == {threading.get_ident()}
    monkeypatch.setattr(walk, "SLOW", -1.0)
    assert listed(state_root) == first and len(threads) > 1
    # A new generation is seen by whoever looks at it, and what stands in for a folder hides nothing else.
    again = Run.below(state_root, "job3", "bee0000000000007", 2)
    again.journal({"time": ENDED, "event": "intent"})
    (state_root / "runs" / "job2" / "bee00000000000ff").write_text("")
    keys = {launch["key"]: launch["generation"] for launch in listed(state_root)}
    assert keys == {**{launch["key"]: 1 for launch in first}, "bee0000000000007": 2}


def test_what_is_shown_is_compared_with_each_file(state_root: Path, read: list[str]) -> None:
    """A file that is changed in place leaves the time of its folder."""
    for number in (7, 9):
        end(launched(state_root, number), ENDED + number)
    job_info(state_root, limit=2)
    run = launched(state_root, 9)
    (run.path / "outcome.json").write_text((run.path / "outcome.json").read_text().replace("false", "true"))
    read.clear()
    (now,) = [launch for launch in listed(state_root, limit=2) if launch["job_id"] == "109"]
    assert now["outcome"] == RunDirectory(str(run.path)).outcome() and str(run.path) in read


@pytest.mark.parametrize("again", [1, 2])
def test_a_generation_that_comes_or_goes_is_seen(
    state_root: Path, calls: Counter[str], read: list[str], again: int
) -> None:
    listed(state_root)
    first = launched(state_root, 5)
    second = Run(first.path.with_name("2"), "205")
    for _look in range(again):
        second.journal({"time": ENDED - 60, "event": "intent"})
        second.journal({"time": ENDED - 59, "event": "submitted", "job_id": "205"}).ended(at=ENDED)
        assert "205" in {launch["job_id"] for launch in listed(state_root)}
        calls.clear()
        read.clear()
        assert "205" in {launch["job_id"] for launch in listed(state_root)}
        assert calls["bee0000000000005"] == 1 and {path.rsplit("/", 2)[1] for path in read} == {"bee0000000000000"}
        shutil.rmtree(second.path)
        assert {launch["job_id"] for launch in listed(state_root)} == {
            launch["job_id"] for launch in listed(state_root, newest=False)
        }
        assert "105" in {launch["job_id"] for launch in listed(state_root)}
        calls.clear()
        listed(state_root)
        assert calls["bee0000000000005"] == 1, "its folder is not listed again"
        (second.path / "logs").mkdir(parents=True)


def test_a_reconciliation_reads_no_ended_launch_again(state_root: Path, read: list[str]) -> None:
    def look() -> list[Any]:
        values = dict.fromkeys(SQUEUE_COLUMNS, "N/A") | {"JobArrayID": "100", "State": "RUNNING", "Reason": "None"}
        running = parse.FIELD.join({**values, "Name": "job0.bee0000000000000.1"}.values()) + parse.RECORD + "\n"
        fake = FakeSlurm(squeue=said(running), scontrol=UNKNOWN_ID, sacct=said(""))
        return cluster.newest_generations(fake.slurm(), str(state_root), "set", [f"job{number}" for number in range(4)])

    for run in state_root.glob("runs/*/bee*/1"):
        # The first that a job writes.
        Run(run, str(100 + int(run.parent.name[3:]))).claimed()
    without = look()
    assert len(without) == COUNT and {launch.standing for launch in without} == {"running", "succeeded", "failed"}
    listed(state_root)
    read.clear()
    assert look() == without
    assert {path.rsplit("/", 2)[1] for path in read} == {"bee0000000000000"}, "it has not ended"
    index = state_root / "index" / "launches"
    index.write_text(index.read_text().replace('"success": false', '"success": true'))
    assert look() == without, "a damaged line is not believed"


def append_an_event(run: Path) -> None:
    Run(run).journal({"time": ENDED + 5, "event": "cancelled"})


def prove_it(run: Path) -> None:
    Run(run, "103").ended(at=ENDED)


def begin_another_attempt(run: Path) -> None:
    Run(run, "103").numbered(1).started(1)


def claim_it(run: Path) -> None:
    Run(run, "4711", "other").claimed()


def hide_it(run: Path) -> None:
    run.chmod(0o777)


@pytest.mark.parametrize("change", [append_an_event, prove_it, begin_another_attempt, claim_it, hide_it])
def test_a_run_directory_that_changes_is_read_again(
    state_root: Path, read: list[str], change: Callable[[Path], None]
) -> None:
    before = listed(state_root)
    run = state_root / "runs" / "job3" / "bee0000000000003" / "1"
    change(run)
    read.clear()
    after = listed(state_root)
    assert str(run) in read
    changed = [new for old, new in zip(before, after) if old != new]
    assert [launch["run_dir"] for launch in changed] == [str(run)]
    (state_root / "index" / "launches").unlink()
    assert listed(state_root) == after, "as without the index"


def test_an_element_is_read_again_when_its_array_changes(state_root: Path, read: list[str]) -> None:
    listed(state_root)
    (array,) = state_root.glob("runs/*/.sweep-ab/1/journal.jsonl")
    Run(array.parent).journal({"time": ENDED + 5, "event": "submitted", "job_id": "901"})
    read.clear()
    listed(state_root)
    assert any(ELEMENT in path for path in read)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"success": true', '"success": false'),
        lambda text: text.replace(" job1/", " job2/"),
        lambda text: "\0" * len(text),
        lambda text: "[" * 100_000 + text,
        lambda text: "\n".join(line.rpartition(" ")[0] for line in text.splitlines()),
        # As an earlier version wrote it.
        lambda text: re.sub(r"@[0-9.]+@\S* ", " ", text),
        lambda text: re.sub(r"(@[0-9.]+)@\S* ", r"\1 ", text),
        lambda text: text.replace("@1", "@9"),
    ],
)
def test_damage_is_not_believed(state_root: Path, damage: Callable[[str], str]) -> None:
    whole = listed(state_root)
    index = state_root / "index" / "launches"
    index.write_text(damage(index.read_text()))
    assert listed(state_root) == whole
    assert listed(state_root) == whole, "nor what was added after the damage"


def test_an_index_that_others_may_write_and_a_link_are_not_read(state_root: Path, read: list[str]) -> None:
    whole = listed(state_root)
    index = state_root / "index" / "launches"
    index.chmod(0o666)
    read.clear()
    assert listed(state_root) == whole and len(set(read)) == COUNT
    index.rename(state_root / "elsewhere")
    index.symlink_to(state_root / "elsewhere")
    content = (state_root / "elsewhere").read_bytes()
    read.clear()
    assert listed(state_root) == whole and len(set(read)) == COUNT
    assert (state_root / "elsewhere").read_bytes() == content


def test_only_what_is_settled_is_kept(state_root: Path, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SETTLED", 2 * 3600.0)
    listed(state_root)
    assert not (state_root / "index").exists(), "the job and Slurm may still write"
    monkeypatch.setattr(history, "SETTLED", 600.0)
    silent = FakeSlurm(squeue=NO_CONTROLLER).slurm()
    launch_list.job_info(silent, {"state_root": str(state_root), "newest": True, "active": False})
    assert not (state_root / "index").exists(), "Slurm has not answered"


def test_superseded_lines_go(state_root: Path) -> None:
    run = state_root / "runs" / "job3" / "bee0000000000003" / "1"
    listed(state_root)
    index = state_root / "index" / "launches"
    line = next(line for line in index.read_text().splitlines() if "bee0000000000003" in line)
    index.write_text(index.read_text() + f"{line}\n" * 200)
    append_an_event(run)
    whole = listed(state_root)
    assert len(index.read_text().split("\n")) < 2 * COUNT and listed(state_root) == whole


def test_the_most_recent_launches_are_listed_and_all_active_ones(state_root: Path) -> None:
    for number in (7, 9):
        end(launched(state_root, number), ENDED + number)
    for _with_and_without_index in range(2):
        found = job_info(state_root, limit=2)
        assert [launch["job_id"] for launch in found["launches"]] == ["100", "109", "107"]
        assert found["omitted"] == COUNT - 3
    assert job_info(state_root, limit=COUNT)["omitted"] == 0 == job_info(state_root)["omitted"]


def test_a_few_launches_cost_no_index(state_root: Path) -> None:
    assert len(listed(state_root, name="job1")) == COUNT // 4
    assert not (state_root / "index").exists()
    facts = status.RunFacts.read(RunDirectory(str(state_root / "runs" / "job1" / "bee0000000000001" / "1")))
    assert facts.outcome is not None and os.path.isdir(state_root)


def test_a_job_is_found_without_reading_what_the_index_rules_out(
    state_root: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(state_root)
    read.clear()
    looked: list[str] = []
    with monkeypatch.context() as patch:
        stamp = history._stamp
        patch.setattr(history, "_stamp", lambda base, *rest, **more: looked.append(base) or stamp(base, *rest, **more))
        (run,) = find.find_runs(str(state_root), job_id="117")
    assert run.path.endswith("bee0000000000017/1") and looked == [], "no ended launch gets another job"
    # The job itself, and the launch that has not ended.
    assert len(read) == 2, read
    # The index is no truth: a line that says another job, or is damaged, changes nothing.
    index = state_root / "index" / "launches"
    index.write_text(index.read_text().replace('"117"', '"999"'))
    (run,) = find.find_runs(str(state_root), job_id="117")
    assert run.path.endswith("bee0000000000017/1")
    assert find.find_runs(str(state_root), job_id="999") == []
    # What has been launched since is read.
    Run(Path(run.path)).journal({"event": "submitted", "job_id": "555"})
    assert [each.path for each in find.find_runs(str(state_root), job_id="555")] == [run.path]
    index.write_bytes(b"\xff\x00 broken\n" + index.read_bytes()[:1000])
    assert [each.path for each in find.find_runs(str(state_root), job_id="555")] == [run.path]
