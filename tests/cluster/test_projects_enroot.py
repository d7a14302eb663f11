# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three scripts of the Enroot site from its own checkout (tests/checkouts.py), with its own command line: by
sbatch, and behind `rankzero run --`, under a stand-in for pyxis.

Account, partition and sizes are the lab's, and its programs are stand-ins that note how they are called.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.batch_script import read_command_line
from rankzero.sbatch.calls import Call, differences
from tests.cluster.both_ways import noted
from tests.cluster.launching import Site, log_of, rank_logs
from tests.cluster.test_command import Person
from tests.cluster.test_projects import PATH, RANDOM, STAND_INS, enroot_scripts
from tests.cluster.test_projects_jobs import OWN, meant_in
from tests.cluster.test_script_containers import ASKED, InImage, submitted

pytestmark = pytest.mark.more

IMAGE, WORK = "home/containers/pytorch-23.10.sqsh", "py-in-container/lit-gpt"
SIZES = {
    "gpus-per-node": "2",
    "ntasks-per-node": "2",
    "cpus-per-task": "1",
    "account": "research",
    "partition": "batch",
}
SEED = 7
#: The launcher's name of what a program is told -> that of a launch.
VARIABLES = {
    "GPT_WORLD_SIZE": "WORLD_SIZE",
    "GPT_NUM_NODES": "RANKZERO_NODES",
    "GPT_LOCAL_RANK": "LOCAL_RANK",
    "GPT_NODE_RANK": "NODE_RANK",
    "GPT_GLOBAL_RANK": "RANK",
    "GPT_DEVICES_PER_NODE": "RANKZERO_GPUS_PER_NODE",
    "GPT_GLOBAL_SEED": "RANKZERO_SEED",
    "GPT_SLURM_INTERACTIVE": "",
}
PROGRAM = "pretrain/redpajama.py"
#: What the job sets besides, and what the scripts set for their own lines. A launch has a home of its own.
MEANT = meant_in(*OWN, "HOME", "DEBUG", "SLURM_INTERACTIVE", r"GPT_\w+")
CHOSEN = f"{ASKED}|MASTER_PORT"
#: python and four calls of module in the first script; four and python3 in that of each of 4 x 2 ranks.
CALLS = 1 + 4 + 8 * (4 + 1)


class Project(InImage):
    """The site's scripts and its image in the folder of a user, once for sbatch and once for a launch."""

    def __init__(self, site: Site) -> None:
        self.project = site.folder / "project"
        self.line = enroot_scripts(self.project)

        def scratch(folder: Path) -> None:
            """The folder of a user of the site, as its command line has it."""
            shutil.copytree(self.project, folder / WORK)
            (folder / IMAGE).parent.mkdir(parents=True)
            shutil.copytree(self.project / "out", folder / "out")
            shutil.copytree(self.project / "data", folder / "data")

        # What stands in for python prints a seed.
        super().__init__(site, scratch, image=IMAGE, path=PATH, folder=WORK, inside={"CALL_PRINTS": str(SEED)})

    def options(self, place: str) -> list[str]:
        """The options of the site's own line, with the user's folder, the lab's sizes and the tools of the image."""
        said = [word.replace("/scratch/$USER", place) for word in self.line[1:-1]]
        for name, value in SIZES.items():
            said = [re.sub(f"^--{name}=.*", f"--{name}={value}", word) for word in said]
        said = [
            f"{word},{self.tools}:{self.tools}" if word.startswith("--container-mounts=") else word for word in said
        ]
        assert f"--container-image={place}/{IMAGE}" in said and "--nodes=4" in said
        return [*said, "--time=10", "--mem=1G"]

    def submitted(self) -> str:
        """The id of the job that plain sbatch has made of the line."""
        words = [*self.options(self.by_hand), self.line[-1], "a", "b"]
        return submitted(self.site, f"{self.by_hand}/{WORK}", f"{self.tools}:$PATH", words)


@pytest.fixture
def both(site: Site) -> Project:
    if site.lab.way != "realistic":
        pytest.skip("users of their own need root on this machine")
    return Project(site)


def test_its_command_line_does_what_it_does_under_sbatch(site: Site, both: Project) -> None:
    plain = both.submitted()
    person = Person(site, **both.cluster())
    launched = [*both.options(both.launched), f"project/{Path(both.line[-1]).name}", "a", "b"]
    in_place = f"code.in_place={both.launched}/{WORK}"
    done = person.types("run", "-d", "--json", "-s", in_place, "--", "sbatch", *launched)
    assert done.returncode == 0, done.stdout + done.stderr
    (launch,) = json.loads(done.stdout)["launches"]
    # A launch has a home of its own, and a cache in it.
    both.compare(plain, launch, CALLS, noted_in=STAND_INS, random=f"{ASKED}|HOME|XDG_CACHE_HOME|{RANDOM}")


def job_file(both: Project) -> dict[str, Any]:
    """The job that does the same: the options of the line as keys, and the program's own line, in which the launcher's
    names of ranks and sizes are those of a launch.
    """
    header: dict[str, Any] = read_command_line(shlex.join(["sbatch", *both.options(both.launched), "x"])).header.data
    assert header["resources"].pop("sbatch").keys() == {"output"}
    ranks = int(header["launcher"].pop("ranks_per_node"))
    launcher = next(path for path in both.project.glob("*-launcher.sh")).read_text(encoding="utf-8")
    (line,) = re.findall(r"^python3 .*?(?<!\\)$", launcher, re.M | re.S)
    for name, variable in VARIABLES.items():
        line = re.sub(rf"\$\{{?{name}\b\}}?", f"${variable}" if variable else "", line)
    assert "GPT_" not in line
    return {
        **header,
        "code": {"src": str(both.site.folder / "code")},
        "name": f"redpajama-{both.site.token}",
        "launcher": {"ranks_per_node": ranks, "srun": {"mpi": "none"}},
        "shell": f". .venv/bin/activate && {line}",
        "seed": SEED,
        "env": {"CUDA_LAUNCH_BLOCKING": "0", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
    }


def of_program(calls: Iterable[Call]) -> list[Call]:
    """The calls of the program, without the two variables that pyxis itself sets: its arguments say the same."""
    own = ("RANK", "LOCAL_RANK")
    return [
        replace(call, environment=tuple(pair for pair in call.environment if pair[0] not in own))
        for call in calls
        if call.arguments[:1] == (PROGRAM,)
    ]


def test_the_job_that_says_the_same_starts_the_same_program(site: Site, both: Project) -> None:
    plain = both.submitted()
    launch = site.launch(job_file(both), **both.cluster())
    outcome = site.outcome(launch)
    logs = (log_of(site.run_dir(launch), str(launch["job_id"])), rank_logs(site.run_dir(launch)))
    assert outcome["success"], (outcome, logs)
    site.ended(plain)
    expected, actual = (
        of_program(noted(site.host_path(place) / WORK / STAND_INS, {place: "FOLDER", job: "JOB"}, CHOSEN))
        for place, job in ((both.by_hand, plain), (both.launched, str(launch["job_id"])))
    )
    assert len(expected) == 8 and all(("--seed", str(SEED)) in pairwise(call.arguments) for call in expected), expected
    wrong = [line for line in differences(expected, actual) if not re.search(MEANT, line)]
    assert not wrong, "\n".join([*wrong, *map(str, logs)])
