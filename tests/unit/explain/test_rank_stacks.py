# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking the nodes for the stacks of their ranks: the request, the answers to it, and nodes that do not answer."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import standstill
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import rank_stacks
from ansible_collections.rankzero.slurm.plugins.module_utils.run import rank_looks
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from tests.writers import Run


def test_only_answers_to_this_request_count(tmp_path: Path) -> None:
    made = Run.below(tmp_path)
    folder = made.path / "stacks" / "0"
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        request = (folder / "request").read_text().strip()
        for node, number in (("node01", request), ("node02", "an older one")):
            (folder / f"{node}.json").write_text(json.dumps({"request": number, "node": node, "processes": []}))

    def ask(nodes: list[str]) -> list[object]:
        made.started(nodes=nodes, ranks=len(nodes))
        answers = rank_looks.query_ranks(RunDirectory(str(made.path)), 0, sleep)
        return [answer["node"] for answer in answers]

    assert ask(["node01"]) == ["node01"]
    assert now[0] < rank_looks.PATIENCE
    assert ask(["node01", "node02"]) == ["node01"]
    assert now[0] >= rank_looks.PATIENCE


def test_files_of_the_program_are_shown_below_the_run_directory(tmp_path: Path) -> None:
    made = Run.below(tmp_path).started(ranks=1)
    run = RunDirectory(str(made.path))
    places = (
        f"{run.path}/work/train.py",
        f"/store/code/{'c0de' * 8}/train.py",
        "/tmp/rankzero-260001-7-0badc0de/code/train.py",
    )
    folder = made.path / "stacks" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    for number, place in enumerate(places):
        row = {"rank": number, "stack": f'Current thread 0x1 (x):\n  File "{place}", line 31 in main\n'}
        (folder / f"node{number:02}.json").write_text(json.dumps({"node": f"node{number:02}", "processes": [row]}))
    states = standstill.states_of(rank_looks.recorded(run, 0))
    assert [state.place for state in states] == ["work/train.py:31, in main"] * 3


def test_dumps_of_torch_are_read_and_bad_ones_left_out(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "job" / ("a" * 16) / "1"
    folder = run / "stacks" / "2"
    folder.mkdir(parents=True)
    entry = {"process_group": ("0", "default_pg"), "collective_seq_id": 5, "profiling_name": "nccl:all_reduce"}
    (folder / "trace-3").write_bytes(pickle.dumps({"entries": [entry]}, protocol=2))
    (folder / "trace-4").write_bytes(pickle.dumps(os.getpid, protocol=2))
    (folder / "trace-5").symlink_to("/dev/zero")
    os.mkfifo(folder / "trace-6")
    (folder / "trace-x").write_bytes(b"")
    dumps = rank_stacks.dumps(RunDirectory(str(run)), 2)
    assert [(rank, group.operation, group.sequence) for rank, (group,) in dumps.items()] == [(3, "all_reduce", 5)]
    assert rank_stacks.dumps(RunDirectory(str(run)), 0) == {}


@pytest.mark.parametrize(
    ("silent", "sampled", "asked"), [(90.0, True, True), (5.0, True, False), (90.0, False, False)],
    ids=["silent", "its logs grow", "nobody answers"],
)  # fmt: skip
def test_before_a_cancellation_a_silent_job_is_looked_at(
    tmp_path: Path, silent: float, sampled: bool, asked: bool
) -> None:
    run = Run.below(tmp_path).started(1, nodes=["node01"], ranks=2).path
    for folder in ("logs/1", *(["monitor/1"] if sampled else [])):
        (run / folder).mkdir(parents=True, exist_ok=True)
        (run / folder / "rank-0000.log").write_text("step 8/99\n")
    now = (run / "logs/1/rank-0000.log").stat().st_mtime + silent
    slept = [0.0]

    def sleep(seconds: float) -> None:
        slept[0] += seconds
        if slept[0] > 1:
            request = (run / "stacks/1/request").read_text().strip()
            document = {"request": request, "time": now, "node": "node01", "processes": []}
            (run / "stacks/1/node01.json").write_text(json.dumps(document))

    directory = RunDirectory(str(run))
    assert rank_looks.before_the_end(directory, now, sleep) is asked
    assert bool(rank_looks.recorded(directory, 1)) is asked
    assert slept[0] <= rank_looks.SHORT
    assert rank_looks.before_the_end(RunDirectory(str(tmp_path / "runs" / "job" / ("b" * 16) / "1")), now) is False


def test_only_the_newest_look_of_the_nodes_counts(tmp_path: Path) -> None:
    """A node whose ranks have ended has left the answer that it gave when they began."""
    made = Run.below(tmp_path).started(ranks=2)
    folder = made.path / "stacks" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    for node, when in (("node01", 2000.0), ("node02", 1000.0), ("node03", 1990.0)):
        (folder / f"{node}.json").write_text(json.dumps({"node": node, "time": when, "processes": []}))
    nodes = [answer["node"] for answer in rank_looks.recorded(RunDirectory(str(made.path)), 0)]
    assert nodes == ["node01", "node03"]
