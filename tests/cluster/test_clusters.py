# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters over SSH: groups of an inventory with settings of their own, an sshd for each, one host that speaks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rankzero
from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.door import Door
from tests.cluster.launching import UNTIL_GO, Played, Site, read_json


@pytest.fixture(scope="module")
def second() -> Iterator[LabCluster]:
    """Another cluster: small, and without accounting."""
    this = lab_of(instance_name("second"), nodes=2, accounting="none")
    with booted(this) as running:
        yield running


class Two:
    """A user with two clusters in the inventory: alpha, with two login nodes, and beta, with one."""

    def __init__(self, folder: Path, labs: dict[str, LabCluster]) -> None:
        self.folder = folder
        self.sites = {}
        for name, lab in labs.items():
            (folder / name).mkdir()
            self.sites[name] = Site(lab, folder / name, f"two-{name}")
        self.doors = {name: Door(folder / f"door-{name}", lab) for name, lab in labs.items()}
        children = {}
        for name, site in self.sites.items():
            hosts = {f"{name}1": {}, **({f"{name}2": {}} if name == "alpha" else {})}
            own = {
                "slurm_cluster": name,
                "launch_cluster": {
                    **site.cluster,
                    "code_roots": [str(folder)],  # reconcile takes files from beside the job files alone
                    "resources": {"partition": "batch" if name == "alpha" else "short"},
                },
                "reconcile_jobs": f"jobs/{name}",
                **self.doors[name].variables(folder),
            }
            children[name] = {"hosts": hosts, "vars": own}
        (folder / "inventory.json").write_text(json.dumps({"slurm_login": {"children": children}}))

    def play(self, job: Any, playbook: str, *arguments: str, **variables: Any) -> Played:
        """Run a playbook on both; their own `launch_cluster` holds."""
        site = self.sites["alpha"]
        options = {"launch_cluster": None, "inventory": self.folder / "inventory.json", **variables}
        return site.play(job, *arguments, playbook=playbook, **options)

    def close(self) -> None:
        for site in self.sites.values():
            site.close()
        for master in (self.folder / "cp").glob("*"):
            subprocess.run(
                ["ssh", "-o", f"ControlPath={master}", "-O", "exit", "any"], capture_output=True, check=False
            )
        for door in self.doors.values():
            door.close()


@pytest.fixture
def two(lab: LabCluster, second: LabCluster, tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path, {"alpha": lab, "beta": second})
    yield made
    made.close()


def test_one_host_of_each_cluster_launches_with_the_cluster_s_own_settings(two: Two) -> None:
    alpha, beta = two.sites["alpha"], two.sites["beta"]
    job = alpha.job("echo here; hostname")
    for playbook in ("train", "sweep", "cancel", "attach"):
        refused = two.play(job if playbook in ("train", "sweep") else None, f"rankzero.slurm.{playbook}")
        said = " ".join(refused.output.split())
        assert refused.rc and "2 clusters" in said and "alpha (host alpha1)" in said and "-e cluster=" in said, said
    # Neither is `hosts` of a play of one's own a choice, nor a variable that names one of its two clusters.
    alpha.write({**job, "code": {"src": str(alpha.folder / "code")}}, "jobs/own/only.yml")
    for module, given in (("job", {"job": "{{ job }}"}), ("reconcile", {"jobs": "jobs/own"})):
        task = {f"rankzero.slurm.{module}": {**given, "cluster": "{{ launch_cluster }}"}}
        for number, chosen in enumerate(({}, {"cluster": "beta"})):
            own = two.folder / f"{module}{number}.json"
            mine = {"hosts": "slurm_login", "gather_facts": False, "vars": chosen, "tasks": [task]}
            own.write_text(json.dumps([mine]))
            refused = two.play(job, str(own))
            assert refused.rc and "are 2 clusters" in " ".join(refused.output.split()), refused.output
    assert not alpha.runs() and not beta.runs(), "nothing is submitted where nobody has chosen"
    with pytest.raises(rankzero.Refused, match="2 clusters"):
        rankzero.run(job, cluster="slurm_login", inventory=str(two.folder / "inventory.json"))
    assert not alpha.runs() and not beta.runs()
    both_chosen: dict[str, Any] = {"wait": True, "launch_logs_dest": None, "cluster": "slurm_login"}
    played = two.play(job, "rankzero.slurm.train", **both_chosen)
    assert played.rc == 0, played.output
    checked = ["rankzero.slurm.extra_variables"]
    assert played.tasks("alpha2") == checked, "the other login node of alpha launches nothing"
    for name, site in two.sites.items():
        launch = played.launch(f"{name}1")
        assert launch["submission"] == "submitted"
        assert launch["run_dir"].startswith(site.state_root)
        script = (site.run_dir(launch) / "job.sbatch").read_text()
        assert f"#SBATCH --partition={'batch' if name == 'alpha' else 'short'}\n" in script
        (result,) = played.results("rankzero.slurm.job_wait", f"{name}1")
        logs = result["logs"]
        assert result["success"] and logs["rounds"] == 1
        assert Path(logs["dest"]).relative_to(alpha.folder).parts[:2] == ("runs", name)
        assert "here" in next(Path(logs["dest"]).glob("0/rank-0000.log")).read_text()
    assert len(alpha.jobs(job["name"])) == len(beta.jobs(job["name"])) == 1
    # The second time nothing moves, and what moved the first time was more.
    again = two.play(job, "rankzero.slurm.train", **both_chosen)
    assert [one["logs"]["bytes"] for one in again.results("rankzero.slurm.job_wait")] == [0, 0]

    # A folder of specs for each cluster; beta's alone is reconciled by `-e cluster=`.
    for name, site in two.sites.items():
        spec = {**site.job(UNTIL_GO, "set"), "code": {"src": str(site.folder / "code")}}
        alpha.write(spec, f"jobs/{name}/only.yml")
    one = two.play(None, "rankzero.slurm.reconcile", cluster="beta", launch_logs_dest=None)
    assert one.rc == 0, one.output
    both = two.play(None, "rankzero.slurm.reconcile", launch_logs_dest=None)
    assert both.rc == 0, both.output
    steps = {name: both.results("rankzero.slurm.reconcile", f"{name}1")[-1]["steps"] for name in two.sites}
    assert [(step["action"], step["file"]) for step in steps["alpha"]] == [("launch", "only.yml")]
    assert [(step["action"], step["file"]) for step in steps["beta"]] == [("adopt", "only.yml")]
    assert both.results("rankzero.slurm.reconcile", "alpha2") == []
    for name, site in two.sites.items():
        assert read_json(site.run_dir(steps[name][0]) / "launch.json")["job_file"]["path"] == "only.yml"

    # What is active, on both.
    shown = two.play(None, "rankzero.slurm.status", active=True, launch_logs_dest=None)
    assert len(shown.results("rankzero.slurm.job_info")) == 2
    for name, site in two.sites.items():
        site.go(steps[name][0])
        assert site.outcome(steps[name][0])["success"]
