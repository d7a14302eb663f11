# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bandwidth between neighbours, measured by real processes over the loop-back: by TCP, and by torch where it is."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.runtime.test_preflight import PROGRAM


def exchanged(folder: Path, nodes: list[str], torch: bool, present: int | None = None) -> dict[str, dict[str, float]]:
    """{node: {neighbour: MB/s}} of an exchange of 1 MB; only the first `present` nodes take part."""
    plan = {
        "nodes": nodes,
        "interface": "lo",
        "addresses": {name: f"127.0.0.{place + 1}" for place, name in enumerate(nodes)},
        "torch": torch,
        "seconds": 20,
    }
    (folder / "exchange.json").write_text(json.dumps(plan))
    budget = "60" if present is None else "5"
    words = ["exchange", str(folder), ",".join(nodes), "--budget", budget, "--megabytes", "1"]
    running = [
        subprocess.Popen(
            [sys.executable, "-B", PROGRAM, *words],
            env={**os.environ, "SLURM_NODEID": str(place), "SLURM_JOB_ID": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for place in range(len(nodes))[:present]
    ]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(running), said
    return {name: json.loads((folder / f"{name}.exchange.json").read_text())["pairs"] for name in nodes[:present]}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_pair_is_measured_from_both_ends(tmp_path: Path, count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    found = exchanged(tmp_path, nodes, torch=False)
    for place, name in enumerate(nodes):
        assert set(found[name]) == {nodes[place - 1], nodes[(place + 1) % count]}
        assert all(speed > 0 for speed in found[name].values())


def test_a_neighbour_that_never_comes_costs_no_more_than_the_budget(tmp_path: Path) -> None:
    found = exchanged(tmp_path, ["n0", "n1", "n2"], torch=False, present=2)
    assert found["n0"].pop("n1") > 0 and found["n1"].pop("n0") > 0
    assert found == {"n0": {"n2": 0.0}, "n1": {"n2": 0.0}}


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="this Python has no torch, which the job brings")
def test_torch_reduces_between_neighbours(tmp_path: Path) -> None:
    found = exchanged(tmp_path, ["n0", "n1", "n2"], torch=True)
    assert all(len(pairs) == 2 and min(pairs.values()) > 0 for pairs in found.values())
