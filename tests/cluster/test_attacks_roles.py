# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attacker puts in the place of a role's answer, which a wait shows, while others look at his launch."""

from __future__ import annotations

import json

import pytest

from tests.cluster.attack import ATTACKER, ROOT, VICTIM, AttackLab

PRIVATE_WORDS = "what only the victim may read"
#: What he does to the answer ($ANSWER), $PRIVATE: a file of the victim's.
ANSWERS = {
    "a pipe": 'mkfifo "$ANSWER"',
    "a link to what only the victim may read": 'ln -s "$PRIVATE" "$ANSWER"',
    "a device without an end": 'ln -s /dev/zero "$ANSWER"',
    "a gigabyte": 'truncate -s 1G "$ANSWER"',
    "a command of a CI system, a template and an escape": (
        'printf "%s\\033[2J" "503 ##[add-mask]production {{ lookup(\'pipe\', \'id\') }} " > "$ANSWER"'
    ),
    "other roles than a job can have": (
        "python3 -c 'import json, sys; path = sys.argv[1]; told = json.load(open(path));"
        ' role = {"name": "x" * 100000, "nodes": {"a": 1}, "first_rank": -1, "hosts": [[[]]], "ranks": 1e400};'
        ' told["roles"] = [role, 7, None, *[told["roles"][0]] * 20000];'
        ' json.dump(told, open(path + ".new", "w"))\' "$STARTED" && mv "$STARTED.new" "$STARTED"'
    ),
}


def test_an_answer_of_a_role_is_neither_followed_nor_waited_for(
    attack_lab: AttackLab, pytestconfig: pytest.Config
) -> None:
    """A server that is never ready, so that a wait shows what it answered last. Root and the victim look in turn; with
    --all, both at each answer.
    """
    site = attack_lab.site
    roles = {
        "server": {"shell": "sleep 600", "nodes": 1, "ready": {"file": "never", "within": "00:20:00"}},
        "client": {"command": ["true"], "nodes": 1, "after_ready": ["server"]},
    }
    job = attack_lab.job([], artifact={"path": "made", "role": "client"}, roles=roles)
    del job["command"]
    launch = attack_lab.launch_as(ATTACKER, job)
    run = launch["run_dir"]
    private = attack_lab.write_as(VICTIM, f"{attack_lab.home_of(VICTIM)}/private", f"{PRIVATE_WORDS}\n", mode=0o600)
    host = site.run_dir(launch)
    site.lab.wait_until((host / ".ready-server").exists, 120, "the server is waited for")
    values = [f"ANSWER={run}/.ready-server", f"PRIVATE={private}", f"STARTED={run}/started.json"]
    for number, (name, script) in enumerate(ANSWERS.items()):
        # The job itself would write its answer again.
        script = f'chmod u+w {run}; rm -f "$ANSWER"; {script}; chmod a-w {run}'
        attack_lab.as_attacker(["env", *values, "sh", "-c", script])
        for user in (ROOT, VICTIM) if pytestconfig.getoption("--all") else ((ROOT, VICTIM)[number % 2],):
            waited = attack_lab.task_as(user, "job_wait", run_dir=run, wait_timeout=3)
            listed = attack_lab.task_as(user, "job_info", run_dir=run)
            shown = json.dumps([waited, listed]) + site.plays[-1].output + site.plays[-2].output
            assert PRIVATE_WORDS not in shown, (name, user)
            assert "uid=" not in shown and "##[add-mask]" not in site.plays[-2].output, (name, user)
            assert not listed["failed"] or "untrusted" in shown, (name, user, listed)
    attack_lab.as_attacker(["scancel", launch["job_id"]])
