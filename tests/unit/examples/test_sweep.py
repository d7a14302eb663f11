# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of a sweep: its jobs, their order, and its programs one after the other without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.plan import sweep as array
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import stages
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, read_job
from tests.repository import ROOT

EXAMPLE = ROOT / "examples" / "sweep"


def read(path: str) -> Job:
    return read_job(path, {}, {}, {}, str(EXAMPLE))


def test_its_jobs_follow_each_other_and_its_programs_find_what_they_need(tmp_path: Path) -> None:
    order = stages("jobs/choose.yml", read, str(EXAMPLE))
    assert [one.job.spec.name for one in order] == ["features", "fit", "choose"]
    fit = order[1].job
    elements = [(point, spec.command) for point, _merged, spec in array.specs(fit.spec, fit.merged)]
    assert len(elements) == 6

    def run(folder: Path, *command: str, **variables: str) -> None:
        (folder / "work").mkdir(parents=True)
        argv = [sys.executable, str(EXAMPLE / command[0]), *command[1:]]
        subprocess.run(argv, cwd=folder / "work", env={**os.environ, **variables}, check=True)

    features = tmp_path / "features"
    run(features, *order[0].job.spec.command)
    sweep = tmp_path / "fit" / ".sweep-0"
    sweep.mkdir(parents=True)
    named = []
    for number, (point, command) in enumerate(elements):
        key = f"{number:02x}" * 32
        named.append({"key": key, "parameters": point})
        run(tmp_path / "fit" / key[:16] / "1", *command, RANKZERO_AFTER_FEATURES=str(features))
    (sweep / "sweep.json").write_text(json.dumps({"elements": named}))
    run(tmp_path / "choose", *order[2].job.spec.command, RANKZERO_AFTER_FIT=str(sweep))
    result = json.loads((tmp_path / "choose" / "work" / "result.json").read_text())
    assert result["elements"] == 6 and result["degree"] == "2" and result["loss"] < 0.1
