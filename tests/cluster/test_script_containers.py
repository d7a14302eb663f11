# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch script that sbatch runs in an image (`sbatch --container-image=X script`): launched as it is, and compared
with what plain sbatch makes of the same line, under a stand-in for pyxis (tests/stand_ins.py). Its own srun lines start
further programs in that image, as on a site whose images have Slurm's commands.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankzero.sbatch.calls import differences
from tests.cluster.both_ways import noted
from tests.cluster.launching import Site, log_of, rank_logs
from tests.cluster.test_script_jobs import CORPUS
from tests.stand_ins import PYXIS_SBATCH, PYXIS_SRUN, command, squashfs

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=prelaunch --nodes=2 --ntasks-per-node=2 --time=00:05:00
./bin/call script "$PWD" "$INSIDE" "$(readlink /proc/self/fd/0)" "$@"
exec srun --mpi=none ./worker.sh
"""
#: What pyxis is asked for the script's steps: a launch mounts its own places as well.
ASKED = "_SLURM_SPANK_OPTION_pyxis_.*"
LOGIN = 'exec env -i HOME="$HOME" USER="$USER" LOGNAME="$LOGNAME" PATH=/usr/bin:/bin /bin/bash --login -c "$1"'
WORKER = '#!/bin/bash\nexec ./bin/call worker "$SLURM_PROCID" "$INSIDE" "$PWD"\n'


def submitted(site: Site, folder: str, path: str, words: Sequence[str]) -> str:
    """Submit by sbatch from a login shell in a folder of the lab, with this PATH; the job's id."""
    line = f"cd {folder} && PATH={path} {shlex.join(['sbatch', '--parsable', *words])}"
    return site.head(["/bin/sh", "-c", LOGIN, "login", line]).stdout.split()[-1]


class InImage:
    """A folder of a user's on the cluster, once for sbatch and once for a launch, and the stand-in for pyxis.

    fill: makes such a folder. image: the file of the image below it, whose PATH is `path` after the folder of the
    tools. inside: what the image sets besides. folder: where the script works and notes its calls.
    """

    def __init__(
        self,
        site: Site,
        fill: Callable[[Path], object],
        *,
        image: str,
        path: str = "/usr/bin:/bin",
        folder: str = "",
        inside: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.site = site
        self.tools, self.by_hand, self.launched = (
            f"{site.state_root}.{name}" for name in ("tools", "by-hand", "launched")
        )
        command(site.host_path(self.tools), "srun", PYXIS_SRUN)
        command(site.host_path(self.tools), "sbatch", PYXIS_SBATCH)
        for place in (self.by_hand, self.launched):
            fill(site.host_path(place))
            squashfs(site.host_path(place) / image, {"PATH": f"{self.tools}:{path}", "INSIDE": "torch", **inside})
        site.user.give(*(site.host_path(place) for place in (self.tools, self.by_hand, self.launched)))
        self.folder = folder

    def cluster(self) -> dict[str, Any]:
        """What an inventory says of a cluster that has pyxis."""
        shell = self.site.shell("with-pyxis", f'PATH="{self.tools}:$PATH" exec "$LAB_SHELL" "$@"')
        setup = {"commands": [f"export PATH={self.tools}:$PATH"]}
        return {"ansible_shell_executable": shell, "launch_cluster": {**self.site.cluster, "setup": setup}}

    def compare(self, plain: str, launch: Any, count: int, *, noted_in: str = "", random: str = ASKED) -> None:
        """Fail unless both jobs have made the same `count` calls, and ended with the same exit code."""
        site, run = self.site, self.site.run_dir(launch)
        outcome = site.outcome(launch)
        ended = site.ended(plain)
        printed = (log_of(run, str(launch["job_id"])), rank_logs(run))
        assert outcome["success"] == (ended == "COMPLETED"), (ended, outcome, printed)
        expected, actual = (
            noted(site.host_path(place) / self.folder / noted_in, {place: "FOLDER", job: "JOB"}, random)
            for place, job in ((self.by_hand, plain), (self.launched, str(launch["job_id"])))
        )
        wrong = differences(expected, actual)
        assert not wrong, "\n".join([*wrong, *map(str, printed)])
        assert len(expected) == count


def test_a_script_in_an_image_does_what_it_does_under_sbatch(site: Site) -> None:
    project = site.folder / "project"
    shutil.copytree(CORPUS / "bin", project / "bin")
    (project / "prelaunch.sbatch").write_text(SCRIPT, encoding="utf-8")
    command(project, "worker.sh", WORKER)
    both = InImage(site, lambda folder: shutil.copytree(project, folder), image="site.sqsh")

    def options(place: str) -> list[str]:
        where = [
            f"--container-image={place}/site.sqsh",
            f"--container-mounts={place}:{place},{both.tools}:{both.tools}:ro",
        ]
        return [*where, f"--container-workdir={place}", "--container-mount-home", "--nodes=2"]

    plain = submitted(
        site, both.by_hand, f"{both.tools}:$PATH", [*options(both.by_hand), "prelaunch.sbatch", "a b", "c"]
    )
    asked = ["sbatch", *options(both.launched), f"{project}/prelaunch.sbatch", "a b", "c"]
    launch = site.launch(
        None,
        *("-e", json.dumps({"job": shlex.join(asked)})),
        launch_overrides={"code.src": str(project), "code.in_place": both.launched},
        **both.cluster(),
    )
    both.compare(plain, launch, 5)
