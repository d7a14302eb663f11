# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a job when Slurm itself does not see it: a node that is back within seconds, a requeue after the proof."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.launching import Site, log_of, read_json
from tests.cluster.profiles import the_profile_is_not_read

PROGRAM = """
import os, time
rank = os.environ["RANK"]
open("ran", "a").write(rank + "\\n")
while rank != "0" or not os.path.exists("go"):
    time.sleep(0.1)
open("result.json.new", "w").write('{"loss": 1.5}')
os.replace("result.json.new", "result.json")
"""


def test_a_node_that_is_back_within_seconds_does_not_keep_the_job(site: Site) -> None:
    """srun waits for the rank that went with it. The artifact is proven, and rank 0 has ended: that decides. And the
    same job, requeued by an operator afterwards, finds its proof.
    """
    if site.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    job = site.job(
        ["python3", "-c", PROGRAM],
        artifact={"path": "result.json", "require": {"loss": {"lt": 4}}},
        resources={"time": "00:10:00", "nodes": 2},
        # A minute is long for a test.
        setup={"commands": ["export RANKZERO_SHORT_WAIT=3 RANKZERO_LOOK_EVERY=1"]},
    )
    launch = site.launch(job)
    run, job_id = site.run_dir(launch), launch["job_id"]
    site.lab.wait_until(lambda: _ran(run) == ["0", "1"], what="both ranks run")
    node = read_json(run / "started.json")["nodes"][1]
    site.lab.faults.power_off(node)
    site.lab.faults.power_on(node)
    (run / "work" / "go").touch()
    assert site.ended(job_id) == "COMPLETED", log_of(run, job_id)
    outcome = site.outcome(launch)
    assert (outcome["success"], outcome["ended_by"]) == (True, "artifact"), outcome
    assert "1 of 2 tasks had ended, 1 had not; the step was ended after" in outcome["message"]

    assert site.lab.head(["scontrol", "requeue", job_id]).returncode == 0
    said = f"proven already by job {job_id}, attempt 1"
    site.lab.wait_until(lambda: said in log_of(run, job_id), 120, "the requeued job says so")
    assert site.ended(job_id) == "COMPLETED"
    assert (site.outcome(launch), _ran(run)) == (outcome, ["0", "1"])


def test_no_job_reads_a_profile(site: Site) -> None:
    if site.lab.way != "realistic":
        pytest.skip("a node has a profile of its own only where it has namespaces of its own")
    the_profile_is_not_read(site)


def _ran(run: Path) -> list[str]:
    path = run / "work" / "ran"
    return sorted(path.read_text().split()) if path.exists() else []
