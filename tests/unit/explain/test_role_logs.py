# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch that ends by a role which does not decide: what that role says is the cause, all else follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import process_name, roles_of
from tests.unit.explain.test_evidence import ended, sacct
from tests.unit.slurm.recorded import NO_ACCOUNTING, UNKNOWN_ID, FakeSlurm
from tests.writers import Run, write_diagnosis

WHY = "role server ended with exit code 1 (process 1 on node04: Exited with exit code 1; rank-0003.log) (on_exit: fail)"
SRUN = "srun: Terminating StepId=7.1\nsrun: error: node04: task 1: Exited with exit code 1\n"
RAISED = """Traceback (most recent call last):
  File "/shared/code/server.py", line 4, in <module>
    sock.bind(("", port))
OSError: [Errno 98] Address already in use
"""
#: The job ends the step of the deciding role with TERM, then with KILL. Rows of sacct as in test_evidence.py.
ENDED_BY_THE_JOB = """7|FAILED|1:0|0:0|||300M|node[01-04]|grpo
7.batch|FAILED|1:0||1412K|node01||node01|batch
7.1|FAILED|1:0||31784K|node04||node[03-04]|bash
7.3|CANCELLED|0:9||301612K|node01||node[01-02]|bash
"""


def ended_by_a_role(root: Path, server: str = RAISED, client: str = "", role: str = "server") -> Run:
    """Two ranks that decide, and two servers of which the second has ended the launch."""
    run = Run.below(root).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"}).claimed().numbered(0)
    run.started(nodes=["node01", "node02", "node03", "node04"], roles={"trainer": 2, "server": 2})
    logs = {"rank-0000.log": client, "rank-0001.log": "", "rank-0002.log": "up\n", "rank-0003.log": f"up\n{server}"}
    for name, text in {**logs, "role-server.log": SRUN}.items():
        (run.path / "logs" / "0" / name).write_text(text)
    (run.path / "logs" / "job.7.log").write_text(f"[rankzero] {WHY}\nsrun: forcing job termination\n")
    return run.ended(1, WHY, role=role)


def told(run: Run) -> dict[str, Any]:
    gone = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=NO_ACCOUNTING)
    return write_diagnosis(gone.slurm(), run.path)


def test_what_the_role_says_is_the_cause_and_its_process_has_its_name(tmp_path: Path) -> None:
    lost = "torch.distributed.DistNetworkError: Connection closed by peer [10.0.0.4]:20003\n"
    found = told(ended_by_a_role(tmp_path, client=lost))
    root = found["diagnosis"]["root"]
    assert "Address already in use" in root["text"] and root["file"].endswith("rank-0003.log")
    assert found["diagnosis"]["ranks"] == [3]
    assert any(line.split()[:2] == ["where", "server/1"] for line in found["lines"]), found["lines"]


def test_what_the_job_does_to_the_other_roles_is_no_cause(tmp_path: Path) -> None:
    """Without a word of the server: its exit code, not the signal by which the job has ended the deciding role."""
    found = told(ended_by_a_role(tmp_path, server=""))
    families = {event["family"] for event in found["diagnosis"]["evidence"]}
    assert found["diagnosis"]["family"] == "launcher" and families == {"launcher"}
    text = " ".join(found["lines"])
    assert "memory" not in text and "cancelled" not in text and "role server ended with exit code 1" in text
    # srun counts the tasks of a role alone: that is no number of a rank.
    assert {event["rank"] for event in found["diagnosis"]["evidence"]} == {None}


@pytest.mark.parametrize("role", ["server", ""])
def test_a_step_that_the_job_has_killed_is_no_evidence_of_memory(tmp_path: Path, role: str) -> None:
    """Whether a role has ended the launch, or the deciding one."""
    run = ended_by_a_role(tmp_path, role=role)
    found, _facts = ended(run.path, sacct(ENDED_BY_THE_JOB), exit_code=1, outcome={"role": role})
    assert found.family == "launcher"


def test_that_the_job_ends_a_server_after_the_deciding_role_is_no_cause(tmp_path: Path) -> None:
    run = ended_by_a_role(tmp_path, server="", role="")
    (run.path / "logs" / "0" / "role-server.log").write_text("srun: forcing job termination\n")
    (run.path / "logs" / "job.7.log").write_text("srun: error: node01: task 0: Exited with exit code 1\n")
    assert told(run)["diagnosis"]["family"] == "launcher"


def test_a_killed_step_of_a_launch_with_one_program_is_evidence(tmp_path: Path) -> None:
    found, _facts = ended(tmp_path / "run", sacct(ENDED_BY_THE_JOB), exit_code=1, outcome={})
    assert found.family == "host_oom_killed"


def test_a_launch_that_no_role_has_ended_is_read_whole(tmp_path: Path) -> None:
    run = ended_by_a_role(tmp_path, client="ValueError: loss is not finite\n", role="", server="")
    assert "loss is not finite" in told(run)["diagnosis"]["root"]["text"]


@pytest.mark.parametrize(
    "roles",
    [None, "server", [None], [{"name": 1, "first_rank": 0, "hosts": []}], [{"name": "a", "first_rank": "0"}]],
)
def test_a_file_that_is_not_the_jobs_names_no_role(roles: object) -> None:
    assert roles_of({"roles": roles}) == []
    assert process_name([], 3) == "3"
