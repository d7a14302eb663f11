# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU lab with transformers, datasets and tokenizers: the Trainer on nodes that have no network, what a student
greps for, and a numpy that does not fit.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.examples import Example, read_json
from tests.repository import run

# Each rank imports torch and transformers: more than a test run that a landing must pass can wait for.
pytestmark = pytest.mark.more
#: Steps that show that the ranks learn, and cost little.
FEW = {"2000, --epochs, 3": "480, --epochs, 2", "{lt: 1.3}": "{lt: 1.5}"}
#: What the set-up's own list of packages pins, and the preflight's line shows.
PINNED = ("transformers=4.41.2", "datasets=2.19.0", "numpy=1.26.4")


@pytest.fixture(scope="module")
def lab() -> Iterator[LabCluster]:
    """As many nodes as the set-up's own course has."""
    with booted(lab_of(instance_name("ten"), nodes=10)) as running:
        yield running


@pytest.fixture(scope="module")
def example(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    made = Example(lab, "cpu_ddp_lab", tmp_path_factory.mktemp("trainer"))
    made.edit("jobs/trainer.yml", FEW)
    made.cluster.update(caches=f"{made.state_root}/caches", offline=True)
    yield made
    made.remove()


def train(example: Example, nodes: int, *arguments: str) -> tuple[str, Path]:
    """(what the user sees, the run directory) of a launch on that many nodes."""
    done = example.play("-e", f"nodes={nodes}", *arguments, playbook="trainer.yml")
    assert done.returncode == 0, done.stdout
    world = 2 * nodes
    (run_dir,) = [one for one in example.runs("trainer-lab") if read_json(one / "launch.json")["world_size"] == world]
    return done.stdout, run_dir


def grep(*arguments: str) -> list[str]:
    done = subprocess.run(["grep", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_three_nodes_without_a_network(example: Example) -> None:
    said, run_dir = train(example, 3)
    result = read_json(run_dir / "work" / "result.json")
    assert (result["world_size"], result["ranks"], len(result["hosts"])) == (6, [*range(6)], 3)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(result["files"])
    saved = read_json(run_dir / "work" / "tiny_out" / "tokenizer.json")
    assert saved["model"]["type"] == "WordPiece"  # tokenizer_algorithm of trainer.yml
    assert re.search(r"step \d+/\d+ loss \d", said)

    # The greps of the set-up's own handout, on its own kinds of files.
    job_id = read_json(run_dir / "started.json")["job_id"]
    logs = [str(path) for path in (run_dir / "logs" / "0").glob(f"*.{job_id}.*.out")]
    assert len(logs) == 6
    banners = sorted(set(grep("-h", r"\[RANK", *logs)))
    assert [line.split(" host=")[0] for line in banners] == [f"[RANK {rank}] WORLD_SIZE=6" for rank in range(6)]
    assert len(grep("-h", "Saving model to", *logs)) == 1
    assert grep("-HE", "Traceback|RuntimeError|OSError", *logs) == []
    table = grep("-h", "proj=ok", str(run_dir / "preflight" / "0" / "table"))
    summary = str(run_dir / "logs" / "0" / f"preflight.{job_id}.txt")
    assert grep("-h", "proj=ok pkgs=ok", summary) == [f"{host} proj=ok pkgs=ok" for host in result["hosts"]]
    probes = grep("-h", "^NODE .* OK -> PY 3", *logs)
    assert len(probes) == 3 and all("tfm 4.41.2 numpy 1.26.4 datasets 2.19.0 root /" in line for line in probes)
    assert len(grep("-h", "^torchrun: nnodes=3 nproc_per_node=2 node_rank=[0-2] rdzv=", *logs)) == 3
    assert len(table) == 3 and all(version in line for line in table for version in ("torch=2.", *PINNED))


def test_five_nodes(example: Example) -> None:
    _, run_dir = train(example, 5)
    assert read_json(run_dir / "work" / "result.json")["world_size"] == 10


def test_ten_nodes_and_the_epochs_of_all_launches_beside_each_other(example: Example) -> None:
    """The Trainer logs every ten steps: with 20 ranks that takes more of the corpus."""
    more = json.dumps({"args": ["--subset", "2000", "--epochs", "2"]})
    _, run_dir = train(example, 10, "-e", more)
    result = read_json(run_dir / "work" / "result.json")
    assert (result["world_size"], result["ranks"], len(result["hosts"])) == (20, [*range(20)], 10)
    assert len(list((run_dir / "logs" / "0").glob("*.out"))) == 20
    done = example.play(playbook="rankzero.slurm.compare", launches="trainer-lab")
    assert done.returncode == 0 and "seconds_per_epoch" in done.stdout and "efficiency" in done.stdout, done.stdout


def test_a_numpy_that_the_old_datasets_cannot_use_is_found_before_any_rank_starts(example: Example) -> None:
    """PYTHONPATH leads to another numpy, as a user's own installation does."""
    folder = example.host_path(example.state_root) / "numpy2"
    run("uv", "pip", "install", "--quiet", "--target", folder, "numpy==2.2.6")
    example.user.give(folder)
    wrong = {"env": {"PYTHONPATH": f"{example.state_root}/numpy2"}}
    done = example.play("-e", "nodes=1", playbook="trainer.yml", launch_overrides=wrong)
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "datasets 2.19.0 cannot read with numpy 2.2.6" in said and "pin numpy<2" in said, done.stdout
    (failed,) = [one for one in example.runs("trainer-lab") if read_json(one / "launch.json")["world_size"] == 2]
    assert list((failed / "logs" / "0").glob("*.out")) == []
