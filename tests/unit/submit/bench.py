# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One launch and a Slurm that answers as it is told: what the tests of submissions share."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import FIELD, RECORD
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import LaunchSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from tests.writers import Run

TOKEN = "GENERATION-" + "0" * 24  # the place holder of the generation
NOW = time.time()
SILENT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
PLACE_HOLDER_SINFO = (
    "batch",
    "batch*",
    "up",
    "infinite",
    "1:00:00",
    "1-infinite",
    "8",
    "16",
    "64000",
    "gpu:8",
    "idle",
    "x",
)


class Cluster:
    """A Slurm with a table of jobs: what each command says, and what it was asked."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.asked: list[list[str]] = []
        self.down = False
        #: What sbatch does: returns (rc, stdout, stderr). The default submits.
        self.sbatch: Callable[[Sequence[str]], tuple[int, str, str]] = self.submit
        self.before: dict[str, Callable[[], None]] = {}
        self.accounting = True
        self.help = ""  # what srun says of itself
        self.slept = 0.0

    def submit(self, argv: Sequence[str]) -> tuple[int, str, str]:
        script = next(word for word in argv if word.endswith("job.sbatch"))
        name = re.findall("--job-name=(.*)", Path(script).read_text(encoding="utf-8"))[0]
        return 0, f"{self.add(name)}\n", ""

    def add(self, name: str, state: str = "PENDING", **more: Any) -> str:
        job_id = str(100 + len(self.jobs) + 1)
        self.jobs[job_id] = {
            "name": name,
            "state": state,
            "squeue": True,
            "exit": 0,
            "submit": int(time.time()),
            **more,
        }
        return job_id

    def __call__(
        self, argv: Sequence[str], timeout: float, environment: Mapping[str, str], stdin: str | None, cwd: str | None
    ) -> CommandResult:
        command = argv[0].rsplit("/", 1)[-1]
        self.asked.append([command, *argv[1:]])
        self.before.pop(command, lambda: None)()
        if self.down and command != "sacct":
            return CommandResult(tuple(argv), 1, "", "error: Unable to contact slurm controller (connect failure)\n")
        rc, out, err = getattr(self, f"_{command}")(argv[1:])
        return CommandResult(tuple(argv), 124 if rc == "timeout" else rc, out, err, rc == "timeout")

    def _sbatch(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if "--test-only" in argv:
            return 0, "", f"sbatch: Job 7 to start at {int(NOW)} using 1 processors on nodes node[01-02] in partition x"
        return self.sbatch(argv)

    def _quota(self, argv: Sequence[str]) -> tuple[int, str, str]:
        return 0, "", ""

    def _srun(self, argv: Sequence[str]) -> tuple[int, str, str]:
        return 0, self.help, ""

    def _sinfo(self, argv: Sequence[str]) -> tuple[int, str, str]:
        return 0, FIELD.join(PLACE_HOLDER_SINFO) + RECORD + "\n", ""

    def _squeue(self, argv: Sequence[str]) -> tuple[int, str, str]:
        rows = [self._row(number, job) for number, job in self._chosen(argv) if job["squeue"]]
        return 0, "".join(row + RECORD + "\n" for row in rows), ""

    def _chosen(self, argv: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        ids = next((word.split("=", 1)[1].split(",") for word in argv if word.startswith("--jobs=")), None)
        names = next((word.split("=", 1)[1].split(",") for word in argv if word.startswith("--name=")), None)
        return [
            (number, job)
            for number, job in self.jobs.items()
            if (ids is None or number in ids) and (names is None or job["name"] in names)
        ]

    @staticmethod
    def _row(number: str, job: Mapping[str, Any]) -> str:
        over = job["state"] not in ("PENDING", "RUNNING", "REQUEUED", "COMPLETING")
        end = job.get("end", int(NOW) - 900) if over else "N/A"
        times = (job["submit"], job["submit"], job.get("start", "N/A"), end, "0:00")
        place = ("1", "node01", "batch", "root", "root", "lab", job.get("work_dir", "/x"), job["name"])
        said = (number, job["state"], "None", job["exit"] * 256, job.get("restarts", 0))
        return FIELD.join(map(str, (*said, *times, *place)))

    def _scontrol(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if argv[-1] in ("config", "partition"):
            return 0, "", ""
        return 1, "", "slurm_load_jobs error: Invalid job id specified\n"

    def _sacct(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if not self.accounting:
            return 1, "", "sacct: error: Problem talking to the database: Connection refused\n"
        rows = [
            FIELD.join(
                (
                    number,
                    job["state"],
                    "None",
                    f"{job['exit']}:0",
                    str(job["submit"]),
                    "Unknown",
                    "Unknown",
                    "Unknown",
                    "0",
                )
                + ("1", "node01", "batch", "root", "root", "lab", "/x", job["name"])
            )
            for number, job in self._chosen(argv)
        ]
        return 0, "".join(row + "\n" for row in rows), ""

    def _scancel(self, argv: Sequence[str]) -> tuple[int, str, str]:
        for number in argv:
            self.jobs[number]["state"] = "CANCELLED"
        return 0, "", ""

    @property
    def commands(self) -> list[str]:
        return [words[0] for words in self.asked]


class Bench:
    """One launch, asked for as often as a test wants."""

    def __init__(self, root: Path, key: str = "0123456789abcdef") -> None:
        self.cluster = Cluster()
        self.key = key
        self.store = root / "store"
        self.store.mkdir()
        self.runs = root / "state" / "runs" / "job" / key
        self.time = NOW
        self.request = Request(
            name="job",
            key=key + "0" * 48,
            token=TOKEN,
            runs_dir=str(self.runs),
            job_name=f"job.{key}.{TOKEN}",
            files={
                "job.sbatch": f"#!/bin/bash\n#SBATCH --job-name=job.{key}.{TOKEN}\n# {TOKEN}\n",
                "launch.json": "{}\n",
                "contract.json": '{"artifact": null}\n',
            },
            refs=[Ref("code", "k", str(self.store))],
            relaunch="on_failure",
            limits=ResourceNeeds(nodes=2, time_minutes=60.0),
            submitter=f"{socket.gethostname()}:{os.getpid()}",
        )

    def launcher(self, check_mode: bool = False, **changes: Any) -> LaunchSubmission:
        def sleep(seconds: float) -> None:
            self.time += seconds

        slurm = Slurm(self.cluster, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")
        request = replace(self.request, **changes)
        return LaunchSubmission(request, slurm, check_mode=check_mode, sleep=sleep, clock=lambda: self.time)

    def launch(self, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        return self.launcher(check_mode, **changes).launch().result()

    def run(self, generation: int = 1) -> RunDirectory:
        return RunDirectory(str(self.runs / str(generation)))

    def name(self, generation: int = 1) -> str:
        return f"job.{self.key}.{generation}"

    def ends(self, success: bool, generation: int = 1, ended_by: str = "program", attempt: int = 0) -> None:
        """What the job itself leaves: its claim and its verdict."""
        run = self.run(generation)
        job = Run(Path(run.path), run.job_id() or "101").claimed()
        job.ended(0 if success else 1, "so it ended", by=ended_by, number=attempt)

    def leaves(self, state: str, generation: int = 1, **more: Any) -> None:
        self.cluster.jobs[self.run(generation).job_id() or ""].update(state=state, **more)

    def intent(self, submitter: str, age: float = 0.0) -> None:
        """A generation whose submitter was killed before it recorded a job id."""
        self.cluster.sbatch = lambda argv: ("timeout", "", "")  # type: ignore[return-value]
        with pytest.raises(SlurmUnavailable):
            self.launch(submitter=submitter)
        Path(self.run().file("journal.jsonl")).unlink()
        event = {"time": self.time - age, "event": "intent", "submitter": submitter}
        Run(Path(self.run().path)).journal(event)
        self.cluster.sbatch = self.cluster.submit
        self.cluster.asked.clear()

    def events(self, generation: int = 1) -> list[str]:
        return [event["event"] for event in self.run(generation).events()]


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        return process.pid
