# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU lab with real torch over Gloo (L2, L5, L7, P4, P5, P6, R1, R7), and the course around it: ada runs it on 5 and
on 3 nodes, ben asks for a package that no node has, and the check-off tells them apart.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import EXAMPLES, Example, read_json


@pytest.fixture
def example(lab: LabCluster, tmp_path: Path) -> Iterator[Example]:
    made = Example(lab, "cpu_ddp_lab", tmp_path)
    # The packages are those of the first example, whose environment another test has built: same text, same key.
    first = EXAMPLES / "first_run" / "pyproject.toml"
    own = made.folder / "pyproject.toml"
    assert packages(own) == packages(first)
    shutil.copy(first, own)
    yield made
    made.remove()


def packages(pyproject: Path) -> list[str]:
    found = re.search(r"^dependencies = \[\n(.*?)^\]", pyproject.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return sorted(found[1].split())


def proven(example: Example, nodes: int, said: str, seen: str = "proj=ok env=ok") -> Path:
    """The run directory of the launch, with everything that every run must have left."""
    (run,) = example.runs("ddp-lab")
    world = 2 * nodes
    result = read_json(run / "work" / "result.json")
    assert (result["world_size"], result["ranks"]) == (world, list(range(world)))
    assert result["world_size_proven"] and result["models_identical"] and result["model_saved"]
    assert len(result["hosts"]) == nodes
    assert (run / "work" / "model.pt").stat().st_size > 0
    job_id = read_json(run / "started.json")["job_id"]
    names = {path.name: path for path in (run / "logs" / "0").glob("*.out")}
    assert len(names) == world
    for rank in range(world):
        (path,) = [
            path for name, path in names.items() if re.fullmatch(rf"ddp-lab\.{job_id}\.node\d\d\.{rank}\.out", name)
        ]
        text = path.read_text(encoding="utf-8")
        host = path.name.split(".")[2]
        assert re.search(rf"^\[rankzero\] RANK={rank} .*WORLD_SIZE={world} .*host={host} ", text, re.MULTILINE)
        assert f"RANK={rank} WORLD_SIZE={world} host={host} threads=1\n" in text
    table = (run / "preflight" / "0" / "table").read_text(encoding="utf-8").splitlines()
    lines = [line for line in table if line.startswith("node")]
    assert sorted(line.split()[0] for line in lines) == sorted(result["hosts"])
    unfit = [line for line in lines if not (seen in line and f"torch={result['torch']}" in line)]
    assert not unfit
    # What the user sees: the followed rank's own lines, the check-off, the last losses.
    assert f"ranks     {world} of {world} started with WORLD_SIZE {world}" in said
    assert re.search(r"losses    step \d+/30 loss 0\.\d+", said)
    assert "artifact  work/result.json is proven" in said
    return run


def test_five_nodes_without_the_bad_one(example: Example) -> None:
    done = example.play("-e", "nodes=5", launch_overrides={"resources.exclude": ["node02"]})
    assert done.returncode == 0, done.stdout
    run = proven(example, 5, done.stdout)
    assert "node02" not in read_json(run / "work" / "result.json")["hosts"]
    assert re.search(r"step 30/30 loss", done.stdout)


def test_three_nodes_that_see_neither_code_nor_environment(example: Example) -> None:
    """Only the login node sees the store (P5): each node unpacks what it needs to its own disk, and leaves nothing."""
    if example.lab.way != "realistic":
        pytest.skip("nodes of the simple way share the host's folders: nothing can be hidden from them")
    nodes = example.lab.nodes[3:6]
    store = example.cluster["store_root"]
    example.cluster.update(store_shared=False, local_dir="/var/tmp")
    example.host_path(store).mkdir(parents=True, exist_ok=True)
    hidden = []
    try:
        for node in nodes:
            example.lab.faults.hide(node, store)
            hidden.append(node)
        asked = {"resources.sbatch": {"nodelist": ",".join(nodes)}}
        done = example.play("-e", "nodes=3", launch_overrides=asked)
    finally:
        for node in hidden:
            example.lab.faults.unhide(node, store)
    assert done.returncode == 0, done.stdout
    proven(example, 3, done.stdout, seen="proj=staged env=staged")
    for node in nodes:
        gone = lambda node=node: "rankzero-0-" not in example.lab.node(node, ["ls", "/var/tmp"]).stdout  # noqa: E731
        example.lab.wait_until(gone, 60, f"{node} has removed its copies")


def test_what_the_reader_is_told_to_run_exists() -> None:
    job = yaml.safe_load((EXAMPLES / "cpu_ddp_lab" / "jobs" / "ddp.yml").read_text(encoding="utf-8"))
    assert (job["resources"]["nodes"], job["launcher"]["ranks_per_node"], job["logs"]["style"]) == (3, 2, "slurm")
