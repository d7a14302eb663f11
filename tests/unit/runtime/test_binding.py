# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks are bound to: said by each task, put into the preflight's table, judged."""

from __future__ import annotations

import os
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.repository import ROOT
from tests.unit.runtime.harness import runtime_parts

RUNTIME = ROOT / "plugins" / "runtime"


@pytest.fixture(scope="module")
def binding() -> Iterator[ModuleType]:
    with runtime_parts("preflight.binding") as part:
        yield part


def said(task: int, node: str, cpus: str, gpus: str = "none", online: str = "0-15") -> str:
    return f"[binding] task={task} node={node} cpus={cpus} online={online} gpus={gpus}"


def shortages(
    binding: ModuleType, lines: list[str], *, tasks: int = 2, cpus: int = 2, gpus: int = 0
) -> dict[str, list[str]]:
    wanted = Namespace(tasks_per_node=tasks, cpus_per_task=cpus, gpus=gpus)
    problems: dict[str, list[str]] = binding.shortages(binding.layouts("\n".join(lines) + "\n"), wanted)
    return problems


def test_nodes_that_are_alike_share_a_line(binding: ModuleType, tmp_path: Path) -> None:
    """Other lines and files are none of the tasks'."""
    (tmp_path / "_tasks.log").write_text(
        "\n".join(
            [
                "srun: something else",
                said(0, "n1", "0-1", "0,1"),
                # Slurm's --label, and a step that ran twice.
                said(1, "n1", "0-15", "0,1"),
                "1: " + said(1, "n1", "2-3", "0,1"),
                "3: " + said(3, "n2", "2-3", "0,1"),
                "2: " + said(2, "n2", "0,1", "0,1"),
            ]
        )
    )
    (tmp_path / "n3.log").write_text(said(4, "n3", "0"))
    nodes = binding.layouts(binding.output(tmp_path))
    assert binding.bound(nodes, 2) == ["bound n1,n2 0:cpus=0-1,gpus=0-1 1:cpus=2-3,gpus=0-1"]
    assert binding.bound({"n2": nodes["n2"]}, 0) == ["bound n2 0:cpus=0-1 1:cpus=2-3"]


@pytest.mark.parametrize(
    ("lines", "options", "sentence"),
    [
        (
            [said(0, "n1", "0"), said(1, "n1", "1-2")],
            {},
            (
                "task 0 is bound to 1 CPU (0) for 2 that the job asked for (resources.cpus_per_rank, "
                "launcher.srun.cpu-bind)"
            ),
        ),
        (
            [said(0, "n1", "0-1", "GPU-1a"), said(1, "n1", "2-3", "GPU-1a,GPU-2b")],
            {"gpus": 2},
            (
                "task 0 sees 1 GPU (GPU-1a) for 2 that the job asked for (resources.gpus_per_node, "
                "launcher.srun.gpu-bind)"
            ),
        ),
        (
            [said(0, "n1", "0-1"), said(1, "n1", "0-1")],
            {},
            "its 2 tasks share 2 CPUs (0-1) for 4 that the job asked for (launcher.srun.cpu-bind)",
        ),
    ],
)
def test_too_few_are_said_in_numbers(
    binding: ModuleType, lines: list[str], options: dict[str, int], sentence: str
) -> None:
    enough = [said(2, "n2", "0-1", "0,1"), said(3, "n2", "2-3", "0,1")]
    assert shortages(binding, [*lines, *enough], **options) == {"n1": [sentence]}


def test_a_lab_that_promises_more_cpus_than_there_are_is_no_error(binding: ModuleType) -> None:
    lines = [said(0, "n1", "0-1", online="0-1"), said(1, "n1", "0-1", online="0-1")]
    assert shortages(binding, lines, cpus=16) == {}


def test_who_said_nothing_is_not_judged(binding: ModuleType) -> None:
    assert shortages(binding, ["srun: error"]) == {}


@pytest.mark.parametrize(("local", "goes_on"), [("0", True), ("1", False)])
def test_the_first_task_of_a_node_goes_on(local: str, goes_on: bool) -> None:
    own = {"SLURM_PROCID": "5", "SLURM_LOCALID": local, "SLURMD_NODENAME": "n3", "CUDA_VISIBLE_DEVICES": "0,1"}
    program = str(RUNTIME / "preflight" / "binding.sh")
    command = ["taskset", "--cpu-list", "0", "/bin/bash", program, "echo", "it goes on"]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=True)
    first, *rest = done.stdout.splitlines()
    assert first.startswith("[binding] task=5 node=n3 cpus=0 online=0") and first.endswith(" gpus=0,1")
    assert rest == (["it goes on"] if goes_on else [])
