# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create or remove the accounts of a class in Slurm, as far as accounting permits. What could not be done is reported.

Source: sacctmgr(1); AccountingStorageEnforce in slurm.conf(5). Without enforcement, limits have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmError
from ansible_collections.rankzero.slurm.plugins.module_utils.course import limits
from ansible_collections.rankzero.slurm.plugins.module_utils.course.students import Student
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import Knowledge

DENIED = ("permission denied", "privilege")


@dataclass
class Accounts:
    """The result. `commands`: arguments of sacctmgr that were run, or would be. `undone`: sentences about what was not
    done. `there`: the students can charge their own accounts. `enforced`: Slurm enforces their limits.
    """

    commands: list[list[str]] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    there: bool = False
    enforced: bool = False


def accounts(slurm: Slurm, wanted: limits.ClassAccounts, *, state: str, policy: str, check_mode: bool) -> Accounts:
    """Apply the wanted accounts. `policy`: auto (as far as possible), required (else `RankzeroError`) or off."""
    done = Accounts()
    if policy == "off":
        done.undone.append("accounts and limits: not used (accounting: off); Slurm cannot distinguish the students")
        return done
    settings = parse.parse_config(slurm.call("scontrol", "show", "config").stdout)
    try:
        if _planned(slurm, done, settings, wanted, state):
            for command in [] if check_mode else done.commands:
                slurm.call("sacctmgr", "--immediate", "--quiet", *command)
            done.there = state != "absent"
    except SlurmError as error:
        if policy == "required" or not any(word in error.message.lower() for word in DENIED):
            raise
        done.undone.append(
            f"accounts and limits: {error.message}. Who may do that is an administrator of Slurm's accounting "
            "(sacctmgr modify user where name=YOU set adminlevel=Admin); let one run this, or what the result lists"
        )
    if policy == "required" and done.undone:
        raise RankzeroError("accounting: required, but " + "; ".join(done.undone), undone=done.undone)
    return done


def _planned(
    slurm: Slurm, done: Accounts, settings: Mapping[str, str], wanted: limits.ClassAccounts, state: str
) -> bool:
    """Add the commands to `done`. Returns whether the cluster keeps accounting; without it there are no commands."""
    kind = settings.get("AccountingStorageType", "")
    if not kind or kind.endswith("/none"):
        done.undone.append(
            "accounts and limits: this cluster keeps no accounting (AccountingStorageType is "
            f"{kind or 'not set'}), so accounts and limits are not possible"
        )
        return False
    cluster = settings["ClusterName"]
    there = query_accounts(slurm, wanted.course, wanted.students, cluster, with_former=state == "absent")
    if state == "absent":
        done.commands = limits.removals(wanted.course, there, cluster=cluster)
    else:
        done.commands = limits.additions(wanted, there, cluster)
        done.enforced = Knowledge(settings=settings).enforces("limits")
        if not done.enforced and (wanted.each or wanted.whole):
            held = settings.get("AccountingStorageEnforce") or "none"
            done.undone.append(
                f"limits: written down, but Slurm does not enforce them here (AccountingStorageEnforce is {held}; it "
                "takes associations,limits in slurm.conf)"
            )
    return True


def query_accounts(
    slurm: Slurm, course: str, class_: Sequence[Student], cluster: str, *, with_former: bool
) -> limits.Rows:
    """What accounting knows of the class; `with_former`: including former students.

    Raises `RankzeroError` if an account of the site already has a name that the class would use.
    """

    def table(what: str, columns: Sequence[str], *selection: str) -> list[dict[str, str]]:
        answer = slurm.call(
            "sacctmgr", "--noheader", "--parsable2", "show", what, f"format={','.join(columns)}", "where", *selection
        )
        rows = [line.split("|") for line in answer.stdout.splitlines() if line.strip()]
        return [dict(zip(columns, row)) for row in rows if len(row) == len(columns)]

    named = [course, *(student.account for student in class_)]
    here = f"cluster={cluster}"
    if with_former:
        below = table("assoc", limits.PLACES, f"parent={course}", here)
        named = list(dict.fromkeys([*named, *(row["Account"] for row in below)]))
    these = f"account={','.join(named)}"
    rows_there = limits.rows_of(
        cluster,
        places=table("assoc", limits.PLACES, these, here),
        own=table("assoc", limits.COLUMNS, these, here, "WOPInfo"),
        marks=table("account", limits.MARKS, these),
        clusters=table("assoc", limits.CLUSTERS, these) if with_former else [],
    )
    wrong = [account for account in rows_there.foreign if account == course or account.startswith(f"{course}-")]
    if wrong:
        raise RankzeroError(
            f"name: {course}: the account {', '.join(wrong)} is in Slurm's accounting already and was not made for a "
            "class. It was not changed; choose another name for the course."
        )
    return rows_there
