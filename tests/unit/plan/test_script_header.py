# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the header of a batch script's job asks for GPUs and other generic resources."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.batch_script import BELOW, read_header
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.plans import plan


def header(line: str, **above: Any) -> dict[str, Any]:
    """The options for generic resources in the header of a script with one #SBATCH line, below a job's own layer."""
    text = f"#!/bin/sh\n#SBATCH {line}\ntrue\n"
    own = {"name": "x", "script": text, **({"resources": above} if above else {})}
    merged = merge([Layer("below", BELOW), Layer("x.sh", read_header(text).data), Layer("job", own)])
    made = plan(validated(merged), merged, code_key="c", runtime_key="r", state_root="/s", store_root="/t")
    return {name: value for name, value in made.header if name in ("gres", "gpus-per-node")}


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
