# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan warns of a job that Slurm would take, and that could not run."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import program
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import time_shown

VENV = {"environment": {"mode": "venv"}}


def told(**data: Any) -> str:
    parsed = parse(merge([Layer("job", {"name": "x", "command": ["train.py"], **data})]))
    assert not parsed.problems
    return "\n".join(program.warnings(parsed.spec))


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        ({"command": ["python", "-m", "torch.distributed.run", "train.py"]}, "torch.distributed.run", "torchrun"),
        ({"command": ["/opt/bin/python3.11", "-m", "accelerate.commands.launch", "a.py"]}, "accelerate", "accelerate"),
        ({"command": ["torchrun", "--nproc-per-node=2", "train.py"]}, "torchrun", "torchrun"),
        ({"command": ["srun", "python", "train.py"]}, "srun", "srun"),
        ({"command": ["/usr/bin/mpirun", "-n", "4", "a.out"]}, "mpirun", "mpirun"),
        ({"command": ["deepspeed", "train.py"], "launcher": {"kind": "torchrun"}, **VENV}, "deepspeed", "deepspeed"),
        ({"command": None, "shell": "srun python train.py"}, "srun", "srun"),
    ],
)
def test_a_launcher_inside_another_is_warned_of(data: dict[str, Any], name: str, kind: str) -> None:
    text = told(**data)
    assert f"{name}" in text and "starts ranks itself" in text and f"launcher: {{kind: {kind}}}" in text


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"command": ["python", "-m", "torchrun_helper"]},
        {"command": ["train.py", "srun"]},
        {"command": ["torchrun", "train.py"], "launcher": {"kind": "none"}},
    ],
)
def test_other_programs_are_not_warned_of(data: dict[str, Any]) -> None:
    assert not told(**data)


def test_what_a_role_cannot_run_is_said_of_that_role_and_what_none_can_of_the_job() -> None:
    roles = {"trainer": {"command": ["train.py"]}, "server": {"command": ["torchrun", "serve.py"], "env": {"B": "$C"}}}
    lines = told(command=None, env={"A": "$HOME"}, artifact={"path": "r.json"}, roles=roles).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["env.A", "roles.server.command", "roles.server.env.B"]


@pytest.mark.parametrize("starter", [row for row in STARTERS if row.packages], ids=lambda row: row.kind)
def test_a_launcher_without_what_brings_its_package_is_warned_of(starter: Any) -> None:
    launcher = {"launcher": {"kind": starter.kind}}
    text = told(**launcher)
    assert f"launcher.kind: {starter.kind} needs the Python package {starter.packages[0]}" in text
    assert "environment.mode none" in text and "venv" in text
    assert not told(**launcher, **VENV)
    assert not told(**launcher, container={"runtime": "apptainer", "image": "/x.sif"})
    assert not told(**launcher, setup={"modules": ["pytorch"]})
    assert not told(**launcher, setup={"commands": ["source /opt/torch/bin/activate"]})


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("90", "01:30:00 (90 minutes)"),
        ("1:99:00", "02:39:00 (1:99:00)"),
        ("1-00:75", "25:15:00 (1-00:75)"),
        ("1500", "25:00:00 (1500 minutes)"),
        ("02:00:00", "02:00:00"),
        ("1-00", "1-00"),
        ("(of the partition)", "(of the partition)"),
    ],
)
def test_a_time_without_a_unit_is_shown_with_it(given: str, shown: str) -> None:
    assert time_shown(given) == shown
