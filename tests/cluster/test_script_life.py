# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a batch script that works in a folder of the cluster: taken off its node, and fetched from there."""

from __future__ import annotations

import json
from pathlib import Path

from rankzero import errors
from tests.cluster.launching import JOB_SECONDS, Site, log_of
from tests.cluster.test_command import Person

SCRIPT = """\
#!/bin/bash
#SBATCH --requeue --time=00:05:00
trap 'echo "saved ${SLURM_RESTART_COUNT:-0}" >> checkpoint; exit 0' TERM
echo "began ${SLURM_RESTART_COUNT:-0}" >> checkpoint
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
    while :; do sleep 0.1; done
fi
echo '{"loss": 1.0}' > result.json
"""


def test_a_script_that_is_taken_off_its_node_goes_on_in_its_folder_from_which_pull_fetches(site: Site) -> None:
    place = f"{site.state_root}.gpt"
    checkpoint = site.own(place) / "checkpoint"
    job = {**site.job("true", code={"src": str(site.folder / "code"), "in_place": place}), "script": SCRIPT}
    del job["command"]
    path = site.write({**job, "artifact": {"path": "result.json"}}, "job.yml")
    launch = site.launch(path)
    site.wait_for(checkpoint)
    # As a preemption with PreemptMode=REQUEUE does it.
    site.lab.head(["scontrol", "requeue", launch["job_id"]])
    site.lab.head(["scontrol", "update", f"JobId={launch['job_id']}", "StartTime=now"])
    site.lab.wait_until(lambda: "began 1" in checkpoint.read_text(), JOB_SECONDS, "the second attempt has begun")
    site.ended(launch["job_id"])
    outcome = site.outcome(launch)
    said = log_of(site.run_dir(launch), launch["job_id"])
    assert (outcome["success"], outcome["attempt"]) == (True, 1), said
    assert checkpoint.read_text(encoding="utf-8").split("\n") == ["began 0", "saved 0", "began 1", ""], said
    (pulled,) = Person(site).asks("pull", path)
    assert json.loads((Path(pulled["dest"]) / "result.json").read_text(encoding="utf-8")) == {"loss": 1.0}


def test_the_command_runs_a_script_once_and_proves_it(site: Site) -> None:
    """Another comment or time limit in its header is the same launch."""
    person, script = Person(site), site.folder / "train.sbatch"
    text = """\
#!/bin/bash
#SBATCH --job-name=by-command --nodes=1 --time=00:02:00
srun -N1 -n1 echo '{"loss": 1.5}' > result.json
echo "$# $1 $SLURM_NNODES"
"""
    asked = ("run", "train.sbatch", "--json", "-n", "2", "-s", "artifact.path=result.json", "--", "two words")
    launches = []
    for header in ("00:02:00", "00:04:00\n# a comment"):
        script.write_text(text.replace("00:02:00", header), encoding="utf-8")
        done = person.types(*asked)
        assert done.returncode == errors.OK, done.stdout + done.stderr
        launches += json.loads(done.stdout)["launches"]
    ran, again = launches
    assert ran["status"]["success"] and ran["status"]["result"] == {"loss": 1.5}
    assert "1 two words 2" in (Path(ran["logs"]) / "0" / "rank-0000.log").read_text(encoding="utf-8")
    assert (again["submission"], again["job_id"]) == ("unchanged", ran["job_id"])
