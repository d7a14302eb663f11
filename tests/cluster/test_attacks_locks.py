# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stranger plants under the names of locks, and of folders with locks, where a group shares a store: a wait for
a lock ends, and the files that a link names stay as they are. And two users who build in one store at the same time.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.attack import ATTACKER, PEOPLE, VICTIM, AttackLab, User
from tests.cluster.launching import JOB, Play
from tests.cluster.test_attacks_local import made_by_victim, python_as_victim, untouched
from tests.repository import COLLECTION

HOLD = (
    "import sys\n"
    f"from {COLLECTION}.plugins.module_utils.core.errors import RankzeroError\n"
    f"from {COLLECTION}.plugins.module_utils.store import locks\n"
    "try:\n"
    "    with locks.hold(sys.argv[1], 1): print('held')\n"
    "except RankzeroError as error: print('refused:', error)"
)
#: Lines for the attacker's shell, with the lock ($1) and a folder of the victim's ($2); what the victim is told.
PLANTED = {
    "a link to a file": ('ln -s "$2/precious" "$1"', "refused:"),
    "an old link": ('ln -s "$2/precious" "$1"; touch -h -d @1000000000 "$1"', "refused:"),
    "a link to a name that is free": ('ln -s "$2/new" "$1"', "refused:"),
    "a link to an endless file": ('ln -s /dev/zero "$1"', ""),  # stale by its age: it may be taken away
    "a pipe": ('mkfifo "$1"', "refused:"),
    "a folder": ('mkdir "$1"; touch "$1/x"', "refused:"),
    "brackets": ('head -c 10000000 /dev/zero | tr "\\0" "[" > "$1"', "refused:"),
    "an owner that never was": ("""echo '{"place": "x", "pid": -1, "own": "../precious"}' > "$1\"""", "refused:"),
    "the folder of the locks is a link": ('rmdir "${1%/*}"; ln -s "$2" "${1%/*}"', "is a link"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_lock_is_neither_followed_nor_waited_for(attack_lab: AttackLab, runtime: str, planted: str) -> None:
    private, store = made_by_victim(attack_lab, "private"), attack_lab.shared_folder(0o2775, "project")
    lock = f"{store}/locks/environment.{'0' * 64}.lock"
    attack_lab.as_attacker(["sh", "-c", f"umask 002; mkdir {store}/locks"])
    line, told = PLANTED[planted]
    attack_lab.as_attacker(["sh", "-c", f"umask 002; {line}", "sh", lock, private])
    said = python_as_victim(attack_lab, runtime, HOLD, lock)
    assert said.startswith(("refused:", "held")) and told in said, said
    assert untouched(attack_lab, private)


def test_two_users_who_build_in_one_store_at_the_same_time_make_one_copy(attack_lab: AttackLab) -> None:
    """Module job in a play of one's own, with missing: build, by two members of a group under umask 002."""
    rig, shared = attack_lab, attack_lab.shared_folder(0o2775, "project")
    (rig.site.folder / "code" / "train.sh").write_text("echo the program of both\n", encoding="utf-8")

    def start(user: User) -> Play:
        cluster = {"state_root": rig.state_root(user), "store_root": shared, "store_group_writable": True}
        job = rig.site.write(rig.job(["sh", "train.sh"], user.name), f"{user.name}.yml")
        task = {JOB: {"job": str(rig.site.folder / job), "cluster": cluster, "missing": "build"}}
        play = [{"hosts": "slurm_login", "gather_facts": False, "tasks": [task]}]
        playbook = rig.site.folder / f"own-{user.name}.yml"
        playbook.write_text(json.dumps(play), encoding="utf-8")
        options: dict[str, Any] = rig.connection(user, 0o002)
        return rig.site.start(None, playbook=str(playbook), launch_cluster=None, **options)

    plays = {user.name: start(user) for user in PEOPLE}
    launches = {}
    for name, play in plays.items():
        played = play.finish()
        assert played.rc == 0, played.output
        launches[name] = played.launch()
        assert rig.outcome_of(launches[name])["success"]
        run = launches[name]["run_dir"]
        log = rig.as_root(["cat", f"{run}/logs/0/rank-0000.log"]).stdout
        assert "the program of both" in log
        assert rig.as_root(["stat", "-c", "%U", run]).stdout == f"{name}\n"
    listed = rig.as_root(["find", f"{shared}/code", "-mindepth", "1", "-maxdepth", "1", "-printf", "%f %U\n"]).stdout
    (kept,) = listed.split("\n")[:-1]
    assert kept.split()[1] in (str(VICTIM.uid), str(ATTACKER.uid)), "nothing half made is left"
