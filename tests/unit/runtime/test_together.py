# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether ranks met, as the hook sees it in real processes with a stand-in for torch, and what that means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.runtime.harness import ARTIFACT, Job, Site

#: As torch does it: the function with the group is a private one that init_process_group looks up when it is called.
TORCH = """
import os
class Group:
    def size(self):
        return int(os.environ["WORLD_SIZE"])
def _update_default_pg(group):
    return "updated"
def init_process_group(backend):
    assert _update_default_pg(Group()) == "updated"
def destroy_process_group():
    _update_default_pg(None)
"""
MEET = "import torch.distributed as dist\ndist.init_process_group('gloo')\ndist.destroy_process_group()\n"
APART = "import torch\n"
RESULT = "import os\nif os.environ['RANK'] == '0':\n    open('result.json', 'w').write('{\"loss\": 1.0}')\n"


def launched(site: Site, program: str, *, ranks: int = 3, env: dict[str, str] | None = None, **artifact: str) -> Job:
    """A launch that has ended, of a program whose torch is a stand-in."""
    package = site.tools / "fake" / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("import torch.distributed\n", encoding="utf-8")
    (package / "__init__.py").write_text("from torch.distributed.distributed_c10d import *\n", encoding="utf-8")
    (package / "distributed_c10d.py").write_text(TORCH, encoding="utf-8")
    (package.parent.parent / "jax.py").touch()
    (site.code / "train.py").write_text(program + RESULT, encoding="utf-8")
    spec = {
        "command": ["train.py"],
        "env": {"PYTHONPATH": str(package.parent.parent), **(env or {})},
        "launcher": {"ranks_per_node": ranks},
        "artifact": {**ARTIFACT, **artifact},
    }
    job = site.job(spec)
    job.finish()
    return job


def left(job: Job) -> list[str]:
    """What the ranks have left."""
    return sorted(path.name for path in (job.run / "together").glob("*/*"))


def test_ranks_that_met_leave_one_file(site: Site) -> None:
    job = launched(site, MEET, together="required")
    assert (job.outcome()["success"], job.outcome()["together"], left(job)) == (True, True, ["met"]), job.log()


def test_ranks_that_ran_apart_are_reported(site: Site) -> None:
    job = launched(site, APART)
    assert (job.outcome()["success"], job.outcome()["together"], left(job)) == (True, False, ["0", "1", "2"])


def test_ranks_that_ran_apart_prove_nothing_where_that_is_required(site: Site) -> None:
    job = launched(site, APART, together="required")
    outcome = job.outcome()
    assert (outcome["success"], outcome["artifact"]["valid"]) == (False, False)
    assert "artifact.together" in outcome["message"] and "each of the 3 ranks ran on its own" in outcome["message"]


@pytest.mark.parametrize(
    ("program", "env"),
    [
        ("", {}),
        (APART, {"PYTHONFAULTHANDLER": ""}),
        ("import jax\n" + APART, {}),
        # A rank that ends in another way leaves no word.
        (APART + "import os\nif os.environ['RANK'] == '1':\n    os._exit(0)\n", {}),
        # Prepared by one program, and trained by another.
        (f"import subprocess, sys\n{MEET}", {}),
    ],
    ids=["no torch", "no hook", "another library", "a quick end", "a group"],
)
def test_what_is_not_known_is_not_said(site: Site, program: str, env: dict[str, str]) -> None:
    assert launched(site, program, env=env).outcome()["together"] is not False


def test_what_is_not_known_is_not_enough_where_it_is_required(site: Site) -> None:
    outcome = launched(site, "", together="required").outcome()
    assert not outcome["success"] and "nothing shows that the 3 ranks met" in outcome["message"]


def test_one_rank_has_nobody_to_meet(site: Site) -> None:
    job = launched(site, APART, ranks=1, together="required")
    assert (job.outcome()["success"], job.outcome()["together"]) == (True, None)


def test_a_torch_that_has_changed_is_not_known(site: Site, tmp_path: Path) -> None:
    """The program goes on as without the hook."""
    program = "import sys\nsys.path.insert(0, 'other')\nimport torch\nassert torch.distributed.fine\n"
    package = site.code / "other" / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("import torch.distributed\n", encoding="utf-8")
    (package / "__init__.py").write_text("from .distributed_c10d import fine\n", encoding="utf-8")
    (package / "distributed_c10d.py").write_text("fine = __loader__ is not None\n", encoding="utf-8")
    job = launched(site, program)
    assert (job.outcome()["success"], job.outcome()["together"], left(job)) == (True, None, [])
