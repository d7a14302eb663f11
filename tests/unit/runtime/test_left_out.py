# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that have failed while the ranks ran are left out by the next attempt, whichever way it comes about."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.unit.runtime.harness import Site
from tests.unit.runtime.test_life import restarting, told_early

#: What the script knows at its end, once a node has failed. The job wants so many nodes.
FAILED = "rankzero_gone=node03 SLURM_JOB_PARTITION=batch SLURM_JOB_NUM_NODES={}"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "cluster")
    made.functions["scancel"] = 'kill -TERM "$rankzero_step"'
    made.functions["sinfo"] = "printf '%s\\n' n1 node03"
    return made


def scontrol(log: Path, shown: str, requeue: str) -> str:
    """A stand-in that shows `shown` of the job, and does `requeue` where it is told to."""
    to_log = f'echo "$*" >> {shlex.quote(str(log))}'
    return (
        f'case "$*" in *hostnames*) echo "$3" | tr , "\\n" ;; update*) {to_log} ;; requeue*) {to_log}; {requeue} ;; '
        f'*) echo "JobId=1 {shown} ExcNodeList=node09 StartTime=2026-01-01T10:00:00 PreemptTime=None" ;; esac'
    )


@pytest.mark.parametrize("asked,nodes,excluded", [("(null)", 1, "node09,node03"), ("node03", 1, ""), ("(null)", 2, "")])
def test_a_job_that_goes_back_into_the_queue(site: Site, tmp_path: Path, asked: str, nodes: int, excluded: str) -> None:
    """Not where it asks for one of them by name, or where too few would be left."""
    log = tmp_path / "told"
    site.functions["scontrol"] = scontrol(log, f"Requeue=1 ReqNodeList={asked}", "true")
    told_early(restarting(site, setup={"commands": [FAILED.format(nodes)]}))
    wanted = [f"update JobId=1 ExcNodeList={excluded}"] if excluded else []
    assert log.read_text(encoding="utf-8").splitlines() == ["requeue 1", *wanted]


def test_another_job_that_goes_on(site: Site, tmp_path: Path) -> None:
    log = tmp_path / "told"
    site.functions["scontrol"] = scontrol(log, "Requeue=0 ReqNodeList=(null)", "return 1")
    site.program("sbatch", f'echo "sbatch $*" >> {shlex.quote(str(log))}; echo "77;lab"')
    path = f"PATH={shlex.quote(str(site.tools))}:$PATH"
    told_early(restarting(site, setup={"commands": [FAILED.format(1), path]}))
    assert " --exclude=node09,node03 " in log.read_text(encoding="utf-8").splitlines()[-1]
