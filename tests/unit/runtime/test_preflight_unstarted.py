# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node on which srun starts nothing: only it is left out, although srun ended the tasks of all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.runtime.harness import Site, runtime_parts

ERRORS = """\
srun: error: Task launch for StepId=12.0 failed on node node02: Communication connection failure
srun: error: Application launch failed: Communication connection failure
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
"""


@pytest.fixture
def unstarted() -> Iterator[ModuleType]:
    with runtime_parts("preflight.unstarted") as part:
        yield part


@pytest.mark.parametrize(
    ("errors", "nodes", "reasons"),
    [
        (ERRORS, ["node01", "node02"], {"node02": "Communication connection failure"}),
        (ERRORS, ["node01"], {}),
        ("srun: error: node02: task 1: Exited with exit code 78\n", ["node02"], {}),
        ("", ["node02"], {}),
    ],
)
def test_nodes_in(unstarted: ModuleType, errors: str, nodes: list[str], reasons: dict[str, str]) -> None:
    assert unstarted.nodes_in(errors, nodes) == reasons


def test_missing_errors_are_no_errors(unstarted: ModuleType, tmp_path: Path) -> None:
    assert unstarted.errors_of(str(tmp_path / "none")) == ""


def test_only_the_node_on_which_srun_starts_nothing_is_left_out(tmp_path: Path) -> None:
    site = Site(tmp_path)
    # srun reports the node and ends the step, whose place Slurm keeps on the others until the node answers.
    site.functions["srun"] = (
        'case "$*" in *binding.sh*) if ! [ -e "$RANKZERO_RUN_DIR/asked" ]; then : > "$RANKZERO_RUN_DIR/asked";'
        ' echo "0: stale" > "$RANKZERO_RUN_DIR/preflight/0/_tasks.log";'
        f" printf '%s' '{ERRORS}' >&2; exit 1; fi ;; esac;"
        ' case "$*" in *--overlap*--mem=0*) ;; *) echo "srun: Job step creation temporarily disabled, retrying" >&2;'
        f" exit 1 ;; esac; {site.functions['srun']}"
    )
    job = site.job(
        {
            "resources": {"nodes": 1, "spares": 1, "time": "00:10:00"},
            "preflight": {"on_failure": "replace", "budget": 30},
        }
    )
    assert job.finish(nodes="node01,node02") == 0, job.log()
    assert job.started()["nodes"] == ["node01"]
    unfit = json.loads((job.run / "preflight" / "0" / "unfit.json").read_text(encoding="utf-8"))
    assert list(unfit) == ["node02"]
    assert "Communication connection failure" in unfit["node02"]
    # srun's own message stays in the job's log, and what the nodes said the first time is gone.
    assert "Task launch for StepId=12.0 failed on node node02" in job.log()
    assert "stale" not in (job.run / "preflight" / "0" / "_tasks.log").read_text()
