# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a run directory as their own writers write them.

A test of a part that reads files of another takes them from here: written by hand, they say what the reader expects.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnose import diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import contract, manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, Merged, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse
from tests.plans import plan
from tests.unit.runtime.harness import runtime_parts

# The job's own programs, which share their modules.
with runtime_parts("start.attempt") as attempt:
    claim, outcome, state = (
        importlib.import_module(name) for name in ("start.claim", "artifact.outcome", "core.state")
    )

#: The end of a rank's log for which a diagnosis finds that the GPU's memory is full.
CUDA_OOM = (
    'Traceback (most recent call last):\n  File "pretrain.py", line 3, in step\n    go()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.\n"
)


def write_diagnosis(slurm: Slurm, run: Path, **options: Any) -> dict[str, Any]:
    """Diagnose the launch of a run directory as the playbook does, which writes diagnosis.json. The module's result."""
    defaults = {name: option.get("default") for name, option in DIAGNOSIS_SPEC.items()}
    return diagnose(slurm, {**defaults, "run_dir": str(run), "processes": 1, **options})


def _spec(given: Mapping[str, Any]) -> tuple[LaunchSpec, Merged]:
    merged = merge([Layer("a test", given)])
    return parse(merged).spec, merged


def record_of_launch(given: Mapping[str, Any], **known: Any) -> dict[str, Any]:
    """launch.json of a job. `known`: its digests and places, as in tests/plans.py."""
    spec, merged = _spec(given)
    places = {"code_key": "c0de" * 16, "runtime_key": "5a1e" * 16, "state_root": "/state", "store_root": "/store"}
    return manifest(plan(spec, merged, **{**places, **known}), merged, {})


class Run:
    """A run directory, written by those that write it: the submitter its journal and manifests, the job the rest.

    `job_id`: a job, JOB_TASK of an array, or JOB.STEP inside another job.
    """

    def __init__(self, path: Path, job_id: str = "7", cluster: str = "lab") -> None:
        self.path, self.job_id, self.cluster = path, job_id, cluster
        (path / "logs").mkdir(parents=True, exist_ok=True)

    @classmethod
    def below(cls, root: Path, name: str = "gpt", key: str = "0123456789abcdef", generation: int = 1) -> Run:
        """The run directory of a launch below a state root."""
        return cls(root / "runs" / name / key / str(generation))

    def journal(self, *events: Mapping[str, Any]) -> Run:
        """Append events, with the time that each of them names, or that of now."""
        for event in events:
            details = {name: value for name, value in event.items() if name != "event"}
            RunDirectory(str(self.path)).record_lightly(str(event["event"]), **details)
        return self

    def contract(self, **artifact: Any) -> Run:
        """Write contract.json for a launch with these values of `artifact`, or without one."""
        spec, _merged = _spec(self._named({"artifact": artifact} if artifact else {}))
        return self._write("contract.json", contract(spec))

    def launch(self, given: Mapping[str, Any] | None = None, **known: Any) -> Run:
        """Write launch.json and contract.json of a job. `known`: as in record_of_launch."""
        asked = self._named(given or {})
        self._write("contract.json", contract(_spec(asked)[0], known.get("settings")))
        return self._write("launch.json", record_of_launch(asked, **known))

    def altered(self, name: str, **values: Any) -> Run:
        """Change values of a file, as somebody does who edits it, or another version wrote it."""
        return self._write(name, {**json.loads((self.path / name).read_text(encoding="utf-8")), **values})

    def _named(self, given: Mapping[str, Any]) -> dict[str, Any]:
        own = {} if "shell" in given else {"command": ["true"]}
        return {"name": self.path.parent.parent.name, **own, **given}

    def _write(self, name: str, document: object) -> Run:
        """Put a file in place as a submitter does, who writes the folder under another name."""
        state_files.create(str(self.path / f".{name}"), json.dumps(document))
        os.replace(self.path / f".{name}", self.path / name)
        return self

    def leaves(self, path: str = "result.json", **values: Any) -> Run:
        """Write an artifact in JSON, as the program of an attempt that has begun does."""
        place = self.path / "work" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(values), encoding="utf-8")
        return self

    def claimed(self, job_id: str | None = None) -> Run:
        """Take the claim, as the job does first. The job of another may hold it already."""
        claim.acquire(self._job(job_id=job_id))
        return self

    def numbered(self, number: int = 0, job_id: str | None = None) -> Run:
        """Begin an attempt: set aside what the one before it left."""
        begun = self._job(number, job_id=job_id)
        attempt.set_aside(begun)
        attempt.number(begun, number)
        return self

    def begun(self, number: int = 0) -> Run:
        """Say that an attempt has begun, if none has: an artifact from before that proves nothing."""
        return self if (self.path / ".attempt").exists() else self.numbered(number)

    def started(
        self,
        number: int = 0,
        *,
        at: float | None = None,
        nodes: Sequence[str] = ("node01", "node02"),
        ranks: int | None = None,
        launched: float | None = None,
        job_id: str | None = None,
        roles: Mapping[str, int] | None = None,
        waits_for: str = "",
    ) -> Run:
        """Write started.json of an attempt. `at`, `launched`: when it began, and when its ranks were started. `roles`:
        the processes of each, the deciding one first, which waits for these.
        """
        self.begun(number)
        job = self._job(number, job_id=job_id)
        job.started, job.launched, job.nodes = (int(time.time()) if at is None else at), launched or 0, list(nodes)
        for name, processes in (roles or {}).items():
            first = sum(role.ranks for role in job.roles)
            hosts = [f"10.0.0.1:{20000 + first + number}" for number in range(processes)]
            env = {"RANKZERO_AFTER_READY": waits_for if not job.roles else ""}
            job.roles.append(state.Role(name, [], env, 1, processes, processes, first, hosts=hosts))
        decide = job.roles[0].ranks if job.roles else len(nodes)
        job.export("RANKZERO_WORLD_SIZE", decide if ranks is None else ranks)
        attempt.record(job)
        return self

    def ended(
        self,
        exit_code: int = 0,
        message: str = "",
        *,
        by: str = "program",
        number: int = 0,
        began: float | None = None,
        at: float | None = None,
        job_id: str | None = None,
        role: str = "",
    ) -> Run:
        """Write outcome.json of an attempt, `by` how it ended. `role`: the one that ended it, which does not decide.
        The contract judges the artifact.
        """
        now = time.time() if at is None else at
        self.begun(number)
        if not (self.path / "contract.json").exists():
            self.contract()
        job = self._job(number, job_id=job_id)
        given = SimpleNamespace(
            run_dir=str(self.path), job_id=job.id, attempt=number, started=now - 80.0 if began is None else began,
            ended_by=by, exit_code=exit_code, message=message, key=self.path.parent.name, generation=job.generation,
            file="outcome.json", guard=0, role=role,
        )  # fmt: skip
        clock = mock.patch.object(outcome, "time", SimpleNamespace(**{**vars(time), "time": lambda: now}))
        with clock, contextlib.redirect_stdout(io.StringIO()):
            outcome.finish(given)
        return self

    def _job(self, number: int = 0, job_id: str | None = None) -> Any:
        """The job's state, as far as its writers need it."""
        known = self.job_id if job_id is None else job_id
        array, _underscore, task = known.partition("_")
        env = {
            "RANKZERO_RUN_DIR": str(self.path), "RANKZERO_KEY": self.path.parent.name,
            "RANKZERO_GENERATION": self.path.name, "RANKZERO_ATTEMPT": str(number), "SLURM_JOB_ID": known,
            "SLURM_CLUSTER_NAME": self.cluster,
            **({"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": task} if task else {}),
            **({"RANKZERO_ATTACHED": known} if "." in known else {}),
        }  # fmt: skip
        return state.Job(env=env, runtime="")
