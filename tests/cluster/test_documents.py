# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that reads nothing but --json: from a mistake to a result, by the commands that each document names."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pytest

from rankzero import errors
from tests.cluster.launching import RESULT, Site
from tests.cluster.test_command import Person
from tests.json_documents import checked


class Program(Person):
    """Types commands with --json, and reads their documents, as their schemas say them."""

    def reads(self, line: str, code: int = errors.OK) -> dict[str, Any]:
        done: subprocess.CompletedProcess[str] = self.types(*shlex.split(line), "--json")
        assert done.returncode == code, done.stdout + done.stderr
        document = checked(json.loads(done.stdout))
        assert (document["exit_code"], document["code"] is None) == (code, code == errors.OK)
        return document

    def follows(self, document: dict[str, Any], verb: str, code: int = errors.OK) -> dict[str, Any]:
        """Type the command of this verb that a document names."""
        (command,) = [line for line in document["next"] if line.startswith(f"rankzero {verb}")]
        return self.reads(command.removeprefix("rankzero "), code)


@pytest.fixture
def program(site: Site) -> Program:
    return Program(site)


def test_from_a_mistake_to_a_result_by_what_is_next(program: Program) -> None:
    site = program.site
    proven = {"require": {"loss": {"lt": 2}}}
    site.write({**site.job(RESULT, artifact=proven), "resources": {"nodes": 0}}, "jobs/wrong.yml")
    wrong = program.reads("run jobs/wrong.yml", errors.REFUSED)
    assert wrong["code"] == "job_spec"
    assert program.follows(wrong, "spec")["keys"][0]["key"] == "resources.nodes"

    assert program.reads("why nobody", errors.REFUSED)["code"] == "no_launch"
    site.write(site.job("exit 3", "bad"), "jobs/bad.yml")
    failed = program.reads("run jobs/bad.yml", errors.FAILED)
    assert failed["code"] == "failed"
    why = program.follows(failed, "why")
    assert why["launches"][0]["run_dir"] == failed["launches"][0]["run_dir"]
    assert program.follows(failed, "logs")["launches"][0]["files"] is not None

    site.write(site.job(f"sleep 4; {RESULT}", "good", artifact=proven), "jobs/good.yml")
    queued = program.follows(program.reads("plan jobs/good.yml"), "run")
    assert queued["launches"][0]["status"]["success"]
    (last,) = program.reads("ls last")["launches"]
    assert last["run_dir"] == queued["launches"][0]["run_dir"], "the newest of all names"
    (attached,) = program.reads("attach last")["launches"]
    assert attached["status"]["result"] == {"loss": 1.5}
    assert program.follows(queued, "pull")["launches"][0]["artifact"]
    assert program.follows(queued, "report")["pages"][0]["kind"] == "launch"
    (ended,) = program.reads("cancel last")["launches"]
    assert not ended["cancelled"]
    (shell,) = program.reads("shell jobs/good.yml")["shells"]
    assert any("srun" in line or "salloc" in line for line in shell["commands"])
    compared = program.reads(f"compare {last['name']} last", errors.REFUSED)
    assert compared["code"] == "refused"
    (site.folder / "jobs" / "wrong.yml").unlink()
    steps = program.reads("reconcile jobs --check")
    assert {row["action"] for row in steps["steps"]} <= {"unchanged", "failed", "adopt", "launch"} and steps["next"]
    program.reads("usage")
    program.reads("notify")
    program.reads("sync")
