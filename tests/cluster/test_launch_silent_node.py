# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose slurmd is gone, which Slurm does not know yet.

srun then ends the preflight on all nodes. Where there are more than eight, those above it in Slurm's tree wait a minute
for its end, and Slurm keeps the place of that step on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.launching import JOB_SECONDS, Site, log_of, read_json


@pytest.fixture(scope="module")
def patient() -> Iterator[LabCluster]:
    """Nodes whose only CPU a step takes, as one of a job on whole nodes does."""
    lab = lab_of(
        instance_name("silent"),
        nodes=16,
        cpus=1,
        gpus=0,
        accounting="none",
        slurm_conf=["SlurmdTimeout=300"],
    )
    with booted(lab) as running:
        yield running


@pytest.fixture
def site(patient: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(patient, tmp_path, request.node.name)
    yield made
    made.close()


def test_it_is_left_out_alone(site: Site) -> None:
    *others, silent = site.lab.nodes
    resources = {"time": "00:10:00", "nodes": len(others), "spares": 1}
    site.lab.faults.crash("slurmd", silent)
    try:
        launch = site.launch(site.job(["python3", "-c", "print()"], resources=resources, preflight={"budget": 30}))
        run = site.run_dir(launch)
        site.lab.wait_until((run / "outcome.json").exists, JOB_SECONDS, "the job has a verdict")
    finally:
        site.lab.faults.start("slurmd", silent)
    unfit = read_json(run / "preflight" / "0" / "unfit.json")
    assert list(unfit) == [silent], log_of(run, launch["job_id"])
    assert "srun could not start a task there" in unfit[silent]
    assert read_json(run / "started.json")["nodes"] == others and read_json(run / "outcome.json")["success"]
