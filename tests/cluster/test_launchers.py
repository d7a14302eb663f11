# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launchers that need no package of Python: a real mpirun, and none. Others are in test_real_programs.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import openmpi
from tests.cluster.conftest import LabCluster
from tests.cluster.examples import EXAMPLES
from tests.cluster.launching import Site
from tests.unpacked import Unavailable

COUNT = EXAMPLES / "site_parts" / "count.py"


@pytest.fixture
def tools(lab: LabCluster) -> Iterator[Path]:
    folder = lab.shared / "openmpi"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def counted(site: Site, **spec: Any) -> tuple[Path, list[dict[str, str]]]:
    """(the run directory, what each rank wrote) of a job whose ranks count each other."""
    shutil.copy(COUNT, site.folder / "code")
    job = site.job(["count.py"], artifact={"require": {"ranks": {"ge": 1}}}, **spec)
    run = site.run_dir(site.launch(job, wait=True))
    paths = sorted((run / "work").glob("rank-*.json"))
    return run, [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def test_a_real_mpirun_starts_the_ranks_of_all_nodes(site: Site, tools: Path, lab: LabCluster) -> None:
    try:
        lines = openmpi.install(tools, f"{lab.shared_inside}/openmpi")
    except Unavailable as reason:
        pytest.skip(f"no Open MPI here: {reason}")
    run, ranks = counted(
        site,
        launcher={"kind": "mpirun", "ranks_per_node": 2},
        resources={"nodes": 2, "memory": "1G", "time": "00:10:00"},
        setup={"commands": lines},
    )
    assert [(rank["LOCAL_RANK"], rank["NODE_RANK"], rank["WORLD_SIZE"]) for rank in ranks] == [
        ("0", "0", "4"), ("1", "0", "4"), ("0", "1", "4"), ("1", "1", "4"),
    ]  # fmt: skip
    assert len({rank["host"] for rank in ranks}) == 2 and len({rank["MASTER_PORT"] for rank in ranks}) == 1
    assert {path.name for path in run.glob("logs/*/rank-*.log")} == {f"rank-{rank:04d}.log" for rank in range(4)}
    listed = (run / "hosts.0").read_text(encoding="ascii").splitlines()
    assert listed == [f"{ranks[0]['host']} slots=2", f"{ranks[2]['host']} slots=2"]


def test_a_role_is_started_by_mpirun_on_its_own_nodes(site: Site, tools: Path, lab: LabCluster) -> None:
    try:
        lines = openmpi.install(tools, f"{lab.shared_inside}/openmpi")
    except Unavailable as reason:
        pytest.skip(f"no Open MPI here: {reason}")
    shutil.copy(COUNT, site.folder / "code")
    waits = {"command": ["sleep", "600"], "nodes": 2}
    counts = {"command": ["count.py"], "nodes": 2, "launcher": {"kind": "mpirun", "ranks_per_node": 2}}
    job = site.job(
        [],
        roles={"trainer": counts, "server": waits},
        artifact={"require": {"ranks": {"eq": 4}, "nodes": {"eq": 2}}},
        resources={"memory": "1G", "time": "00:10:00"},
        setup={"commands": lines},
    )
    del job["command"]
    run = site.run_dir(site.launch(job, wait=True))
    trainer, _server = json.loads((run / "started.json").read_text(encoding="utf-8"))["roles"]
    listed = (run / "hosts.0.trainer").read_text(encoding="ascii").splitlines()
    assert listed == [f"{node} slots=2" for node in trainer["nodes"]]
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((run / "work").glob("rank-*.json"))]
    assert [rank["host"] for rank in ranks] == [node for node in trainer["nodes"] for _rank in range(2)]


def test_without_a_launcher_the_program_runs_once_on_the_first_of_its_nodes(site: Site) -> None:
    run, ranks = counted(site, launcher={"kind": "none"}, resources={"nodes": 2, "time": "00:10:00"})
    (rank,) = ranks
    assert (rank["RANK"], rank["LOCAL_RANK"], rank["WORLD_SIZE"], rank["LOCAL_WORLD_SIZE"]) == ("0", "0", "1", "1")
    nodes = json.loads((run / "started.json").read_text(encoding="utf-8"))["nodes"]
    assert len(nodes) == 2 and rank["host"] == nodes[0]
    assert not (run / "hosts.0").exists()
