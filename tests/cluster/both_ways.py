# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch scripts run both ways, by plain sbatch and as a launch, and what their programs have written down of it.

The programs are stand-ins (batch_scripts/bin/call): they write down how they were called: name, arguments, folder and
environment.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from rankzero.sbatch.calls import Call, calls, differences
from tests.cluster.launching import FINAL, JOB, JOB_SECONDS, Site, read_json

JOBS_SECONDS = 300


@dataclass(frozen=True)
class Script:
    """A script in a folder of the user's: `line` is the command line of sbatch, with the script below `folder` as its
    word `path` (none in a line with --wrap).
    """

    folder: Path
    line: tuple[str, ...]
    path: str = ""
    in_place: bool = False
    #: Of the submitting shell.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Further variables whose values are of one job.
    random: str = ""
    #: The folder of the stand-ins below `folder`, in which they note their calls.
    noted: str = ""
    #: The job file below `folder` that is launched in the place of the script; "" for the script itself.
    job: str = ""
    #: A regular expression: differences that such a job is meant to have.
    meant: str = "(?!)"

    def words(self, folder: str) -> list[str]:
        """The line with the script below `folder`, which ends in a slash or is empty."""
        return [f"{folder}{word}" if word == self.path else word for word in self.line]


def noted(place: Path, names: Mapping[str, str], random: str = "") -> list[Call]:
    """What the programs of one job have written down below `place`, without what differs between any two jobs."""
    texts = (path.read_text(encoding="utf-8", errors="surrogateescape") for path in place.glob("calls/*.json"))
    return calls(texts, names, random)


class BothWays:
    """Every script, run both ways by the same ordinary user."""

    def __init__(self, site: Site, scripts: Mapping[str, Script]) -> None:
        self.site, self.scripts = site, scripts
        self.by_hand = f"{site.lab.shared_inside}/by-hand-{site.token}"
        place = site.host_path(self.by_hand)
        self.projects = {
            folder: site.folder / f"project-{number}"
            for number, folder in enumerate(sorted({script.folder for script in scripts.values()}))
        }
        for folder, project in self.projects.items():
            shutil.copytree(folder, project, symlinks=True)
        for name, script in scripts.items():
            shutil.copytree(script.folder, place / name, symlinks=True)
            if script.in_place:
                shutil.copytree(script.folder, place / f"{name}.launched", symlinks=True)
        subprocess.run(["chown", "-R", str(profile.UID), str(place)], check=True)
        site.cluster = {"state_root": f"{self.by_hand}/state", "store_root": f"{self.by_hand}/store"}
        self.plain = dict(line.split() for line in self._submitted().splitlines())
        self.launched = self._launched()
        wanted = [
            *self.plain.values(),
            *(str(launch["job_id"]) for launch in self.launched.values() if launch.get("job_id")),
        ]
        site.lab.wait_until(lambda: self._ended(wanted), JOBS_SECONDS, "all scripts have ended")

    def compare(self, name: str) -> int:
        """Fail unless both ways have made the same calls, and ended with the same exit code. How many calls."""
        plain, launch, script = self.plain[name], self.launched[name], self.scripts[name]
        assert not launch["failed"], launch["msg"]
        inside = f"{self.by_hand}/{name}"
        # Where the script itself lies: below slurmd's own folder, or in the run directory.
        own = {f"/var/spool/slurmd/job{int(plain):05}": "SPOOL", inside: "FOLDER", plain: "JOB"}
        expected = noted(self.site.host_path(inside) / script.noted, own, script.random)
        work = f"{inside}.launched" if script.in_place else f"{launch['run_dir']}/work"
        names = {work: "FOLDER", launch["run_dir"]: "SPOOL", str(launch["job_id"]): "JOB"}
        actual = noted(self.site.host_path(work) / script.noted, {**names, inside: "FOLDER"}, script.random)
        wrong = [line for line in differences(expected, actual) if not re.search(script.meant, line)]
        if wrong:
            said = self.site.run_dir(launch) / "logs" / "0" / "rank-0000.log"
            text = said.read_text(encoding="utf-8", errors="replace")[-2000:] if said.exists() else ""
            raise AssertionError("\n".join([name, *wrong, text]))
        code, signal = self.exit_code(plain).split(":")
        outcome = read_json(self.site.run_dir(launch) / "outcome.json")
        assert outcome["success"] == (code == signal == "0"), f"{name}: by sbatch {code}:{signal}; {outcome}"
        # A shell says of a signal what slurmstepd sees itself.
        assert outcome["exit_code"] == (int(code) or (int(signal) and 128 + int(signal)))
        return len(expected)

    def exit_code(self, job_id: str) -> str:
        """`CODE:SIGNAL`, as accounting has it: slurmctld forgets a job after some minutes."""
        asked = ["sacct", "--noheader", "--parsable2", "--allocations", "--format=ExitCode", f"--jobs={job_id}"]

        def answer() -> str:
            return self.site.lab.head(asked).stdout.strip()

        self.site.lab.wait_until(answer, JOB_SECONDS, f"the end of job {job_id} in accounting")
        return answer()

    def _as_user(self, *words: str) -> str:
        return self.site.lab.head([*profile.become_user(self.site.lab.lab), *words], timeout=JOBS_SECONDS).stdout

    def _submitted(self) -> str:
        """Submit each script by sbatch from a login shell, in a folder of its own: lines of name and job id."""
        line = "\n".join(
            f"(cd {self.by_hand}/{name} && {_set(self._environment(name))}echo {name} "
            f"$(sbatch --parsable {shlex.join(script.words('')[1:])}))"
            for name, script in self.scripts.items()
        )
        known = (f"HOME={profile.home(self.site.lab.lab)}", f"USER={profile.USER}", f"LOGNAME={profile.USER}")
        words = ("env", "-i", *known, "PATH=/usr/bin:/bin", "/bin/bash", "--login", "-c", line)
        printed = self._as_user(*words)
        # A login profile may print as well.
        return "\n".join(line for line in printed.splitlines() if line.split(" ")[0] in self.scripts)

    def _launched(self) -> dict[str, dict[str, Any]]:
        """One playbook for all: the command line is the job."""
        jobs = {name: self._job(name) for name in self.scripts}
        played = self.site.play_many(jobs, "--forks=8", timeout=2 * JOBS_SECONDS)
        return {name: played.results(JOB, name)[-1] for name in self.scripts}

    def _job(self, name: str) -> dict[str, Any]:
        script = self.scripts[name]
        project = self.projects[script.folder]
        more: dict[str, Any] = {"code.src": str(project)}
        if script.in_place:
            more["code.in_place"] = f"{self.by_hand}/{name}.launched"
        if script.environment:
            more["env"] = self._environment(name)
        if script.job:
            return {"job": str(project / script.job), "launch_overrides": more}
        line = script.words(f"{project}/")
        if len(line) > 1 and line[1].startswith("-"):
            return {"job": shlex.join(line), "launch_overrides": more}
        return {"job": line[1], "launch_overrides": {**more, "program_args": line[2:]}}

    def _environment(self, name: str) -> dict[str, str]:
        """The variables of the submitting shell; {folder} is the folder of the submission by hand."""
        inside = f"{self.by_hand}/{name}"
        return {key: value.replace("{folder}", inside) for key, value in self.scripts[name].environment.items()}

    def _ended(self, wanted: list[str]) -> bool:
        listed = self.site.lab.head(["squeue", "--noheader", "--states=all", "--Format=JobID:20,State:20"]).stdout
        states = dict(line.split() for line in listed.splitlines())
        return all(states.get(job_id, FINAL[0]) in FINAL for job_id in wanted)


def _set(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)} && " for name, value in variables.items())
