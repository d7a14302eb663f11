# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example project as a user runs it, with real torch: this is the one test that downloads packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.repository import BIN, ROOT

ANSIBLE_PLAYBOOK = str(BIN / "ansible-playbook")


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy: a run leaves fetched logs beside the playbook."""
    copy = tmp_path / "first_run"
    shutil.copytree(ROOT / "examples" / "first_run", copy, ignore=shutil.ignore_patterns("runs", "__pycache__"))
    return copy


def train(lab: LabCluster, example: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    roots = {name: f"{lab.shared_inside}/example/{name}" for name in ("state_root", "store_root")}
    command = [ANSIBLE_PLAYBOOK, "train.yml", "-e", json.dumps({"launch_cluster": roots}), *arguments]
    environment = {**os.environ, "RANKZERO_LAB": str(lab.dir)}
    return subprocess.run(
        command, cwd=example, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_the_example_trains_and_proves_it(lab: LabCluster, example: Path, launcher: str) -> None:
    done = train(lab, example, "-e", "nodes=2", "-e", f"launcher={launcher}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"step 10/60 loss \d\.\d+ tokens/s \d+", done.stdout)

    (path,) = (lab.shared / "example" / "state_root" / "runs" / "first-run").glob("*/1/work/result.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    shutil.rmtree(path.parents[4])
    assert result["first_loss"] > 5 > 3 > result["loss"]
    assert (result["world_size"], result["rank_sum"]) == (4, 0 + 1 + 2 + 3)
    assert result["parameters_identical"] and len(result["parameter_hashes"]) == 4
    assert sorted(set(result["hosts"])) == lab.nodes[:2]


def test_the_plan_shows_on_an_empty_store(lab: LabCluster, example: Path) -> None:
    done = train(lab, example, "--check", "--diff", "-e", "nodes=3", "-e", "time=00:07:00")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 nodes x 2 ranks = 6 ranks by torchrun" in done.stdout
    assert "#SBATCH" in done.stdout
    assert not list((lab.shared / "example" / "state_root").glob("runs/first-run/*"))
