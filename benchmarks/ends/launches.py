# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches without Ansible: their run directories are prepared here as the module leaves them before sbatch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import digest_token, with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import contract
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.store.squash import squash
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import runtime_bundle
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from benchmarks.launch.ground import Ground
from tests.plans import plan

CODE_KEY, ENVIRONMENT_KEY = "c" * 64, "e" * 32
#: Creates its artifact at once by a rename, and then continues like a program that hangs after its result.
PROGRAM = 'echo \'{"loss": 1.0}\' > result.new && mv result.new "$RANKZERO_ARTIFACT"; exec sleep 600'
#: The preflight has a separate benchmark; without it, the end of a job is the same.
SPEC = {
    "shell": PROGRAM,
    "environment": {"mode": "sealed"},
    "artifact": {"path": "result.json", "require": {"loss": {"lt": 4}}, "then": "end"},
    "resources": {"time": "00:20:00"},
    "preflight": {"enabled": False},
}


@dataclass(frozen=True)
class End:
    """One launch: seconds from its artifact to its verdict and to the end of its job; None if there was none."""

    verdict: float | None
    job: float | None
    success: bool


class Launches:
    """All launches of one benchmark: numbered names, one environment, one runtime."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.made = 0
        self.state, self.store = ground.inside("bench", "state"), ground.inside("bench", "store")
        self.runtime_key, files = runtime_bundle()
        self._here(self.state, "runtime").mkdir(parents=True)
        publish_files(str(self._here(self.state, "runtime", self.runtime_key)), files)
        code = self._here(self.store, "code", CODE_KEY)
        code.mkdir(parents=True)
        (code / "README").write_text("No program: the ranks run a line of bash.\n")
        self.digest = self._environment(self._here(self.store, "environments", ENVIRONMENT_KEY))

    def _here(self, *parts: str) -> Path:
        """A path on the head as this machine sees it."""
        inside = "/".join(parts)
        return self.ground.path(*inside[len(self.ground.shared_inside) :].strip("/").split("/"))

    def _environment(self, folder: Path) -> str:
        """A sealed environment of two files, whose Python is the node's. Returns the sha256 of its squashfs file."""
        tree = self.ground.scratch / "environment"
        (tree / "bin").mkdir(parents=True)
        (tree / "bin" / "python").write_text('#!/bin/sh\nexec /usr/bin/python3 "$@"\n')
        (tree / "bin" / "python").chmod(0o755)
        folder.mkdir(parents=True)
        file = folder / "environment.sqsh"
        squash(str(tree), str(file), "zstd")
        facts = {"file": file.name, "bytes": file.stat().st_size, "unpacked": 4096, "files": 1}
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        record = {"python": {"path": "/usr/bin/python3"}, "sealed": {**facts, "sha256": digest}}
        (folder / "env.json").write_text(json.dumps(record))
        return digest

    def make(self) -> Path:
        """Prepare a generation on disk, ready for sbatch."""
        self.made += 1
        merged = merge([Layer("benchmark", {"name": f"end-{self.made:04d}", **SPEC})])
        spec = validated(merged)
        made = plan(
            spec,
            merged,
            code_key=CODE_KEY,
            environment_key=ENVIRONMENT_KEY,
            runtime_key=self.runtime_key,
            state_root=self.state,
            store_root=self.store,
        )
        run = self._here(made.runs_dir(), "1")
        (run / "logs").mkdir(parents=True)
        script = with_generation(render_script(made), made.token, 1).replace(digest_token(ENVIRONMENT_KEY), self.digest)
        (run / "job.sbatch").write_text(script)
        (run / "contract.json").write_text(json.dumps(contract(spec)))
        (run / "launch.json").write_text("{}")
        return run

    def submit(self, run: Path) -> str:
        inside = self.ground.inside(*run.relative_to(self.ground.shared).parts)
        output = self.ground.on_head("sbatch", "--parsable", f"{inside}/job.sbatch", "--submission", "benchmark:1")
        return output.strip().split(";")[0]

    def ended(self, job_ids: Sequence[str]) -> dict[str, float]:
        """When the jobs that have ended did so according to Slurm, in seconds since 1970."""
        if not job_ids:
            return {}
        show = ["env", "SLURM_TIME_FORMAT=%s", "scontrol", "--oneliner", "show", "job"]
        times = {}
        for line in self.ground.on_head(*show).splitlines():
            fields = dict(re.findall(r"(\w+)=(\S*)", line))
            if fields.get("JobId") in job_ids and fields["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"):
                times[fields["JobId"]] = float(fields["EndTime"])
        return times

    def artifact(self, run: Path) -> float | None:
        try:
            return (run / "work" / "result.json").stat().st_mtime
        except OSError:
            return None

    def end(self, run: Path, artifact: float | None, ended: float | None) -> End:
        try:
            outcome = json.loads((run / "outcome.json").read_text())
        except OSError:
            outcome = {}
        if artifact is None:
            return End(None, None, False)
        verdict = outcome["time"] - artifact if "time" in outcome else None
        return End(verdict, None if ended is None else max(0.0, ended - artifact), outcome.get("success") is True)
