# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contenders: how each launches the same program on two nodes, with one rank per node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.launch.ground import Ground
from benchmarks.launch.timing import Command

HERE = Path(__file__).resolve().parent
PLAYBOOKS = HERE / "playbooks"


@dataclass(frozen=True)
class Trial:
    """One launch. `number` is unique; the program runs `before` seconds until its artifact, and `lingers` after it."""

    number: int
    lingers: float = 0
    before: float = 0
    watch: bool = False
    first_in_path: str = ""


@dataclass(frozen=True)
class Way:
    """A contender. `artifact`: a glob pattern for the result of a trial on this machine."""

    name: str
    command: Callable[[Trial], Command]
    artifact: Callable[[Trial], str] = lambda trial: ""
    submits: bool = True


class Ways:
    """All contenders on one ground. `missing`: contender -> why it cannot run."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.missing: dict[str, str] = {}
        self.submitit_version = ""
        self.project = self._project()
        self._submitit = self._make_submitit()

    # -- sets --------------------------------------------------------------------------------------------------------

    def sbatch(self) -> Way:
        return Way("plain `sbatch`", self._plain, self._run_artifact("plain"))

    def submitit(self) -> Way:
        return Way("submitit", self._with_submitit, self._run_artifact("submitit"))

    def builtin(self) -> Way:
        return Way("builtin modules only", self._builtin, self._run_artifact("builtin"))

    def ours(self) -> Way:
        return Way("ours, warm", self._ours, self._our_artifact)

    def for_ids(self) -> list[Way]:
        """All contenders in the comparison of the time to the job id. The first is the baseline."""
        return [
            self.sbatch(),
            *([self.submitit()] if self._submitit else []),
            self.builtin(),
            Way("empty play", lambda trial: self._playbook(trial, "empty"), submits=False),
            Way("play of one module", lambda trial: self._playbook(trial, "one_module"), submits=False),
            Way("ours, cold", self._ours_cold),
            self.ours(),
            Way("ours, warm, module `job` alone", self._our_module),
            Way("ours, unchanged", lambda trial: self._ours(replace(trial, number=0))),
            Way("ours, check mode", lambda trial: self._ours(trial, "--check"), submits=False),
        ]

    def for_artifacts(self) -> list[Way]:
        """The contenders that wait until the job has ended."""
        return [self.sbatch(), *([self.submitit()] if self._submitit else []), self.builtin(), self.ours()]

    def for_scripts(self) -> list[Way]:
        """The ways to run a user's batch script to its end. The first is the baseline, and proves nothing."""
        return [Way("`sbatch --wait`", self._script_by_hand), Way("ours, the script as a job", self._our_script)]

    # -- the same program for each -------------------------------------------------------------------------------------

    def record(self, trial: Trial) -> Path:
        """The file that gets a line each time the trial's program runs."""
        return self.ground.path("bench", "records", str(trial.number))

    def _arguments(self, trial: Trial) -> list[str]:
        record = self.ground.inside("bench", "records", str(trial.number))
        return [str(trial.lingers), record, str(trial.before)]

    def _run_artifact(self, kind: str) -> Callable[[Trial], str]:
        return lambda trial: str(self.ground.path("bench", "runs", f"{kind}-{trial.number}", "result.json"))

    def _our_artifact(self, trial: Trial) -> str:
        runs = self.ground.path("rankzero", "state", "runs", f"bench-{trial.number}")
        return str(runs / "*" / "*" / "work" / "result.json")

    def _project(self) -> Path:
        """The user's repository: the program and the job file, committed."""
        folder = self.ground.scratch / "project"
        shutil.copytree(HERE / "project", folder, ignore=shutil.ignore_patterns("__pycache__"))
        git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false"]
        for step in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "The program"]):
            subprocess.run([*git, *step], cwd=folder, check=True)
        return folder

    # -- contenders ----------------------------------------------------------------------------------------------------

    def _on_head(self, trial: Trial, argv: list[str], folder: Path) -> Command:
        return Command([self.ground.head, *argv], folder, self.ground.environment(trial.first_in_path))

    def _plain(self, trial: Trial) -> Command:
        name = f"plain-{trial.number}"
        folder, inside = self.ground.path("bench", "runs", name), self.ground.inside("bench", "runs", name)
        folder.mkdir(exist_ok=True)
        template = (PLAYBOOKS / "job.sbatch.j2").read_text()
        script = template.replace("{{ run_dir }}", inside).replace("builtin", "plain")
        (folder / "job.sbatch").write_text(script.replace("{{ program_arguments }}", " ".join(self._arguments(trial))))
        shutil.copy(HERE / "project" / "program.py", folder)
        shutil.copy(HERE / "watch.sh", folder)
        command = ["sh", "watch.sh", "job.sbatch"] if trial.watch else ["sbatch", "job.sbatch"]
        return self._on_head(trial, ["/bin/sh", "-c", f'cd {inside} && exec "$@"', "sh", *command], folder)

    def _script_by_hand(self, trial: Trial) -> Command:
        name = f"script-{trial.number}"
        folder, inside = self.ground.path("bench", "runs", name), self.ground.inside("bench", "runs", name)
        shutil.copytree(HERE / "project", folder, ignore=shutil.ignore_patterns("__pycache__"))
        command = ["sbatch", "--wait", "train.sbatch", *self._arguments(trial)]
        return self._on_head(trial, ["/bin/sh", "-c", f'cd {inside} && exec "$@"', "sh", *command], folder)

    def _our_script(self, trial: Trial) -> Command:
        given = {
            "name": f"script-{trial.number}", "artifact": {"path": "result.json"},
            "program_args": self._arguments(trial),
        }  # fmt: skip
        return self._play(trial, "rankzero.slurm.train", {"job": "train.sbatch", "launch_overrides": given})

    def _with_submitit(self, trial: Trial) -> Command:
        name = f"submitit-{trial.number}"
        folder, inside = self.ground.path("bench", "runs", name), self.ground.inside("bench", "runs", name)
        folder.mkdir(exist_ok=True)
        for file in (HERE / "project" / "program.py", HERE / "with_submitit.py"):
            shutil.copy(file, folder)
        launch = [f"{self._submitit}/bin/python", f"{inside}/with_submitit.py", inside, "yes" if trial.watch else "no"]
        return self._on_head(trial, [*launch, "program.py", *self._arguments(trial)], folder)

    def _play(self, trial: Trial, playbook: str, variables: object, *options: str) -> Command:
        play = ["ansible-playbook", "--inventory", self.ground.inventory, playbook]
        argv = [*play, "-e", json.dumps(variables), *options]
        return Command(argv, self.project, self.ground.environment(trial.first_in_path))

    def _playbook(self, trial: Trial, name: str) -> Command:
        return self._play(trial, str(PLAYBOOKS / f"{name}.yml"), {})

    def _builtin(self, trial: Trial) -> Command:
        variables = {
            "run_dir": self.ground.inside("bench", "runs", f"builtin-{trial.number}"),
            "program_arguments": " ".join(self._arguments(trial)),
            "watch": trial.watch,
        }
        return self._play(trial, str(PLAYBOOKS / "builtin.yml"), variables)

    def _variables(self, trial: Trial) -> dict[str, object]:
        """The variables that a user would pass with `-e`. The seed makes a separate launch of the same job."""
        given: dict[str, object] = {"command": ["python3", "program.py", *self._arguments(trial)], "seed": trial.number}
        if trial.watch:
            given["name"] = f"bench-{trial.number}"  # a separate place for the artifact
        return {"job": "job.yml", "launch_overrides": given, "launch_wait": trial.watch}

    def _ours(self, trial: Trial, *options: str) -> Command:
        return self._play(trial, "rankzero.slurm.train", self._variables(trial), *options)

    def _our_module(self, trial: Trial) -> Command:
        return self._play(trial, str(PLAYBOOKS / "job_module.yml"), self._variables(trial))

    def _ours_cold(self, trial: Trial) -> Command:
        root = self.ground.inside("bench", "cold", str(trial.number))
        roots = {"state_root": f"{root}/state", "store_root": f"{root}/store"}
        return self._play(trial, "rankzero.slurm.train", {**self._variables(trial), "launch_cluster": roots})

    # -- submitit ------------------------------------------------------------------------------------------------------

    def _make_submitit(self) -> str:
        """Create a separate environment, kept between runs. Returns "" if the index has no suitable submitit."""
        folder = self.ground.root / ".cache" / "benchmarks" / "submitit"
        python = folder / "bin" / "python"
        asks = [str(python), "-c", "import importlib.metadata, submitit; print(importlib.metadata.version('submitit'))"]
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
            done = subprocess.run(
                [*install, "submitit"], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["it did not say why"])[-1]
                self.missing["submitit"] = f"pip could not install it ({reason})"
                return ""
            (folder / "complete").touch()
        self.submitit_version = self.ground.on_head(*asks).strip()
        return os.fspath(folder)
