# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two jobs of one script, compared by what their programs have noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rankzero.sbatch.calls import calls, differences
from rankzero.sbatch.secret_words import values_in

VALUE = "correct-horse-battery"


def said(rank: int, job: str = "7", **changes: Any) -> str:
    """What one rank notes. changes: of its environment, or `arguments`, `folder` and `program`."""
    own = {"SLURM_JOB_ID": job, "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "RANKZERO_NAME": job, "A": "1"}
    call: dict[str, Any] = {"program": "python", "arguments": ["t.py", f"--out=/runs/{job}"], "folder": f"/runs/{job}"}
    call |= {name: changes.pop(name) for name in tuple(changes) if name in call}
    kept = {name: value for name, value in {**own, **changes}.items() if value is not None}
    return json.dumps({**call, "environment": kept})


def compared(launched: list[str], by_hand: list[str] | None = None, random: str = "") -> list[str]:
    plain = calls(by_hand or [said(0), said(1)], {"/runs/7": "FOLDER"}, random)
    return differences(plain, calls(launched, {"/runs/8": "FOLDER"}, random))


def test_two_jobs_of_one_script_do_not_differ() -> None:
    assert compared([said(1, "8"), said(0, "8")]) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"arguments": ["t.py"]}, "arguments: sbatch 't.py --out=FOLDER'; the job 't.py'"),
        ({"folder": "/runs/8/sub"}, "folder: sbatch 'FOLDER'; the job 'FOLDER/sub'"),
        ({"A": "2"}, "A: sbatch '1'; the job '2'"),
        ({"A": None}, "A: sbatch '1'; the job not set"),
        ({"B": "\udcff"}, "B: sbatch not set; the job '\\udcff'"),
        ({"SLURM_NTASKS": "4"}, "SLURM_NTASKS: sbatch '2'; the job '4'"),
    ],
)
def test_what_differs_is_named_once_with_its_ranks(changes: dict[str, Any], line: str) -> None:
    assert compared([said(rank, "8", **changes) for rank in (0, 1)]) == [f"python, ranks 0, 1: {line}"]
    assert compared([said(0, "8"), said(1, "8", **changes)]) == [f"python, rank 1: {line}"]


def test_a_rank_too_few_or_too_many_is_a_difference() -> None:
    call = "'python t.py --out=FOLDER' in 'FOLDER'"
    assert compared([said(0, "8")]) == [f"python, rank 1: only sbatch calls it: {call}"]
    assert compared([said(0, "8"), said(1, "8"), said(1, "8")]) == [f"python, rank 1: only the job calls it: {call}"]


def test_values_of_one_job_count_nowhere() -> None:
    launched, by_hand = (
        [said(0, job, MASTER_PORT=port, arguments=[f"--port={port}"])] for job, port in (("8", "20"), ("7", "10"))
    )
    assert compared(launched, by_hand, random="MASTER_PORT") == []
    assert len(compared(launched, by_hand)) == 2


def test_a_value_of_one_job_is_no_part_of_another_number() -> None:
    """A helper's process number was found in the number of steps."""
    steps = {"arguments": ["--steps=131072"]}
    assert compared([said(0, "8", PID="13", **steps)], [said(0, PID="7", **steps)], random="PID") == []


def on(nodes: str, names: list[str], job: str, port: str) -> list[str]:
    """What the ranks of a job on these nodes note, one on each; the first one's address is 10.0.0.JOB."""
    made = []
    for rank, name in enumerate(names):
        words = [
            "--nodelist",
            nodes,
            f"--node={name}",
            f"--to=tcp://{names[0]}:{port}",
            f"10.0.0.{job}",
            "data-70",
        ]
        own = {"SLURM_JOB_NODELIST": nodes, "SLURMD_NODENAME": name, "MASTER_ADDR": names[0], "MASTER_PORT": port}
        made.append(
            json.dumps({**json.loads(said(rank, job, arguments=words, **own)), "address": f"10.0.0.{job + rank * '1'}"})
        )
    return made


def test_the_nodes_of_a_job_have_the_same_words_in_both() -> None:
    """Also where a list is in brackets, where a name is within another one, and where a port belongs to the job."""
    plain, job = on("n[1-2]", ["n1", "n2"], "7", "23456"), on("n[09,11]", ["n09", "n11"], "8", "29999")
    folders = {"/runs/7": "FOLDER", "/runs/8": "FOLDER"}
    left, right = (calls(texts, folders, script="srun --nodes=2 t.py") for texts in (plain, job))
    assert left[0].arguments == (
        "--nodelist",
        "NODE0,NODE1",
        "--node=NODE0",
        "--to=tcp://NODE0:PORT",
        "ADDRESS0",
        "data-70",
    )
    assert differences(left, right) == []
    # Another order of the ranks is a difference.
    other = calls(on("n[1-2]", ["n2", "n1"], "7", "23456"), folders, script="")
    assert any("SLURMD_NODENAME: sbatch 'NODE0'; the job 'NODE1'" in line for line in differences(left, other))
    # So is a port that the script says, and any where there is no script to look into.
    for text in ("export MASTER_PORT=23456", None):
        kept = (calls(texts, folders, script=text) for texts in (plain, job))
        assert any("MASTER_PORT: sbatch '23456'" in line for line in differences(*kept))


def test_a_job_that_is_requeued_may_get_other_nodes() -> None:
    def attempts(*nodes: str) -> list[str]:
        places = [{"SLURM_JOB_NODELIST": node, "SLURMD_NODENAME": node} for node in nodes]
        return [said(0, folder="/w", arguments=[str(number)], **place) for number, place in enumerate(places)]

    assert differences(calls(attempts("n1", "n2"), {}), calls(attempts("n3", "n3"), {})) == []


def test_steps_at_once_may_change_their_places_and_one_alone_may_not() -> None:
    def steps(*pairs: tuple[str, str]) -> list[str]:
        return [
            said(0, arguments=[word], folder="/w", SLURM_JOB_NODELIST="n[1-2]", SLURMD_NODENAME=node)
            for word, node in pairs
        ]

    def differ(by_hand: list[str], launched: list[str]) -> list[str]:
        return differences(calls(by_hand, {}), calls(launched, {}))

    assert differ(steps(("a", "n1"), ("b", "n2")), steps(("a", "n2"), ("b", "n1"))) == []
    assert differ(steps(("a", "n1")), steps(("a", "n2"))) != []
    assert differ(steps(("a", "n1"), ("b", "n2")), steps(("a", "n2"), ("b", "n2"))) != []


@pytest.mark.parametrize("word", ["x[0-999999999999]", "[-]", "a[,]b", "[1-", "n[3-1]", "[]"])
def test_what_is_no_list_of_nodes_stays(word: str) -> None:
    (call,) = calls([said(0, arguments=[word], SLURM_JOB_NODELIST="n[1-2]")], {})
    assert call.arguments == (word,)


@pytest.mark.parametrize(
    "changes",
    [
        {"HF_TOKEN": VALUE},
        {"arguments": ["t.py", "--api-key", VALUE]},
        {"HF_TOKEN": VALUE, "arguments": ["t.py", VALUE], "B": f"x{VALUE}", "folder": f"/{VALUE}"},
        {"HF_TOKEN": VALUE, "SLURM_PROCID": "9", "arguments": [VALUE]},
    ],
)
def test_no_line_has_the_value_of_a_secret(changes: dict[str, Any]) -> None:
    lines = compared([said(0, "8", **changes), said(1, "8")])
    assert lines and VALUE not in "\n".join(lines)


@pytest.mark.parametrize(
    "text", [f"python t.py --api-key {VALUE}", f"# curl password {VALUE}", f"login: token={VALUE}"]
)
def test_a_secret_after_any_word_is_seen(text: str) -> None:
    assert VALUE in values_in(text)
