# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import Claim, RunDirectory, generations
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files, write_text
from tests.writers import Run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "3").mkdir()
    return RunDirectory(str(tmp_path / "3"))


def write(run: RunDirectory, name: str, text: str) -> None:
    Path(run.file(name)).write_text(text, encoding="utf-8")


def test_events_are_read_in_the_order_of_writing(run: RunDirectory) -> None:
    run.record("intent", submitter="a:1")
    run.record("submitted", job_id="7", message="line\nline \u2028 é")
    assert [event["event"] for event in run.events()] == ["intent", "submitted"]
    assert run.events()[1]["message"] == "line\nline \u2028 é"
    assert run.generation == 3
    assert run.job_id() == "7"


@pytest.mark.parametrize(
    "half", ['{"event": "inte', '{"event": "intent"}\n{"time": 1, "ev', "\0\0\0", "[]\n3\nnull\n{}"]
)
def test_a_half_line_swallows_no_later_event(run: RunDirectory, half: str) -> None:
    write(run, "journal.jsonl", half)
    run.record("submitted", job_id="7")
    assert run.job_id() == "7"
    assert run.events()[-1]["event"] == "submitted"


def test_a_run_directory_without_anything_says_nothing(run: RunDirectory) -> None:
    for empty in (run, RunDirectory("/nonexistent/1")):
        assert (empty.events(), empty.claim(), empty.started(), empty.outcome()) == ([], None, None, None)
        assert (empty.job_id(), empty.rejected(), empty.forget_secrets()) == (None, None, False)


def test_the_claim_decides_over_the_journal(run: RunDirectory) -> None:
    run.record("submitted", job_id="7")
    run.record("adopted", job_id="8")
    assert run.job_id() == "8"
    write(run, "claim", "3 lab 7\n")
    assert run.claim() == Claim(3, "lab", "7")
    assert run.job_id() == "7"


@pytest.mark.parametrize("text", ["", "3 lab", "x lab 7", "3 lab 7 more"])
def test_a_claim_that_is_none(run: RunDirectory, text: str) -> None:
    write(run, "claim", text)
    assert run.claim() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_half_an_outcome_is_none(run: RunDirectory, text: str) -> None:
    write(run, "outcome.json", text)
    assert run.outcome() is None


def test_the_outcome_of_an_older_attempt_is_void_unless_it_is_a_proof(run: RunDirectory) -> None:
    def told() -> tuple[int, bool] | None:
        outcome = run.outcome()
        return None if outcome is None else (outcome["attempt"], outcome["success"])

    job = Run(Path(run.path)).ended(1)
    assert told() == (0, False)
    job.started(1)
    assert told() is None and run.document("outcome.json") is not None
    # A slow node may prove an attempt after Slurm has begun the next one elsewhere.
    job.ended(0, number=0)
    assert told() == (0, True)
    job.ended(1, number=1)
    assert told() == (1, False)


def test_only_the_newest_event_is_a_refusal(run: RunDirectory) -> None:
    run.record("rejected", message="no")
    assert run.rejected() == "no"
    run.record("intent")
    assert run.rejected() is None


def test_generations_are_ordered_as_numbers(tmp_path: Path) -> None:
    for name in ("10", "9", "1", ".new-x", "note", "²"):
        (tmp_path / name).mkdir()
    assert [run.generation for run in generations(str(tmp_path))] == [1, 9, 10]
    assert generations(str(tmp_path / "none")) == []


def test_files_are_published_once_and_whole(tmp_path: Path) -> None:
    target = tmp_path / "store" / "runtime" / "key"
    assert publish_files(str(target), {"a.sh": "é\n", "b.py": ""}) is True
    assert (target / "a.sh").read_text(encoding="utf-8") == "é\n"
    assert publish_files(str(target), {"a.sh": "é\n", "b.py": ""}) is False
    assert publish_files(str(target), {"a.sh": "other"}) is True
    assert [path.name for path in target.parent.iterdir()] == ["key"]
    assert [path.name for path in target.iterdir()] == ["a.sh"]


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"state_root: cannot write .*launch_cluster.state_root"):
        publish_files(str(tmp_path / "file" / "key"), {"a": "b"})


def test_text_is_written_only_where_it_differs(tmp_path: Path) -> None:
    path = tmp_path / "job.sbatch"
    planned = write_text(str(path), "new\n", check_mode=True)
    assert planned["changed"] is True
    assert not path.exists()
    assert write_text(str(path), "new\n")["diff"] == planned["diff"]
    assert path.read_text(encoding="utf-8") == "new\n"
    assert write_text(str(path), "new\n") == {"changed": False, "path": str(path), "diff": {}}
    with pytest.raises(RankzeroError, match="its folder must exist"):
        write_text(str(tmp_path / "none" / "x"), "text")
    with pytest.raises(RankzeroError, match="cannot be read: Is a directory"):
        write_text(str(tmp_path), "text")
