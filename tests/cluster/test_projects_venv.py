# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of Megatron-LM's page on Slurm in a work tree with a real `.venv`: by sbatch, as a script job in that
tree, and as the job file that is made of it, with `environment.path`. uv, torch and torch.distributed.run are real.

Not as its authors have it: the list of packages is torch alone, and `pretrain_gpt.py`, which needs GPUs, notes its call
and sums over all ranks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankzero.sbatch.calls import Call, calls, differences
from rankzero.sbatch.convert import Asked, converted
from tests.cluster.launching import Site, log_of, rank_logs
from tests.cluster.test_projects import SMALL, filled_in, megatron_lm
from tests.cluster.test_projects_jobs import CPUS, OWN
from tests.cluster.test_script_containers import submitted
from tests.repository import BIN
from tests.unit.command.sbatch.recorded import needs_sandbox

pytestmark = [pytest.mark.more, needs_sandbox]

TORCH = "torch==2.13.0+cpu"
PROJECT = """
[project]
name = "worktree"
version = "1"
requires-python = ">=3.9"
dependencies = ["{torch}"]

[tool.uv]
find-links = ["{wheels}"]
no-index = true
offline = true
cache-dir = "{cache}"
environments = ["sys_platform == 'linux' and python_version == '{python}'"]
"""
PROGRAM = """import json, os, sys, uuid
import torch
torch.distributed.init_process_group("gloo")
total = torch.tensor([torch.distributed.get_rank() + 1])
torch.distributed.all_reduce(total)
os.makedirs("calls", exist_ok=True)
found = [sys.prefix, torch.__version__, os.path.dirname(torch.__file__), str(total.item())]
call = {"program": "pretrain_gpt.py", "arguments": [*sys.argv[1:], *found], "folder": os.getcwd()}
with open(f"calls/{uuid.uuid4()}.json", "w") as stream:
    json.dump({**call, "environment": dict(os.environ)}, stream)
torch.distributed.destroy_process_group()
"""
OPTIONS = (*SMALL[:3], "--mem=4G", "--cpus-per-task=2", "--nodes=2", "--gpus-per-node=2", "--ntasks-per-node=1")
RANKS = 4
#: What `uv run` says of itself: a job starts the Python of the environment.
UV_RUN = (r"UV\w*", r"VIRTUAL_ENV\w*")


@pytest.fixture
def tree(site: Site) -> str:
    """The work tree on the cluster, where its user has called `uv sync`; its path there."""
    if site.lab.way != "realistic":
        pytest.skip("users of their own need root on this machine")
    inside = f"{site.state_root}.tree"
    place = site.host_path(inside)
    megatron_lm(place)
    # Jobs at once may share nodes.
    filled_in(place, {r"\$\{MASTER_PORT:-29500\}": "$((20000 + SLURM_JOB_ID % 10000))"}, "run_megatron.slurm")
    (place / "pretrain_gpt.py").write_text(PROGRAM, encoding="utf-8")
    wheels = site.host_path(f"{site.state_root}.wheels")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(wheels), TORCH]
    if subprocess.run(fetch, check=False).returncode:
        pytest.skip(f"{TORCH} is on no package index of this machine")
    tools = site.host_path(f"{site.state_root}.tools")
    tools.mkdir()
    shutil.copy(BIN / "uv", tools)
    places = {"wheels": f"{site.state_root}.wheels", "cache": f"{site.state_root}.cache"}
    version = site.head(["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout.strip()
    (place / "pyproject.toml").write_text(PROJECT.format(torch=TORCH, python=version, **places), encoding="utf-8")
    site.user.give(place, wheels, tools)
    site.head(
        [f"{site.state_root}.tools/uv", "sync", "--directory", inside, "--python", "/usr/bin/python3"], timeout=300
    )
    return inside


def of_job(site: Site, place: str, job_id: str, names: dict[str, str]) -> list[Call]:
    """What the ranks of a job have noted."""
    own = f'"SLURM_JOB_ID": "{job_id}"'
    texts = [path.read_text(encoding="utf-8") for path in site.host_path(place).glob("calls/*.json")]
    return calls(
        [text for text in texts if own in text], {**names, job_id: "JOB"}, "MASTER_PORT|TORCHELASTIC_ERROR_FILE"
    )


def job_file(folder: Path, tree: str) -> dict[str, Any]:
    """The job that is made of the script, with the environment of the work tree."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        made = converted("run_megatron.slurm", "jobs", Asked(()))
    finally:
        os.chdir(here)
    spec: dict[str, Any] = yaml.safe_load(made.text)
    assert spec.pop("environment") == {"mode": "venv", "project": ".."} and "script" not in spec
    return {**spec, "code": {"src": str(folder)}, "environment": {"mode": "path", "path": f"{tree}/.venv"}}


def test_the_script_and_its_jobs_train_with_the_venv_of_the_work_tree(site: Site, tree: str) -> None:
    project = site.folder / "project"
    shutil.copytree(site.host_path(tree), project, ignore=shutil.ignore_patterns(".venv", "uv.lock", "logs"))
    path = f"{site.state_root}.tools:/usr/local/bin:/usr/bin:/bin"
    plain = submitted(site, tree, path, [*OPTIONS, "run_megatron.slurm"])
    line = " ".join(["sbatch", *OPTIONS, str(project / "run_megatron.slurm")])
    script = site.launch(
        None,
        *("-e", json.dumps({"job": line})),
        launch_overrides={"code.in_place": tree, "env": {"PATH": path}},
    )
    spec = job_file(project, tree)
    sizes = {"nodes": 2, "gpus_per_node": 2, "memory": "4G", "time": "00:10:00", "cpus_per_rank": 1}
    spec["resources"] = {**spec["resources"], **sizes, "account": "research", "partition": "batch"}
    job = site.launch({**spec, "name": f"megatron-{site.token}"})
    for launch in (script, job):
        assert site.outcome(launch)["success"], (
            log_of(site.run_dir(launch), launch["job_id"]),
            rank_logs(site.run_dir(launch)),
            *(path.read_text(encoding="utf-8") for path in site.run_dir(launch).glob("logs/0/*.err")),
        )
    assert site.ended(plain) == "COMPLETED"

    expected = of_job(site, tree, plain, {tree: "TREE"})
    assert [call.arguments[-2:] for call in expected] == [
        ("TREE/.venv/lib/python3.11/site-packages/torch", "10")
    ] * RANKS
    wrong = differences(expected, of_job(site, tree, str(script["job_id"]), {tree: "TREE"}))
    work = f"{job['run_dir']}/work"
    meant = re.compile(rf": \w+: sbatch not set;|: ({'|'.join((*OWN, *CPUS, *UV_RUN))}): ")
    actual = of_job(site, work, str(job["job_id"]), {work: "TREE", tree: "TREE"})
    wrong += [line for line in differences(expected, actual) if not meant.search(line)]
    assert not wrong, "\n".join(wrong)
