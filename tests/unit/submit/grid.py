# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sweep of some numbers, on a Slurm that knows arrays and answers as it is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import results
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import tasks_of
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep import SweepSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import Element
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import SweepRequest
from tests.unit.submit.bench import Bench, Cluster
from tests.writers import Run

SWEEP = "5" * 16
TASKS = "TASKS-" + "0" * 24


class Arrays(Cluster):
    """A Slurm that knows arrays: each task is a job of its own, named ARRAY_TASK."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 1001
        self.more_config = ""
        self.numbers = 100
        self.options: list[list[str]] = []

    def submit(self, argv: Sequence[str]) -> tuple[int, str, str]:
        script = Path(next(word for word in argv if word.endswith("job.sbatch"))).read_text(encoding="utf-8")
        name = re.findall("--job-name=(.*)", script)[0]
        tasks = re.findall("--array=(.*)", script)[0]
        self.numbers += 1
        self.options.append([word for word in argv if word.startswith("--")])
        for job_id in tasks_of(f"{self.numbers}_[{tasks}]"):
            self.jobs[job_id] = {"name": name, "state": "PENDING", "squeue": True, "exit": 0, "submit": 4_000_000_000}
        return 0, f"{self.numbers}\n", ""

    def _chosen(self, argv: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        ids = next((word.split("=", 1)[1].split(",") for word in argv if word.startswith("--jobs=")), None)
        names = next((word.split("=", 1)[1].split(",") for word in argv if word.startswith("--name=")), None)
        return [
            (number, job)
            for number, job in self.jobs.items()
            if (ids is None or number in ids or number.split("_")[0] in ids) and (names is None or job["name"] in names)
        ]

    def _scontrol(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if argv[-1] == "config":
            return 0, f"MaxArraySize            = {self.size}\n{self.more_config}", ""
        return super()._scontrol(argv)

    def _scancel(self, argv: Sequence[str]) -> tuple[int, str, str]:
        for job_id in argv:
            self.jobs[job_id]["state"] = "CANCELLED"
        return 0, "", ""


class Grid:
    """A sweep of some numbers, asked for as often as a test wants."""

    def __init__(self, root: Path) -> None:
        self.bench = Bench(root)
        self.cluster = Arrays()
        self.bench.cluster = self.cluster
        self.runs = root / "state" / "runs" / "job"
        self.wanted = [0, 1, 2]
        self.parallel: int | None = None
        self.key = SWEEP

    def launcher(self, check_mode: bool = False, **changes: Any) -> SweepSubmission:
        only = changes.pop("only", ())
        array = replace(
            self.bench.request,
            key=self.key + "0" * 48,
            runs_dir=str(self.runs / f".sweep-{self.key}"),
            job_name=f"job.{self.key}.{self.bench.request.token}",
            files={
                "job.sbatch": f"#SBATCH --job-name=job.{self.key}.{self.bench.request.token}\n#SBATCH --array={TASKS}\n"
            },
            **changes,
        )
        elements = [
            Element(place, f"{number:02x}" * 32, {"lr": str(number)}, f"export LR={number}")
            for place, number in enumerate(self.wanted)
        ]
        record = {
            "name": "job",
            "key": array.key,
            "artifact": "result.json",
            "metric": "loss",
            "goal": "min",
            "elements": [{"number": one.number, "key": one.key, "parameters": dict(one.point)} for one in elements],
        }
        request = SweepRequest(
            array=array,
            elements=elements,
            tasks_token=TASKS,
            spec={"name": "job", "command": ["train.py", "{lr}"], "sweep": {}},
            manifest={"rankzero_launch": 1, "name": "job"},
            contract='{"artifact": null}\n',
            record=record,
            parallel=self.parallel,
            only=only,
        )
        return SweepSubmission(request, self.slurm(), check_mode, self.sleep, lambda: self.bench.time)

    def slurm(self) -> Slurm:
        return Slurm(self.cluster, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")

    def sleep(self, seconds: float) -> None:
        self.bench.time += seconds

    def launch(self, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        return self.launcher(check_mode, **changes).launch().result()

    def states(self, result: dict[str, Any]) -> list[str]:
        return [row["submission"] for row in result["elements"]]

    def run(self, number: int, generation: int = 1) -> RunDirectory:
        return RunDirectory(str(self.runs / (f"{number:02x}" * 8) / str(generation)))

    def array(self, number: int = 1) -> RunDirectory:
        return RunDirectory(str(self.runs / f".sweep-{self.key}" / str(number)))

    def ends(self, number: int, success: bool, generation: int = 1, **values: Any) -> None:
        """What the element's task leaves, and that it leaves Slurm."""
        run = self.run(number, generation)
        job_id = str(run.job_id())
        job = Run(Path(run.path), job_id).claimed().contract(path="result.json").numbered(0).leaves(**values)
        job.ended(0 if success else 1, "so it ended", began=10.0 + number, at=20.0 - number)
        self.cluster.jobs[job_id]["state"] = "COMPLETED" if success else "FAILED"

    def results(self, **options: Any) -> dict[str, Any]:
        return results(self.slurm(), {"sweep_dir": str(self.runs / f".sweep-{self.key}"), **options}).as_dict()
