# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real apptainer on a real Slurm, by an ordinary user: an image of ours, ranks on two nodes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import apptainer, images
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site, log_of, rank_logs
from tests.unpacked import Unavailable

LOOK = (
    "import json, os; print(json.dumps([os.getuid(), os.getcwd(), os.environ['HOME'], os.environ['RANK'], "
    "os.path.exists('/in-the-image'), os.listdir('/data'), os.environ['INSIDE']]))"
)


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("a lab of the simple way has no node of its own to run it on")
    made = Site(lab, tmp_path, request.node.name)
    yield made
    made.close()


@pytest.fixture
def tools(lab: LabCluster) -> Iterator[str]:
    """The folder for PATH, as the nodes name it."""
    folder = lab.shared / "apptainer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield apptainer.install(folder, f"{lab.shared_inside}/apptainer")
    except Unavailable as reason:
        pytest.skip(f"no apptainer here: {reason}")
    finally:
        shutil.rmtree(folder)


def test_a_users_ranks_run_in_a_sif_that_was_made_without_apptainer(site: Site, tools: str) -> None:
    site.outcome(site.launch(site.job("true", name="store")))
    user = site.as_ordinary_user()
    home = f"{site.lab.shared_inside}/home-{site.token}"
    made = {
        kind: file.replace(str(site.lab.shared), site.lab.shared_inside)
        for kind, file in images.built(site.host_path(f"{home}/made"), {"INSIDE": "ours"}, "sif").items()
    }
    path = f"{tools}:/usr/bin:/bin"
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"HOME={home}", f"PATH={path}"]
    # A bare squashfs file will do as well.
    words = ["exec", "--no-mount=home,cwd", made["sqsh"], "/bin/bash", "-c", "echo $INSIDE $(cat /in-the-image)"]
    assert site.lab.node(site.lab.nodes[0], [*become, "apptainer", *words]).stdout == "ours yes\n"
    job = site.job(
        ["python3", "-c", LOOK],
        setup={"commands": [f"export PATH={path}"]},
        resources={"nodes": 2, "time": "00:10:00"},
        launcher={"ranks_per_node": 2},
        container={"runtime": "apptainer", "image": made["sif"], "mounts": [f"{home}/made/root/etc:/data:ro"]},
        preflight={"imports": ["json"]},
    )
    launch = site.launch(job, **user)
    outcome, run = site.outcome(launch), site.run_dir(launch)
    assert outcome["success"], log_of(run, launch["job_id"])
    where = launch["run_dir"]
    for rank, text in enumerate(rank_logs(run).values()):
        said = [65534, f"{where}/work", f"{where}/home", str(rank), True, ["passwd"], "ours"]
        assert json.loads(text.splitlines()[-1]) == said
    assert len(rank_logs(run)) == 4
    table = (run / "preflight" / "0" / "table").read_text().splitlines()
    assert len([line for line in table if "apptainer=ok" in line and "json=" in line]) == 2
