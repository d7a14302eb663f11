# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init` without a script: the job that the files of a project propose, which can be planned as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from rankzero.init import write_project
from rankzero.parsing import parse

TORCH = "import torch\nopen('result.json', 'w').write('{}')\n"
PYPROJECT = '[project]\nname = "x"\nversion = "1"\ndependencies = ["torch>=2", "numpy"]\n'
CLUSTER = {"state_root": "/s", "store_root": "/t"}
#: Files of a project -> program, launcher, environment, artifact of its job, and what a note names.
PROJECTS: dict[str, tuple[dict[str, str], tuple[Any, ...]]] = {
    "packages of a project": (
        {"fit.py": TORCH, "pyproject.toml": PYPROJECT},
        ("fit.py", "torchrun", {"project": "..", "mode": "sealed"}, "result.json", ""),
    ),
    "packages of pip": (
        {"main.py": "print()\n", "other.py": "", "requirements.txt": "# ours\n-i x\nTorch==2.6\n"},
        (
            "main.py",
            "torchrun",
            {"project": "..", "mode": "sealed", "requirements": "requirements.txt"},
            None,
            "artifact",
        ),
    ),
    "no packages": (
        {"train.py": "import json\njson.dump({}, open('metrics.json', 'w'))\n"},
        ("train.py", "srun", None, "metrics.json", ""),
    ),
    "torch from nowhere": ({"train.py": TORCH}, ("train.py", "torchrun", None, "result.json", "no pyproject.toml")),
    "a file that configures tools": (
        {"train.py": "", "pyproject.toml": "[tool.ruff]\nline-length = 99\n"},
        ("train.py", "srun", None, None, "artifact"),
    ),
    "no program": ({"pyproject.toml": "not toml ["}, ("train.py", "srun", None, None, "there is no train.py")),
}


@pytest.mark.parametrize("kind", PROJECTS)
def test_the_files_of_a_project_propose_its_job(kind: str, tmp_path: Path) -> None:
    files, (program, launcher, environment, artifact, noted) = PROJECTS[kind]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    path, lines = write_project(parse(["init", str(tmp_path)]))
    job = yaml.safe_load(Path(path).read_text())
    assert (job["command"], job["launcher"]["kind"], job.get("environment")) == ([program], launcher, environment)
    assert (job.get("artifact") or {}).get("path") == artifact
    notes = [line for line in lines if line.startswith("  ")]
    assert bool(notes) is bool(noted) and noted in " ".join(notes)
    assert read_job(path, CLUSTER, {}, {}, str(tmp_path)).spec.launcher.kind == launcher
