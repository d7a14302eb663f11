# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hydra's launcher `rankzero` with the real Hydra: a multirun is one job array, each of its jobs a launch."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.cluster.launching import Site
from tests.cluster.test_command import Person
from tests.repository import CACHE, ROOT, run

# It installs Hydra.
pytestmark = pytest.mark.more

APP = """
import os
import hydra
from hydra.core.hydra_config import HydraConfig


@hydra.main(version_base=None, config_path="../conf", config_name="config")
def train(cfg):
    number = HydraConfig.get().job.num
    print("job", number, "rank", os.environ["RANK"], "of array", os.environ["SLURM_ARRAY_JOB_ID"], cfg.note)
    if cfg.lr > 1:
        raise ValueError("the rate is too high")
    return number + cfg.lr * cfg.model.width


if __name__ == "__main__":
    train()
"""
#: A sweeper's place is the program's: it asks for the values, and prints them.
SWEEPER = """
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore


class Printing(BasicSweeper):
    def sweep(self, arguments):
        for batch in super().sweep(arguments):
            for ended in batch:
                print("returned", ended.overrides, ended.return_value, ended.cfg.model.name, ended.working_dir)


ConfigStore.instance().store(
    group="hydra/sweeper",
    name="printing",
    node={"_target_": "hydra_plugins.printing.Printing", "max_batch_size": None, "params": None},
)
"""
CONFIG = """
defaults: [{model: small}, _self_, {override hydra/launcher: rankzero}]
lr: 0.5
note: "it's {lr} $(id)"
hydra:
  launcher:
    code: {src: .}
    resources: {time: "00:05:00", nodes: 2}
    sweep: {parallel: 2}
"""


class Project(Person):
    """A user's project for Hydra, beside an inventory: program and configuration lie in folders of the code."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.name = f"train-{site.token}"
        self.installed = CACHE / "hydra"
        if not self.installed.exists():
            run("uv", "pip", "install", "--python", sys.executable, "--target", self.installed, "hydra-core>=1.3,<2")
        # The nodes have Hydra in a folder that they share.
        nodes = site.lab.shared / "hydra"
        if not nodes.exists():
            run("cp", "-r", self.installed, nodes)
        path = f"{site.lab.shared_inside}/hydra"
        self.write("src/train.py", APP)
        self.write("conf/config.yaml", f"{CONFIG}    name: {self.name}\n    env: {{PYTHONPATH: {path}}}\n")
        self.write("conf/other.yaml", "defaults: [config]\nnote: of the other file\n")
        self.write("conf/model/small.yaml", "name: small\nwidth: 2\n")
        self.write("conf/model/large.yaml", "name: large\nwidth: 8\n")
        self.write("here/hydra_plugins/printing.py", SWEEPER)

    def write(self, name: str, text: str) -> None:
        path = self.site.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def trains(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = (ROOT / "python", self.site.folder / "here", self.installed)
        return subprocess.run(
            [sys.executable, "src/train.py", "-m", *words],
            cwd=self.site.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip


@pytest.fixture
def project(site: Site) -> Project:
    return Project(site)


def returned(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("returned")]


def test_a_multirun_is_one_array_and_the_same_again_is_no_job(project: Project) -> None:
    site, words = project.site, ("lr=0.5,1", "model=small,large", "hydra/sweeper=printing")
    done = project.trains(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    values = [float(line.split("]", 1)[1].split()[0]) for line in returned(done.stdout)]
    assert values == [1, 5, 4, 11], "number of the job + lr * width"
    assert all(site.state_root in line for line in returned(done.stdout))
    runs = site.host_path(site.state_root) / "runs" / project.name
    logs = [path.read_text(encoding="utf-8") for path in runs.glob("*/1/logs/0/rank-*.log")]
    assert len(logs) == 8 and all("it's {lr} $(id)" in text for text in logs), logs
    assert len({number for text in logs for number in re.findall("of array ([0-9]+)", text)}) == 1, logs

    other = project.trains("--config-name=other", "lr=0.5")
    assert other.returncode == 0, other.stdout + other.stderr
    assert len([path for path in runs.glob("*/1/logs/0/rank-*.log") if "of the other file" in path.read_text()]) == 2

    again = project.trains(*words)
    assert returned(again.stdout) == returned(done.stdout) and len(site.jobs(f"{project.name}.")) == 5


def test_a_job_that_fails_raises_where_its_value_is_asked_for(project: Project) -> None:
    done = project.trains("lr=0.5,2", "hydra/sweeper=printing", "hydra.launcher.resources.nodes=1")
    assert done.returncode != 0 and "the rate is too high" in done.stderr and "LaunchFailed" in done.stderr, done.stderr
    wrong = project.trains("lr=0.5", "hydra.launcher.resources.tme=1")
    assert wrong.returncode != 0 and "did you mean" in wrong.stderr and "time" in wrong.stderr, wrong.stderr
    assert len(project.site.jobs(f"{project.name}.")) == 2
    outside = project.trains("lr=0.5", "hydra.launcher.code.src=src")
    assert outside.returncode != 0 and str(project.site.folder / "conf") in outside.stderr, outside.stderr
    assert len(project.site.jobs(f"{project.name}.")) == 2
