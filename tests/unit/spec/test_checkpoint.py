# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The early signal, restarts and monitors as the spec asks for them, and as the script gets them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.checkpoint import Checkpoint
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.plans import context

CHECKPOINT = Checkpoint()
RESTARTING = {"signal_before_end": 60, "requeue": True}


def spec(**data: Any) -> LaunchSpec:
    return validated(merge([Layer("job", {"name": "job", "command": ["a"], **data})]))


@pytest.mark.parametrize(
    ("checkpoint", "spares", "lines"),
    [
        ({}, 0, []),
        ({}, 1, [("no-kill", True)]),
        ({"signal_before_end": 60}, 0, [("signal", "B:USR2@60")]),
        ({"signal_before_end": 60, "signal": "USR1"}, 0, [("signal", "B:USR2@60")]),
        ({"requeue": True}, 2, [("requeue", True), ("no-kill", True)]),
        ({"requeue": False}, 0, [("no-requeue", True)]),
        (RESTARTING, 0, [("signal", "B:USR2@60"), ("requeue", True)]),
    ],
)
def test_only_what_is_asked_for_is_in_the_header(
    checkpoint: dict[str, Any], spares: int, lines: list[tuple[str, object]]
) -> None:
    assert list(CHECKPOINT.header(context(spec(checkpoint=checkpoint, resources={"spares": spares})))) == lines


def test_the_script_learns_of_restarts_only_where_it_may_do_them() -> None:
    def known(**data: Any) -> dict[str, str]:
        return dict(CHECKPOINT.exports(context(spec(**data))))

    assert known() == {"RANKZERO_MONITOR_HOST": "15", "RANKZERO_MONITOR_GPU": "15"}
    assert known(monitor={"host": 0, "gpu": "0", "timestamps": 120}) == {
        "RANKZERO_MONITOR_HOST": "0",
        "RANKZERO_MONITOR_GPU": "0",
        "RANKZERO_TIMESTAMPS": "120",
    }
    assert (
        known(logs={"style": "slurm"}).items()
        >= {"RANKZERO_LOG_STYLE": "slurm", "RANKZERO_LOG_FOLLOW": "first"}.items()
    )
    assert "RANKZERO_LOG_PER" not in known(resources={"nodes": 16})
    assert "RANKZERO_LOG_PER" not in known(resources={"nodes": 2}, launcher={"ranks_per_node": 8})
    assert known(resources={"nodes": 17})["RANKZERO_LOG_PER"] == "node"
    assert known(resources={"nodes": 3}, launcher={"ranks_per_node": 8})["RANKZERO_LOG_PER"] == "node"
    assert known(resources={"nodes": 12, "spares": 5})["RANKZERO_LOG_PER"] == "node"
    # Its samples are collected nevertheless.
    assert known(resources={"nodes": 17}, logs={"per": "rank"})["RANKZERO_LOG_PER"] == "rank"
    assert known(resources={"nodes": 17}, logs={"style": "slurm"})["RANKZERO_LOG_PER"] == "rank"
    assert known(logs={"per": "first"})["RANKZERO_LOG_PER"] == "first"
    assert known(checkpoint={"dir": "/c//d/"})["RANKZERO_CHECKPOINT_DIR"] == "/c/d"
    early = {"RANKZERO_EARLY_SECONDS": "60", "RANKZERO_EARLY_SIGNAL": "TERM"}
    restarts = {"RANKZERO_MAX_RESTARTS": "5", "RANKZERO_PROGRESS": "a/b"}
    assert not known(checkpoint={"requeue": True}).keys() & {*early, "RANKZERO_PROGRESS"}
    assert known(checkpoint={"requeue": True})["RANKZERO_MAX_RESTARTS"] == "5"
    spare = known(resources={"spares": 1}, checkpoint={"progress": "x", "max_restarts": 2})
    assert (spare["RANKZERO_SPARES"], spare["RANKZERO_SPARE_RESTARTS"], spare["RANKZERO_PROGRESS"]) == ("1", "2", "x")
    assert "RANKZERO_MAX_RESTARTS" not in spare
    assert known(checkpoint={"signal_before_end": 60}).items() >= early.items()
    assert "RANKZERO_MAX_RESTARTS" not in known(checkpoint={"signal_before_end": 60, "requeue": False})
    assert known(checkpoint={**RESTARTING, "progress": "./a//b"}).items() >= {**early, **restarts}.items()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"resources": {"time": "1"}, "checkpoint": {"signal_before_end": 60}},
            "checkpoint.signal_before_end: 60 s is not less than the time limit 1",
        ),
        ({"checkpoint": {**RESTARTING, "progress": "../x"}}, "checkpoint.progress: '../x' is outside"),
        ({"checkpoint": {**RESTARTING, "progress": "/x"}}, "checkpoint.progress: '/x' is outside"),
        ({"checkpoint": {"progress": "x", "requeue": True}}, "checkpoint.progress: has no effect unless"),
        ({"checkpoint": {"progress": "x", "signal_before_end": 9}}, "checkpoint.progress: has no effect unless"),
        (
            {"checkpoint": RESTARTING, "resources": {"sbatch": {"signal": "B:TERM@9"}}},
            "resources.sbatch.signal: checkpoint.signal_before_end sets this already",
        ),
        (
            {"checkpoint": {"requeue": False}, "resources": {"sbatch": {"requeue": True}}},
            "resources.sbatch.requeue: checkpoint.requeue sets this already",
        ),
        (
            {"resources": {"spares": 1, "sbatch": {"no-kill": True}}},
            "resources.sbatch.no-kill: resources.spares sets this already",
        ),
        ({"checkpoint": {"dir": "/."}}, "checkpoint.dir: / is not allowed"),
        ({"checkpoint": {"dir": "c"}}, "checkpoint.dir: must be an absolute path on the cluster"),
        ({"logs": {"style": "slrum"}}, "logs.style: "),
        ({"checkpoint": {"signal": "KILL"}}, "checkpoint.signal: "),
        ({"monitor": {"gpus": 1}}, "monitor.gpus: unknown key"),
    ],
)
def test_what_does_not_fit_is_refused(data: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec(**data)
    assert said in str(refused.value)


def test_the_other_layer_says_it_where_the_section_is_silent() -> None:
    asked = spec(resources={"sbatch": {"signal": "B:TERM@9", "requeue": True}})
    assert list(CHECKPOINT.header(context(asked))) == []
