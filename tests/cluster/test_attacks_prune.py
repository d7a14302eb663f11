# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An administrator's prune for two users, one of whom has prepared for it: nothing of anybody else's goes."""

from __future__ import annotations

from typing import Any

from tests.cluster.attack import ATTACKER, ROOT, VICTIM, AttackLab, User

OLD = "touch -h -d '100 days ago'"


def old_code(rig: AttackLab, user: User, letter: str) -> str:
    """A code snapshot that nothing has used for a hundred days."""
    path = f"{rig.store_root(user)}/code/{letter * 64}"
    line = f"mkdir -p {path} {rig.state_root(user)} && echo x > {path}/file && {OLD} {path}/file {path}"
    rig.run_as(user, ["sh", "-c", line])
    return path


def prune(rig: AttackLab, user: User, *owners: User, **more: Any) -> dict[str, Any]:
    home = rig.home_of(VICTIM).rpartition("/")[2]
    roots = {"store_root": f"~/{home}/store", "state_root": f"~/{home}/state"}
    return rig.task_as(user, "store_prune", older_than=30, owners=[one.name for one in owners], **{**roots, **more})


def there(rig: AttackLab, path: str) -> bool:
    return rig.as_root(["test", "-e", path], check=False).returncode == 0


def test_an_administrator_prunes_for_users_and_is_led_nowhere_else(attack_lab: AttackLab) -> None:
    rig = attack_lab
    refused = prune(rig, VICTIM, ATTACKER)
    assert refused["failed"] and "owners: requires root" in refused["msg"]

    mine, kept = old_code(rig, VICTIM, "a"), old_code(rig, VICTIM, "b")
    theirs = old_code(rig, ATTACKER, "c")
    precious = rig.write_as(VICTIM, f"{rig.home_of(VICTIM)}/precious", "stays")
    # Links inside a thing, of a thing, and in the place of whole kinds: into the victim's store and root's files.
    system = "/etc/ssl"
    store = rig.store_root(ATTACKER)
    rig.as_attacker(["sh", "-c", f"ln -s {precious} {theirs}/file2; ln -s {system} {theirs}/folder; {OLD} {theirs}"])
    rig.as_attacker(["sh", "-c", f"ln -s {mine} {store}/code/{'d' * 64} && {OLD} {store}/code/{'d' * 64}"])
    rig.as_attacker(["ln", "-s", f"{rig.store_root(VICTIM)}/code", f"{store}/environments"])
    rig.as_attacker(["ln", "-s", rig.store_root(VICTIM), f"{store}/used"])
    # Deep, and with a folder that its owner cannot enter.
    rig.as_attacker(["sh", "-c", f"mkdir -p {theirs}/{'deep/' * 300} {theirs}/shut/x && chmod 0 {theirs}/shut"])
    rig.as_attacker(["sh", "-c", f"{OLD} {theirs}"])

    done = prune(rig, ROOT, ATTACKER)
    assert not done.get("failed"), done
    assert {(one["owner"], one["path"]) for one in done["removed"]} <= {("attacker", theirs)}
    assert there(rig, mine) and there(rig, kept) and there(rig, precious) and there(rig, f"{system}/certs")

    # And each user's own by size, the longest unused first; check mode tells it and takes nothing.
    rig.as_victim(["sh", "-c", f"touch -h -d '200 days ago' {mine}"])
    rig.as_victim(["sh", "-c", f"head -c 100000 /dev/zero > {kept}/more && {OLD} {kept}"])
    done = prune(rig, ROOT, VICTIM, max_size="60K")
    assert [(one["owner"], one["path"]) for one in done["removed"]] == [("victim", mine), ("victim", kept)]
    again = old_code(rig, VICTIM, "e")
    done = prune(rig, ROOT, VICTIM, max_size="1G")
    assert done["removed"] == [] and there(rig, again)
