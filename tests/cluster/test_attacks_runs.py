# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attacker plants where runs are recorded: nothing of it is executed, believed, followed, or waited for."""

from __future__ import annotations

from tests.cluster.attack import ATTACKER, ROOT, VICTIM, AttackLab


def test_the_rig_has_two_users_who_launch_and_mark_what_they_execute(attack_lab: AttackLab) -> None:
    canary, node = attack_lab.canary(), attack_lab.lab.nodes[0]
    for user, run in ((VICTIM, attack_lab.as_victim), (ATTACKER, attack_lab.as_attacker)):
        assert run(["id", "-un"]).stdout == run(["id", "-un"], node=node).stdout == f"{user.name}\n"
        assert "project" in run(["id", "-Gn"]).stdout.split()
    shared = attack_lab.shared_folder(0o2775, "project")
    path = attack_lab.write_as(ATTACKER, f"{shared}/plan", canary.command)
    assert canary.owners() == []
    attack_lab.as_victim(["sh", path], umask=0o077)
    attack_lab.as_root(["sh", path])
    assert canary.owners() == ["root", "victim"]
    launch = attack_lab.launch_as(VICTIM, attack_lab.job("id -un; id -Gn; umask"), umask=0o027)
    assert attack_lab.outcome_of(launch)["success"]
    assert attack_lab.host_path(launch["run_dir"]).stat().st_uid == VICTIM.uid
    log = attack_lab.as_victim(["cat", f"{launch['run_dir']}/logs/0/rank-0000.log"]).stdout.split()
    assert "victim" in log and "project" in log and "0027" in log, log
    (seen,) = attack_lab.task_as(ROOT, "job_info", run_dir=launch["run_dir"])["launches"]
    assert seen["job_id"] == launch["job_id"]
