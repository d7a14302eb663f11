# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between the hosts of a site, and how long its paths are: logins, homes, the place of the share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import RESULT, Site


@pytest.fixture
def site(site_lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(site_lab, tmp_path, request.node.name)
    yield made
    made.close()


def test_a_login_on_a_node_prints_and_takes_its_time(site_lab: LabCluster) -> None:
    said = profile.LOGIN.split("'")[1]
    assert said in site_lab.node("node01", ["bash", "--login", "-c", "echo there"]).stdout
    assert "sleep" in profile.LOGIN
    # Only a login pays for it.
    assert site_lab.node("node01", ["sh", "-c", "echo there"]).stdout == "there\n"


def test_homes_are_of_each_host_and_shared_paths_are_long(site_lab: LabCluster) -> None:
    home, become = profile.home(site_lab.lab), profile.become_user(site_lab.lab)
    site_lab.head([*become, "touch", f"{home}/of-the-head"])
    site_lab.node("node01", [*become, "touch", f"{home}/of-node01"])
    assert site_lab.node("node01", ["ls", home]).stdout == "of-node01\n"
    assert site_lab.node("node02", ["ls", home]).stdout == ""
    assert site_lab.head(["sh", "-c", f"cat {home}/of-node01 || stat -c %U {home}"]).stdout == f"{profile.USER}\n"
    # A socket in a run directory could not have a name.
    assert len(f"{site_lab.shared_inside}/{profile.USER}/rankzero/state/runs/a-name/0123456789abcdef/1") > 108


def test_a_launch_below_a_home_that_the_nodes_do_not_see_says_so(site: Site) -> None:
    """The roots of nobody who says where: below the home, which is another on each host."""
    job = site.job(RESULT, resources={"nodes": 2, "time": "00:05:00", "memory": "300M"})
    played = site.play(job, wait=True, launch_cluster={"resources": {"account": profile.ACCOUNT}})
    root = f"{profile.home(site.lab.lab)}/.rankzero/state"
    assert played.rc == 2
    assert f"launch_cluster.state_root: {root} may not be seen by the nodes" in played.output
    (waited,) = played.results("rankzero.slurm.job_wait")
    assert f"never started: {site.lab.nodes[0]} could not open the job's log below {root}" in waited["message"], waited
    (why,) = played.results("rankzero.slurm.job_diagnosis")
    assert why["diagnosis"]["family"] == "state_root", why
