# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks are bound to (L11): said by each task, put into the preflight's table, judged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT

RUNTIME = ROOT / "plugins" / "runtime"
TABLE = "n1 proj=ok\nn2 proj=ok\ninterface ib0"


def said(task: int, node: str, cpus: str, gpus: str = "none", online: str = "0-15") -> str:
    return f"[binding] task={task} node={node} cpus={cpus} online={online} gpus={gpus}"


def judged(
    folder: Path,
    lines: list[str],
    *,
    tasks: int = 2,
    cpus: int = 2,
    gpus: int = 0,
    table: str = TABLE,
    verdict: int = 0,
) -> tuple[int, list[str]]:
    log = folder / "step.log"
    log.write_text("\n".join(lines) + "\n")
    options = ["--verdict", verdict, "--tasks-per-node", tasks, "--cpus-per-task", cpus, "--gpus", gpus]
    command = [sys.executable, "-I", str(RUNTIME / "binding.py"), str(log), *map(str, options)]
    done = subprocess.run(command, input=table + "\n", capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_nodes_that_are_alike_share_a_line_before_the_verdict(tmp_path: Path) -> None:
    lines = [
        "srun: something else",
        said(3, "n2", "2-3", "0,1"),
        said(0, "n1", "0-1", "0,1"),
        said(2, "n2", "0,1", "0,1"),
        # Slurm's --label, and a step that ran twice.
        said(1, "n1", "0-15", "0,1"),
        "1: " + said(1, "n1", "2-3", "0,1"),
    ]
    code, table = judged(tmp_path, lines, gpus=2)
    assert code == 0
    assert table == ["n1 proj=ok", "n2 proj=ok", "bound n1,n2 0:cpus=0-1,gpus=0-1 1:cpus=2-3,gpus=0-1", "interface ib0"]


@pytest.mark.parametrize(
    ("lines", "options", "sentence"),
    [
        (
            [said(0, "n1", "0"), said(1, "n1", "1-2")],
            {},
            (
                "n1: task 0 is bound to 1 CPU (0) for 2 that the job asked for (resources.cpus_per_rank, "
                "launcher.srun.cpu-bind)"
            ),
        ),
        (
            [said(0, "n1", "0-1", "GPU-1a"), said(1, "n1", "2-3", "GPU-1a,GPU-2b")],
            {"gpus": 2},
            (
                "n1: task 0 sees 1 GPU (GPU-1a) for 2 that the job asked for (resources.gpus_per_node, "
                "launcher.srun.gpu-bind)"
            ),
        ),
        (
            [said(0, "n1", "0-1"), said(1, "n1", "0-1")],
            {},
            "n1: its 2 tasks share 2 CPUs (0-1) for 4 that the job asked for (launcher.srun.cpu-bind)",
        ),
    ],
)
def test_too_few_is_the_verdict(tmp_path: Path, lines: list[str], options: dict[str, int], sentence: str) -> None:
    code, table = judged(tmp_path, lines, **options)
    assert (code, table[-1]) == (1, sentence)


def test_a_lab_that_promises_more_cpus_than_there_are_is_no_error(tmp_path: Path) -> None:
    lines = [said(0, "n1", "0-1", online="0-1"), said(1, "n1", "0-1", online="0-1")]
    assert judged(tmp_path, lines, cpus=16)[0] == 0


def test_another_verdict_stays_the_last_word(tmp_path: Path) -> None:
    table = "n1 proj=missing\nn1: the code is not here"
    code, lines = judged(tmp_path, [said(0, "n1", "0")], table=table, verdict=1)
    assert (code, lines) == (1, ["n1 proj=missing", "bound n1 0:cpus=0", "n1: the code is not here"])


def test_without_a_word_the_table_stays_as_it_is(tmp_path: Path) -> None:
    assert judged(tmp_path, ["srun: error"], table="n1 proj=ok") == (0, ["n1 proj=ok"])


@pytest.mark.parametrize(("local", "goes_on"), [("0", True), ("1", False)])
def test_the_first_task_of_a_node_goes_on(local: str, goes_on: bool) -> None:
    own = {"SLURM_PROCID": "5", "SLURM_LOCALID": local, "SLURMD_NODENAME": "n3", "CUDA_VISIBLE_DEVICES": "0,1"}
    command = ["taskset", "--cpu-list", "0", "/bin/bash", str(RUNTIME / "binding.sh"), "echo", "it goes on"]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=True)
    first, *rest = done.stdout.splitlines()
    assert first.startswith("[binding] task=5 node=n3 cpus=0 online=0") and first.endswith(" gpus=0,1")
    assert rest == (["it goes on"] if goes_on else [])
