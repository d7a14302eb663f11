# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evaluation against servers as a user runs it: examples/evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import Example, read_json


@pytest.fixture
def example(lab: LabCluster, tmp_path: Path) -> Iterator[Example]:
    made = Example(lab, "evaluation", tmp_path)
    yield made
    made.remove()


def test_all_servers_are_asked_and_the_result_is_proven(example: Example) -> None:
    done = example.play("-e", "nodes=server=3")
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("evaluation")
    result = read_json(run / "work" / "result.json")
    assert result["prompts"] == 5 and result["unanswered"] == 0 and result["tokens"] > 5
    client, server = read_json(run / "started.json")["roles"]
    assert (len(client["nodes"]), len(server["nodes"])) == (1, 3)
    # Each of them was asked.
    for rank in (1, 2, 3):
        assert "POST /generate" in (run / "logs" / "0" / f"rank-{rank:04d}.log").read_text()


def test_servers_that_say_nothing_are_no_success(example: Example) -> None:
    example.edit("serve.py", {"if not known:": "if known:"})
    done = example.play()
    assert done.returncode != 0
    (run,) = example.runs("evaluation")
    outcome = read_json(run / "outcome.json")
    # The client itself has ended well.
    assert outcome["exit_code"] == 0 and not outcome["success"]
    assert "tokens" in outcome["message"], outcome["message"]


def test_a_server_that_dies_is_asked_once_more(example: Example) -> None:
    line = "            size = min("
    dies = """
            mark = "died-" + os.environ["RANK"]
            if not os.path.exists(mark):
                open(mark, "w").close()
                os._exit(9)
"""
    example.edit("serve.py", {line: f"{dies}{line}"})
    done = example.play("-e", "nodes=server=1")
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("evaluation")
    assert read_json(run / "work" / "result.json")["unanswered"] == 0
    assert (run / "work" / "died-0").exists()
    assert "starts again (1 of 3)" in next(iter((run / "logs").glob("job.*.log"))).read_text()
