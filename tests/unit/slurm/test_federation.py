# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a federation. The texts are written by hand after squeue(1), scontrol(1) and sbatch(1), and not recorded: no
lab has a federation.
"""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import jobs, parse, states
from tests.unit.run.test_launches import KEY, NOW, row
from tests.unit.slurm.recorded import FakeSlurm, said

#: A job that was submitted to cluster alpha and runs on beta, as `scontrol show job` on alpha shows it.
REVOKED = f"""JobId=67108871 JobName=gpt.{KEY}.1
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   JobState=REVOKED Reason=None Dependency=(null) FedOrigin=alpha FedViableSiblings=alpha,beta FedActiveSiblings=beta
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   SubmitTime=1795209649 EligibleTime=1795209649 StartTime=1795209650 EndTime=1795209650 Deadline=N/A
"""
ID = "67108871"


def test_fields_of_a_federation_are_no_obstacle() -> None:
    (block,) = parse.parse_blocks(REVOKED)
    assert (block["FedOrigin"], block["FedActiveSiblings"]) == ("alpha", "beta")
    record = jobs.from_scontrol(block)
    assert (record.job_id, record.state, record.name) == (ID, "REVOKED", f"gpt.{KEY}.1")
    submitted = parse.parse_submitted(f"{ID};alpha\n")
    assert submitted is not None and (submitted.job_id, submitted.cluster) == (ID, "alpha")


def test_what_another_cluster_has_started_is_not_over() -> None:
    """Taken for ended it would run twice. It is over by its verdict, or when this cluster shows it no more."""
    assert jobs.from_scontrol(parse.parse_blocks(REVOKED)[0]).active
    old = jobs.JobRecord("7", "a", "REVOKED", end=NOW - 3600, source="squeue")
    assert old.active and not old.pending and not old.running
    assert jobs.JobRecord("7", "a", "REVOKED", end=NOW - 3600, source="sacct").final
    assert "another cluster of the federation runs it" in states.describe_end("REVOKED")


def test_of_the_siblings_the_one_that_runs_counts() -> None:
    """squeue --sibling, or a site with FederationParameters=fed_display: a row for each cluster, in any order."""
    rows = [row("REVOKED", JobArrayID=ID, Cluster="alpha"), row("RUNNING", JobArrayID=ID, Cluster="beta")]
    for listed in (rows, rows[::-1]):
        fake = FakeSlurm(squeue=said("".join(listed)))
        found = jobs.find_by_id(fake.slurm(), [ID])[ID]
        assert (found.state, found.cluster) == ("RUNNING", "beta")
