# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job with whole nodes whose ranks share their CPUs (`resources.cpus_per_rank: auto` with `exclusive`)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.unit.runtime.harness import Site, runtime_parts

WHOLE: dict[str, Any] = {"resources": {"nodes": 2, "exclusive": True}, "launcher": {"ranks_per_node": 3}}


def seen_by(site: Site, counts: str, **spec: Any) -> dict[str, str]:
    made = site.job({**WHOLE, **spec})
    assert made.finish(SLURM_JOB_CPUS_PER_NODE=counts) == 0, made.log()
    seen = made.seen()["env"]
    assert isinstance(seen, dict)
    return seen


@pytest.mark.parametrize(("counts", "each"), [("16(x2)", "5"), ("96,16", "5"), ("2(x2)", "1"), ("", "1")])
def test_the_cpus_of_the_smallest_node_are_shared(site: Site, counts: str, each: str) -> None:
    seen = seen_by(site, counts)
    assert (seen["OMP_NUM_THREADS"], seen["RANKZERO_CPUS_PER_NODE"]) == (each, str(3 * int(each)))


def test_threads_that_the_job_sets_stay(site: Site) -> None:
    assert seen_by(site, "16(x2)", env={"OMP_NUM_THREADS": "2"})["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(("launcher", "each"), [("srun", "5"), ("torchrun", "15")])
def test_each_step_asks_for_the_cpus_of_its_tasks(launcher: str, each: str) -> None:
    env = {
        "RANKZERO_LAUNCHER": launcher,
        "RANKZERO_CPUS_PER_NODE": "auto",
        "RANKZERO_RANKS_PER_NODE": "3",
        "SLURM_JOB_CPUS_PER_NODE": "96(x3),16,24(x2)",
    }
    with runtime_parts("core.slurm") as slurm:
        state = sys.modules["core.state"]
        job = state.Job(env=env, runtime="")
        job.nodes = ["n1"]
        slurm.count_cpus(job)
        words = ["srun", "--ntasks=6", "--cpus-per-task=auto", "program", "--cpus-per-task", "auto"]
        assert slurm.with_cpus(job, words) == [*words[:2], f"--cpus-per-task={each}", *words[3:]]
        assert slurm.with_cpus(job, ["srun", "--cpus-per-task=2"]) == ["srun", "--cpus-per-task=2"]


def test_a_share_of_the_cpus_is_whole_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {"ThreadsPerCore=2": "4", "ThreadsPerCore=1": "5", "": "5"}
    for shown, each in shares.items():
        env = {
            "RANKZERO_CPUS_PER_NODE": "auto",
            "RANKZERO_RANKS_PER_NODE": "3",
            "SLURM_JOB_CPUS_PER_NODE": "16(x2)",
        }
        with runtime_parts("core.slurm") as slurm:
            job = sys.modules["core.state"].Job(env=env, runtime="")
            job.nodes = ["n1"]
            monkeypatch.setattr(slurm, "query", lambda *_words, text=shown, **_more: (0, f"NodeName=n1 {text}"))
            slurm.count_cpus(job)
            assert job.get("RANKZERO_CPUS_PER_RANK") == each, shown
