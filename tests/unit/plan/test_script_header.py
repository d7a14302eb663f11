# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the header of a batch script's job asks for GPUs and other generic resources, and what the plan warns of."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.batch_script import BELOW, read_header
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.plans import plan


def planned(line: str, body: str = "true", **above: Any) -> Plan:
    """The plan of a script with one #SBATCH line, below a job's own layer."""
    text = f"#!/bin/sh\n#SBATCH {line}\n{body}\n"
    own = {"name": "x", "script": text, **({"resources": above} if above else {})}
    merged = merge([Layer("below", BELOW), Layer("x.sh", read_header(text).data), Layer("job", own)])
    return plan(validated(merged), merged, code_key="c", runtime_key="r", state_root="/s", store_root="/t")


def header(line: str, **above: Any) -> dict[str, Any]:
    """The options for generic resources in the header."""
    return {name: value for name, value in planned(line, **above).header if name in ("gres", "gpus-per-node")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--gres=gpu:2", {"gres": "gpu:2"}),
        ("--gres=gpu:h100:2,lscratch:50", {"gres": "gpu:h100:2,lscratch:50"}),
        ("--gres=lscratch:50", {"gres": "lscratch:50"}),
        ("--gpus-per-node=h100:2 --gres=lscratch:5", {"gpus-per-node": "h100:2", "gres": "lscratch:5"}),
        ("--gpus-per-node=2", {"gpus-per-node": "2"}),
        ("--gres=gpu:2 --gpus-per-node=4", {"gpus-per-node": "4"}),
        ("--gres=gpu:a:2,gpu:b:2", {"gres": "gpu:a:2,gpu:b:2"}),
    ],
)
def test_generic_resources_are_asked_for_as_the_script_says(line: str, expected: dict[str, str]) -> None:
    assert header(line) == expected


def test_a_layer_above_goes_before_the_script() -> None:
    assert header("--gres=gpu:2", gpus_per_node=4) == {"gpus-per-node": "4"}
    assert header("--gres=gpu:2,lscratch:50", gres=["lscratch:9"]) == {"gpus-per-node": "2", "gres": "lscratch:9"}
    assert header("--gres=gpu:2", gpus_per_node=0) == {}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        *((f"squeue {option} | wc -l", True) for option in ('-h -n "$SLURM_JOB_NAME"', "--name=x", "--me -hn x")),
        ("scancel --jobname x", True),
        ("sacct -X --name x", True),
        ('while [ -n "$(squeue --me -n x)" ]; do sleep 1; done', True),
        *((f"{command} -n", False) for command in ("sacct -j $SLURM_JOB_ID", "squeue --me | sort", "# squeue")),
        ("squeue --noheader --nodelist=x -j $SLURM_JOB_ID", False),
    ],
)
def test_a_line_that_looks_for_the_job_by_its_name_is_named(line: str, named: bool) -> None:
    warned = [text for text in summary(planned("-N 1", line)) if text.startswith("warning: ")]
    assert [("line 3" in text, "$SLURM_JOB_ID" in text) for text in warned] == [(True, True)] * named


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("script=$(scontrol show job $SLURM_JOB_ID | awk -F= '/Command=/{print $2}')", True),
        ("cd $(dirname $(scontrol show job $SLURM_JOBID | grep -oP '(?<=Command=)[^ ]+'))", True),
        *((f"scontrol show job $SLURM_JOB_ID | grep {word}=", True) for word in ("WorkDir", "StdOut", "StdErr")),
        *((f"squeue -j $SLURM_JOB_ID {option}", True) for option in ("-o %Z", "-ho '%i %.20o'", "--format=%o")),
        *((f"squeue -h -j $SLURM_JOB_ID {option}", False) for option in ("-o %i", "-o '%.10i %j'", "--format=%N")),
        ("scontrol show job $SLURM_JOB_ID  # Command=", False),
        ("MyCommand=train", False),
    ],
)
def test_a_line_that_asks_slurm_where_its_script_lies_is_named(line: str, named: bool) -> None:
    warned = [text for text in summary(planned("-N 1", line)) if text.startswith("warning: ")]
    assert [("line 3" in text, "$SLURM_SUBMIT_DIR" in text) for text in warned] == [(True, True)] * named


def test_the_jobs_of_a_script_do_not_wait_for_each_other_either() -> None:
    """One that is submitted several times (resources.any_of)."""
    ways = [{"account": "a"}, {"account": "b"}]
    assert dict(planned("--nodes=2").header)["dependency"] == "singleton"
    assert "dependency" not in dict(planned("--nodes=2", any_of=ways).header)
