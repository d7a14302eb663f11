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
import shutil
from pathlib import Path

import pytest

from tests.cluster.launching import Site
from tests.cluster.test_command import Person
from tests.cluster.test_projects import PATH, RANDOM, STAND_INS, enroot_scripts
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
#: python and four calls of module in the first script; four and python3 in that of each of 4 x 2 ranks.
CALLS = 1 + 4 + 8 * (4 + 1)


def test_its_command_line_does_what_it_does_under_sbatch(site: Site) -> None:
    if site.lab.way != "realistic":
        pytest.skip("users of their own need root on this machine")
    project = site.folder / "project"
    line = enroot_scripts(project)

    def scratch(folder: Path) -> None:
        """The folder of a user of the site, as its command line has it."""
        shutil.copytree(project, folder / WORK)
        (folder / IMAGE).parent.mkdir(parents=True)
        shutil.copytree(project / "out", folder / "out")
        shutil.copytree(project / "data", folder / "data")

    both = InImage(site, scratch, image=IMAGE, path=PATH, folder=WORK)

    def words(place: str, script: str) -> list[str]:
        """The site's own words, with the user's folder, the lab's sizes and the tools of the image."""
        said = [word.replace("/scratch/$USER", place) for word in line[1:-1]]
        for name, value in SIZES.items():
            said = [re.sub(f"^--{name}=.*", f"--{name}={value}", word) for word in said]
        said = [
            f"{word},{both.tools}:{both.tools}" if word.startswith("--container-mounts=") else word for word in said
        ]
        assert f"--container-image={place}/{IMAGE}" in said and "--nodes=4" in said
        return [*said, "--time=10", "--mem=1G", script, "a", "b"]

    plain = submitted(site, f"{both.by_hand}/{WORK}", f"{both.tools}:$PATH", words(both.by_hand, line[-1]))
    person = Person(site, **both.cluster())
    launched = words(both.launched, f"project/{Path(line[-1]).name}")
    in_place = f"code.in_place={both.launched}/{WORK}"
    done = person.types("run", "-d", "--json", "-s", in_place, "--", "sbatch", *launched)
    assert done.returncode == 0, done.stdout + done.stderr
    (launch,) = json.loads(done.stdout)["launches"]
    # A launch has a home of its own, and a cache in it.
    both.compare(plain, launch, CALLS, noted_in=STAND_INS, random=f"{ASKED}|HOME|XDG_CACHE_HOME|{RANDOM}")
