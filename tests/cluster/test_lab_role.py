# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role lab_cluster and the playbook lab, by ansible-playbook: every option reaches the cluster."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster, instance_name, lab_of

NAME = instance_name("role")


def playbook(*arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-playbook", "rankzero.slurm.lab", "--inventory", "localhost,", "--extra-vars", json.dumps(variables)]
        + list(arguments),
        capture_output=True,
        text=True,
        check=False,
    )


def recap(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """The counters of the recap; fails the test when the playbook failed."""
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout.rsplit("localhost", 1)[1].split()
    return {key: int(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}


@pytest.fixture
def options() -> Iterator[dict[str, object]]:
    """Every option of the role with another value than its default; the lab is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="rankzero-role-", dir="/var/tmp") as place,
        tempfile.TemporaryDirectory(prefix="rankzero-bind-", dir="/var/tmp") as bound,
    ):
        os.chmod(place, 0o755)
        chosen: dict[str, object] = {
            "lab_cluster_name": NAME,
            "lab_cluster_directory": f"{place}/lab",
            "lab_cluster_way": "realistic" if os.getuid() == 0 else "simple",
            "lab_cluster_nodes": 2,
            "lab_cluster_cpus": 3,
            "lab_cluster_memory": 3000,
            "lab_cluster_gpus": 5,
            "lab_cluster_gpu_type": "a100",
            "lab_cluster_gres": ["lscratch:50"],
            "lab_cluster_profile": "friendly",  # site: tests/cluster/test_site.py
            "lab_cluster_accounting": "slurmdbd",
            "lab_cluster_job_comments": True,
            "lab_cluster_internet": False,
            "lab_cluster_partitions": [{"name": "first"}, {"name": "second", "max_time": "00:07:00", "default": True}],
            "lab_cluster_slurm_conf": ["FirstJobId=4000"],
            "lab_cluster_binds": [bound],
            "lab_cluster_install": True,
            "lab_cluster_packages": ["coreutils", "util-linux"],
        }
        yield chosen
        recap(playbook(**{**chosen, "state": "absent"}))


def test_every_option_reaches_the_cluster(options: dict[str, object]) -> None:
    assert recap(playbook(**options))["changed"] == 1
    lab = LabCluster(lab_of(NAME, directory=options["lab_cluster_directory"], nodes=2, way=options["lab_cluster_way"]))
    shown = lab.head(["sinfo", "--noheader", "--format=%P|%l|%D|%c|%m|%G"]).stdout.splitlines()
    gres = "gpu:a100:5,lscratch:50"
    assert sorted(shown) == [f"first|infinite|2|3|3000|{gres}", f"second*|7:00|2|3|3000|{gres}"]
    job, _ = lab.run_job("--nodes=2", "--comment=kept", script="true")
    assert job == "4000"
    sacct = ["sacct", "-X", "--noheader", "--parsable2", "--format=Comment", f"--jobs={job}"]
    lab.wait_until(lambda: lab.head(sacct).stdout == "kept\n", what="the accounting keeps the comment")
    assert lab.head(["printenv", "http_proxy"], check=False).returncode != 0
    if lab.way == "realistic":
        (bound,) = options["lab_cluster_binds"]  # type: ignore[misc]
        lab.node("node02", ["touch", f"{bound}/written"])
        assert Path(str(bound), "written").exists()

    assert recap(playbook(**options))["changed"] == 0, "a second run changes nothing"
    preview = playbook("--check", "--diff", **{**options, "lab_cluster_nodes": 1})
    assert recap(preview)["changed"] == 1
    assert "-NodeName=node[01-02]" in preview.stdout
    assert "+NodeName=node01" in preview.stdout
    assert len(lab.head(["sinfo", "--noheader", "--Node", "--partition=first"]).stdout.splitlines()) == 2


# Every fixture of a lab asks for the first and the last of them.
@pytest.mark.more
def test_states(options: dict[str, object]) -> None:
    quick = {**options, "lab_cluster_accounting": "none", "lab_cluster_job_comments": False}
    directory = Path(str(options["lab_cluster_directory"]))
    for state, changed, exists in (
        ("absent", 0, False),
        ("stopped", 0, False),
        ("present", 1, True),
        ("restarted", 1, True),
        ("stopped", 1, True),
        ("stopped", 0, True),
        ("absent", 1, False),
    ):
        assert recap(playbook(**{**quick, "state": state}))["changed"] == changed, state
        assert directory.exists() == exists, state


def test_wrong_options_are_all_named(options: dict[str, object]) -> None:
    done = playbook(**{**options, "lab_cluster_nodes": 81, "lab_cluster_gpus": 17, "lab_cluster_slurm_conf": ["x"]})
    assert done.returncode != 0
    for words in ("nodes: 81 is not allowed; allowed are 1 to 80", "gpus: 17 is not allowed", "slurm_conf: 'x'"):
        assert words in done.stdout


@pytest.mark.more
def test_a_package_that_does_not_exist_is_looked_for(options: dict[str, object]) -> None:
    """In check mode nothing is installed; that apt is asked at all shows that the list was compared."""
    done = playbook("--check", **{**options, "lab_cluster_packages": ["coreutils", "rankzero-no-such-package"]})
    assert "rankzero-no-such-package" in done.stdout + done.stderr
    assert done.returncode != 0
    assert recap(playbook("--check", **{**options, "lab_cluster_packages": ["no-such"], "lab_cluster_install": False}))
    # Profile site needs more than the others.
    more = {"lab_cluster_packages": ["coreutils"], "lab_cluster_site_packages": ["rankzero-no-such-either"]}
    done = playbook("--check", **{**options, **more, "lab_cluster_profile": "site", "lab_cluster_cpus": 0})
    assert done.returncode != 0
    assert "rankzero-no-such-either" in done.stdout + done.stderr
