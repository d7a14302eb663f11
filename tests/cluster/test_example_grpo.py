# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A trainer that learns from what rollout servers sample, with real torch: examples/grpo."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import EXAMPLES, Example, packages, read_json


@pytest.fixture
def example(lab: LabCluster, tmp_path: Path) -> Iterator[Example]:
    made = Example(lab, "grpo", tmp_path)
    # The packages are those of the first example, whose environment another test has built: same text, same key.
    first, own = (folder / "pyproject.toml" for folder in (EXAMPLES / "first_run", made.folder))
    assert packages(own) == packages(first)
    shutil.copy(first, own)
    yield made
    made.remove()


def test_the_reward_rises_although_a_server_dies(example: Example) -> None:
    line = "        asked = json.loads("
    dies = """        if self.server.version == "5" and os.environ["RANK"] == "1" and not os.path.exists("died"):
            open("died", "w").close()
            os._exit(9)
"""
    example.edit("serve.py", {line: f"{dies}{line}"})
    done = example.play()
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("grpo")
    result = read_json(run / "work" / "result.json")
    assert result["first_reward"] < 0.3 and result["reward"] > 0.6 and result["parameters_identical"], result
    assert (result["servers"], (run / "work" / "died").exists()) == (2, True)
    trainer, rollout = read_json(run / "started.json")["roles"]
    assert (len(trainer["nodes"]), len(rollout["nodes"]), rollout["restarts"]) == (2, 2, 1)
    assert trainer["began"] >= rollout["began"] and "waiting for rollout" in done.stdout
    for node in rollout["nodes"]:
        left = example.lab.node(node, ["sh", "-c", "pgrep -f '[s]erve.py'; :"]).stdout
        assert left == "", f"{node}: {left}"
