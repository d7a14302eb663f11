# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch scripts as users have them: launched as they are, and compared with what plain sbatch makes of the same file.

Each file of batch_scripts/ is one shape. It says what it does by the programs in batch_scripts/bin, which write down
how they were called: name, arguments, folder and environment. To add a shape, add a file.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import FINAL, JOB, JOB_SECONDS, Site, read_json

CORPUS = Path(__file__).with_name("batch_scripts")
SCRIPTS = sorted(path.stem for path in CORPUS.glob("*.sbatch"))
# A script that is submitted with options says with which.
COMMAND_LINE = re.compile(r"^# (sbatch .*)$", re.M)
# A script with this line works in a folder of the cluster, not in a copy.
IN_PLACE = "# in place\n"
ARGUMENTS = ["configs/8b.yaml", "two words", "#5"]
JOBS_SECONDS = 300
#: Differs between any two jobs: numbers, ports, processes, the choice of nodes and cores.
OF_ONE_JOB = re.compile(
    r"SLURM_(JOB_?ID|TASK_PID|(JOB_|STEP_)?NODELIST|STEP_LAUNCHER_PORT|SRUN_COMM_(PORT|HOST)|LAUNCH_NODE_IPADDR|"
    r"(JOB_|STEP_)GPUS|STEP_?ID|TOPOLOGY_ADDR|CPU_BIND(_LIST|_VERBOSE|_TYPE)?|JOB_(START|END)_TIME)|"
    r"SLURMD_NODENAME|HOST(NAME)?|PWD|OLDPWD|_|(CUDA|ROCR)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
)
#: What only the launch has, and what only a submission by hand has: options of the two headers, and of the login.
OF_ONE_WAY = re.compile(r"RANKZERO_.*|SLURM_(EXPORT_ENV|GET_USER_ENV|JOB_DEPENDENCY|OPEN_MODE)|MAIL|SHELL|SHLVL")


def command_line(name: str, folder: str = "") -> list[str]:
    """The words of sbatch for one script. `folder`: ends in a slash."""
    match = COMMAND_LINE.search((CORPUS / f"{name}.sbatch").read_text(encoding="utf-8"))
    words = shlex.split(match[1]) if match else ["sbatch"]
    wrapped = any(word.startswith("--wrap") for word in words)
    return words if wrapped else [*words, f"{folder}{name}.sbatch", *ARGUMENTS]


def is_in_place(name: str) -> bool:
    return IN_PLACE in (CORPUS / f"{name}.sbatch").read_text(encoding="utf-8")


def calls(folder: Path, inside: str, job_id: str) -> list[str]:
    """What the programs of one job have written down, without what differs between any two jobs."""
    found = []
    for path in folder.glob("calls/*.json"):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        call = json.loads(text.replace(inside, "FOLDER").replace(job_id, "JOB"))
        kept = {
            name: value
            for name, value in call["environment"].items()
            if not OF_ONE_JOB.fullmatch(name) and not OF_ONE_WAY.fullmatch(name)
        }
        found.append(json.dumps({**call, "environment": kept}, sort_keys=True))
    return sorted(found)


class Both:
    """Every script of the corpus, run both ways by the same ordinary user."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.project = site.folder / "project"
        shutil.copytree(CORPUS, self.project, symlinks=True)
        self.by_hand = f"{site.lab.shared_inside}/by-hand-{site.token}"
        place = site.host_path(self.by_hand)
        for name in SCRIPTS:
            shutil.copytree(CORPUS, place / name, symlinks=True)
            if is_in_place(name):
                shutil.copytree(CORPUS, place / f"{name}.launched", symlinks=True)
        subprocess.run(["chown", "-R", str(profile.UID), str(place)], check=True)
        site.cluster = {"state_root": f"{self.by_hand}/state", "store_root": f"{self.by_hand}/store"}
        self.plain = dict(line.split() for line in self._submitted().splitlines())
        self.launched = self._launched()
        wanted = [
            *self.plain.values(),
            *(str(launch["job_id"]) for launch in self.launched.values() if launch.get("job_id")),
        ]
        site.lab.wait_until(lambda: self._ended(wanted), JOBS_SECONDS, "all scripts have ended")

    def _as_user(self, *words: str) -> str:
        return self.site.lab.head([*profile.become_user(self.site.lab.lab), *words], timeout=JOBS_SECONDS).stdout

    def _submitted(self) -> str:
        """Submit each script by sbatch from a login shell, in a folder of its own: lines of name and job id."""
        line = "\n".join(
            f"cd {self.by_hand}/{name} && echo {name} $(sbatch --parsable {shlex.join(command_line(name)[1:])})"
            for name in SCRIPTS
        )
        known = (f"HOME={profile.home(self.site.lab.lab)}", f"USER={profile.USER}", f"LOGNAME={profile.USER}")
        words = ("env", "-i", *known, "PATH=/usr/bin:/bin", "/bin/bash", "--login", "-c", line)
        printed = self._as_user(*words)
        # A login profile may print as well.
        return "\n".join(line for line in printed.splitlines() if line.split(" ")[0] in SCRIPTS)

    def _launched(self) -> dict[str, dict[str, Any]]:
        """One playbook for all: the file is the job, or the command line that submits it."""
        jobs = {name: {**profile.become_variables(), **self._job(name)} for name in SCRIPTS}
        played = self.site.play_many(jobs, "--forks=8", timeout=2 * JOBS_SECONDS)
        return {name: played.results(JOB, name)[-1] for name in SCRIPTS}

    def _job(self, name: str) -> dict[str, Any]:
        source = {"code.src": str(self.project)}
        if is_in_place(name):
            source["code.in_place"] = f"{self.by_hand}/{name}.launched"
        line = command_line(name, f"{self.project}/")
        if len(line) > 2 + len(ARGUMENTS) or line[1].startswith("-"):
            return {"job": shlex.join(line), "launch_overrides": source}
        return {"job": line[1], "launch_overrides": {**source, "program_args": ARGUMENTS}}

    def _ended(self, wanted: list[str]) -> bool:
        listed = self.site.lab.head(["squeue", "--noheader", "--states=all", "--Format=JobID:20,State:20"]).stdout
        states = dict(line.split() for line in listed.splitlines())
        return all(states.get(job_id, FINAL[0]) in FINAL for job_id in wanted)

    def exit_code(self, job_id: str) -> str:
        """`CODE:SIGNAL`, as accounting has it: slurmctld forgets a job after some minutes."""
        asked = ["sacct", "--noheader", "--parsable2", "--allocations", "--format=ExitCode", f"--jobs={job_id}"]

        def answer() -> str:
            return self.site.lab.head(asked).stdout.strip()

        self.site.lab.wait_until(answer, JOB_SECONDS, f"the end of job {job_id} in accounting")
        return answer()


@pytest.fixture(scope="module")
def both(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    if lab.way != "realistic":
        pytest.skip("users of their own need root on this machine")
    site = Site(lab, tmp_path_factory.mktemp("scripts"), "scripts")
    yield Both(site)
    site.close()


def difference(one: list[str], other: list[str]) -> Mapping[str, Any]:
    return {"only sbatch": sorted({*one} - {*other})[:2], "only the launch": sorted({*other} - {*one})[:2]}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_does_under_sbatch(both: Both, name: str) -> None:
    plain, launch = both.plain[name], both.launched[name]
    assert not launch["failed"], launch["msg"]
    inside = f"{both.by_hand}/{name}"
    expected = calls(both.site.host_path(inside), inside, plain)
    work = f"{inside}.launched" if is_in_place(name) else f"{launch['run_dir']}/work"
    actual = calls(both.site.host_path(work), work, str(launch["job_id"]))
    assert actual == expected, json.dumps(difference(expected, actual), indent=1)
    assert expected, "a script that calls nothing says nothing"
    code, signal = both.exit_code(plain).split(":")
    outcome = read_json(both.site.run_dir(launch) / "outcome.json")
    assert outcome["success"] == (code == signal == "0")
    # A shell says of a signal what slurmstepd sees itself.
    assert outcome["exit_code"] == (int(code) or (int(signal) and 128 + int(signal)))


def test_what_a_script_and_its_steps_print_is_among_the_logs(both: Both) -> None:
    launch = both.launched["steps-with-logs"]
    logs = both.site.run_dir(launch) / "logs" / "0"
    names = ["rank-0000.log", "rank-0000.err", *(f"step-0/{path.name}" for path in (logs / "step-0").glob("*"))]
    printed = sorted((logs / name).read_text(encoding="utf-8") for name in names)
    assert printed == ["complaint\n", "err\n", "err\n", "out 0\n", "out 1\n", "script\n"]
    assert {"step-0/rank-0000.out", "step-0/rank-0001.out"} <= {*names}
