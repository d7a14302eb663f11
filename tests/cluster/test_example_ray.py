# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Ray as the package index has it, its head and workers as roles: examples/ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import Example, read_json

# Its environment is large.
pytestmark = pytest.mark.more


@pytest.fixture
def example(lab: LabCluster, tmp_path: Path) -> Iterator[Example]:
    made = Example(lab, "ray", tmp_path)
    yield made
    made.remove()


def test_head_and_workers_are_one_cluster_before_the_driver_starts_and_nothing_is_left(example: Example) -> None:
    done = example.play()
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("ray")
    result = read_json(run / "work" / "result.json")
    assert (result["nodes"], result["right"]) == (3, True)
    # As Slurm gave them: one each.
    assert result["cpus"] == 3 and result["worked"] == 3
    driver, head, workers = read_json(run / "started.json")["roles"]
    assert driver["nodes"] == head["nodes"] and len(workers["nodes"]) == 2
    for node in {*head["nodes"], *workers["nodes"]}:
        left = example.lab.node(node, ["sh", "-c", "pgrep -l raylet; pgrep -l gcs_server; :"]).stdout
        assert left == "", f"{node}: {left}"
