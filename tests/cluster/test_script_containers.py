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

from rankzero.sbatch.calls import differences
from tests.cluster.both_ways import noted
from tests.cluster.launching import JOB_SECONDS, Site, log_of, rank_logs
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
WORKER = '#!/bin/bash\nexec ./bin/call worker "$SLURM_PROCID" "$INSIDE" "$PWD"\n'


def test_a_script_in_an_image_does_what_it_does_under_sbatch(site: Site) -> None:
    tools, by_hand, launched = (f"{site.state_root}.{name}" for name in ("tools", "by-hand", "launched"))
    command(site.host_path(tools), "srun", PYXIS_SRUN)
    command(site.host_path(tools), "sbatch", PYXIS_SBATCH)
    squashfs(site.host_path(tools) / "site.sqsh", {"PATH": f"{tools}:/usr/bin:/bin", "INSIDE": "torch"})
    project = site.folder / "project"
    shutil.copytree(CORPUS / "bin", project / "bin")
    (project / "prelaunch.sbatch").write_text(SCRIPT, encoding="utf-8")
    command(project, "worker.sh", WORKER)
    for place in (by_hand, launched):
        shutil.copytree(project, site.host_path(place))
        site.user.give(site.host_path(place))
    site.user.give(site.host_path(tools))

    def options(place: str) -> list[str]:
        mounts = f"{place}:{place},{tools}:{tools}:ro"
        where = [f"--container-image={tools}/site.sqsh", f"--container-mounts={mounts}"]
        return [*where, f"--container-workdir={place}", "--container-mount-home", "--nodes=2"]

    words = ["sbatch", "--parsable", *options(by_hand), "prelaunch.sbatch", "a b", "c"]
    line = f"cd {by_hand} && PATH={tools}:$PATH {shlex.join(words)}"
    login = 'exec env -i HOME="$HOME" USER="$USER" LOGNAME="$LOGNAME" PATH=/usr/bin:/bin /bin/bash --login -c "$1"'
    plain = site.head(["/bin/sh", "-c", login, "login", line]).stdout.split()[-1]
    asked = ["sbatch", *options(launched), f"{project}/prelaunch.sbatch", "a b", "c"]
    launch = site.launch(
        None,
        *("-e", json.dumps({"job": shlex.join(asked)})),
        launch_overrides={"code.src": str(project), "code.in_place": launched},
        launch_cluster={**site.cluster, "setup": {"commands": [f"export PATH={tools}:$PATH"]}},
        ansible_shell_executable=site.shell("with-pyxis", f'PATH="{tools}:$PATH" exec "$LAB_SHELL" "$@"'),
    )
    site.lab.wait_until(lambda: len(noted(site.host_path(by_hand), {})) == 5, JOB_SECONDS, "sbatch has run the script")
    outcome, run = site.outcome(launch), site.run_dir(launch)
    assert outcome["success"], (log_of(run, launch["job_id"]), rank_logs(run))
    expected = noted(site.host_path(by_hand), {by_hand: "FOLDER", plain: "JOB"}, ASKED)
    actual = noted(site.host_path(launched), {launched: "FOLDER", str(launch["job_id"]): "JOB"}, ASKED)
    wrong = differences(expected, actual)
    assert not wrong, "\n".join(wrong)
