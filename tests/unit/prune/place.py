# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store, a state root and a Slurm, for the tests of prune."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.prune.prune import prune
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import FIELD, RECORD
from tests.writers import Run

NOW = time.time()
DAY = 86400.0
OLD = NOW - 100 * DAY


class Place:
    """A store, a state root and a Slurm with the jobs (name -> state) that a test gives it."""

    def __init__(self, root: Path) -> None:
        self.store, self.state = root / "store", root / "state"
        self.state.mkdir()
        self.jobs: dict[str, tuple[str, str]] = {}
        self.down, self.accounting = False, True

    def run_command(
        self, argv: Sequence[str], _timeout: float, _env: Mapping[str, str], _stdin: str | None, _cwd: str | None
    ) -> CommandResult:
        name = os.path.basename(argv[0])
        if self.down:
            return CommandResult(tuple(argv), 1, "", "error: Unable to contact slurm controller (connect failure)\n")
        if name == "squeue":
            rows = [
                (job_id, state, "None", "0", "0", int(NOW), int(NOW), "N/A", "N/A", "0:00", "1", "node01", "batch")
                + ("root", "root", "lab", "/x", job)
                for job_id, (job, state) in self.jobs.items()
            ]
            return CommandResult(tuple(argv), 0, "".join(FIELD.join(map(str, row)) + RECORD + "\n" for row in rows), "")
        if name == "sacct" and not self.accounting:
            return CommandResult(tuple(argv), 1, "", "sacct: error: Problem talking to the database: refused\n")
        if name == "scontrol" and "job" in argv:
            return CommandResult(tuple(argv), 1, "", "slurm_load_jobs error: Invalid job id specified\n")
        return CommandResult(tuple(argv), 0, "", "")

    def slurm(self) -> Slurm:
        return Slurm(self.run_command, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")

    def thing(self, path: str, used: float = OLD, *, root: Path | None = None) -> Path:
        """A folder of a store (an archive is a file), last used then."""
        made = (root or self.store) / path
        made.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".tar"):
            made.write_text("packed")
        else:
            made.mkdir()
            (made / "file").write_text("content")
            made.chmod(0o555)
        os.utime(made, (used, used))
        return made

    def run(
        self,
        path: str,
        *,
        uses: str = "",
        ended: float | None = OLD,
        root: Path | None = None,
        begun: float = OLD,
        ended_by: str = "program",
    ) -> Path:
        made = Run((root or self.state) / "runs" / path).launch(**({"code_key": uses} if uses else {}))
        (made.path / "job.sbatch").write_text("#!/bin/bash\n")
        made.journal({"time": begun, "event": "intent"}, {"time": begun, "event": "submitted", "job_id": "7"})
        if ended is not None:
            made.ended(0 if ended_by == "program" else 1, by=ended_by, began=begun, at=ended)
        return made.path

    def prune(self, days: float = 30, **more: Any) -> dict[str, Any]:
        return prune(self.slurm(), store_root=str(self.store), state_root=str(self.state), days=days, **more)
