# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is named on the command line is cancelled, and not what a shipped inventory defines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import UNTIL_GO, Site
from tests.repository import ROOT


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path) -> Site:
    made = Site(lab, tmp_path, "selection")
    yield made  # type: ignore[misc]
    made.close()


def test_cancel_leaves_the_job_of_the_inventory_alone(site: Site, lab: LabCluster) -> None:
    shutil.copytree(
        ROOT / "examples" / "first_run" / "inventory" / "group_vars", site.folder / "inventory" / "group_vars"
    )
    hosts = json.loads(Path(lab.inventory).read_text()) if str(lab.inventory).endswith(".json") else None
    inventory = site.folder / "inventory" / "lab.yml"
    inventory.write_text(json.dumps(hosts) if hosts else Path(lab.inventory).read_text())
    first, other = site.job(UNTIL_GO, "first"), site.job(UNTIL_GO, "other")
    site.write(first, "jobs/first_run.yml")
    launches = [site.launch(None, inventory=inventory), site.launch(other)]
    ids = [str(launch["job_id"]) for launch in launches]
    cancel = {"playbook": "rankzero.slurm.cancel", "inventory": inventory}
    for selector in ({"launch_name": other["name"]}, {"job_id": ids[1]}, {"run_dir": launches[1]["run_dir"]}):
        shown = site.play(None, "--check", **cancel, **selector)
        (done,) = shown.results("rankzero.slurm.job_cancel")
        assert [str(one["job_id"]) for one in done["cancelled"]] == [ids[1]], shown.output
    assert site.play(None, **cancel, launch_name=other["name"]).rc == 0
    assert site.ended(ids[1]) == "CANCELLED"
    site.go(launches[0])
    assert site.outcome(launches[0])["success"]
