# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A class whose students have logins of their own, one of whom forges: another's work as his, and another's verdict."""

from __future__ import annotations

import json
import shutil
from typing import Any

from tests.cluster.attack import ATTACKER, VICTIM, AttackLab
from tests.cluster.test_course import course, job_of, rows

#: What the attacker does to the victim's work, by name. $HERS: her folder, $RUN: her run.
CHANGES = {
    "her verdict": 'echo \'{"success": false}\' > "$RUN/outcome.json"',
    "her log": 'echo "accuracy 0 %" >> "$RUN/logs/0/rank-0000.log"',
    "her result": 'rm -f "$RUN/work/result.json"',
    "a newer generation": 'mkdir "$RUN/../2"',
    "another key": 'mkdir "$RUN/../../0123456789abcdef"',
    "her run is gone": 'mv "$RUN" "$RUN.gone"',
    "her folder is gone": 'mv "$HERS" "$HERS.gone"',
    "her variables": 'echo "{}" > "$HERS/../../vars/victim.json"',
    "his own variables": 'echo "{}" > "$HERS/../../vars/attacker.json"',
    "the record of the class": 'rm -f "$HERS"/../../*.json',
}
#: What he puts into his own folder: her run as far as he can read it, or what he can make up, with her job.
COPY = r"""
mine=$1 run=$2 job=$3
to=$mine/state/runs/fit/$(basename "$(dirname "$run")")/1
mkdir -p "$to/logs/0" "$to/work"
cp -r "$run/." "$to/" 2> /dev/null
[ -e "$to/claim" ] || echo "1 $4 $job" > "$to/claim"
[ -e "$to/outcome.json" ] || echo '{"success": true, "attempt": 0, "exit_code": 0}' > "$to/outcome.json"
for rank in 0 1 2 3; do
    [ -e "$to/logs/0/rank-000$rank.log" ] ||
        echo "[rankzero] RANK=$rank LOCAL_RANK=0 WORLD_SIZE=4 NODE_RANK=0 host=node01" > "$to/logs/0/rank-000$rank.log"
done
[ -e "$to/work/result.json" ] || echo '{"world_size": 4, "world_size_proven": true}' > "$to/work/result.json"
"""


def test_a_student_neither_passes_with_anothers_work_nor_makes_another_fail(attack_lab: AttackLab) -> None:
    site = attack_lab.site
    name = f"forge-{attack_lab.token}"
    root = f"{attack_lab.lab.shared_inside}/{name}"
    class_: dict[str, Any] = {
        "course_name": name,
        "course_root": root,
        "course_mode": "accounts",
        "course_students": [VICTIM.name, ATTACKER.name],
    }
    made = course(site, **class_)
    assert made.rc == 0, made.output
    try:
        given = json.loads((site.host_path(root) / "vars" / "victim.json").read_text())["launch_cluster"]
        launch = attack_lab.launch_as(VICTIM, job_of(site, 2), launch_cluster=given)
        assert attack_lab.outcome_of(launch)["success"]
        site.ended(launch["job_id"])
        hers, run = f"{root}/students/victim", launch["run_dir"]
        tried = {
            what: attack_lab.as_attacker(
                ["sh", "-c", f'HERS="$1" RUN="$2"; {change}', "sh", hers, run], check=False
            ).returncode
            for what, change in CHANGES.items()
        }
        cluster = attack_lab.lab.cluster_name
        attack_lab.as_attacker(["sh", "-c", COPY, "sh", f"{root}/students/attacker", run, launch["job_id"], cluster])
        check: dict[str, Any] = {
            "course_root": root, "course_job": "fit", "course_nodes": [2], "course_dest": str(site.folder / "checkoff"),
            "course_clock_slack": 1,
        }  # fmt: skip
        checked = course(site, playbook="checkoff", **check)
        assert checked.rc == 0, checked.output
        of = {row["student"]: row for row in rows(site.folder / "checkoff" / f"{name}.csv")}
        assert (of["victim"]["result"], of["attacker"]["result"]) == ("passed", "failed"), checked.output
        unharmed = {"the record of the class"}  # rm -f of nothing succeeds
        assert [what for what, code in tried.items() if code == 0 and what not in unharmed] == []
    finally:
        gone = course(site, "-e", "course_state=absent", **class_)
        assert gone.rc == 0, gone.output
        shutil.rmtree(site.host_path(root))
