# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The accounts of a class in Slurm's accounting, and their limits: a pure plan from what exists to what is wanted.

There is one account for the class, and below it one account for each student. Its user is the student's login or, in a
class of projects, the login that all share. A student's total limits are set on the student's account (Grp limits of
sacctmgr(1)), so they hold for all jobs together. Only associations of these accounts are ever changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.course.students import Student
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse

# sacctmgr's columns of an association, as `show assoc` names them. Inherited values are shown as if they were set,
# unless parents are left out (WOPInfo); then the parents' names are not shown either. Hence two tables.
PLACES = ("Account", "ParentName", "User")
COLUMNS = ("Account", "User", "GrpTRES", "GrpSubmit", "MaxWall", "GrpTRESMins")
MARKS = ("Account", "Descr")
CLUSTERS = ("Account", "Cluster")
# Option name -> (sacctmgr's column, the trackable resource in it).
LIMITS = {
    "nodes": ("GrpTRES", "node"),
    "cpus": ("GrpTRES", "cpu"),
    "gpus": ("GrpTRES", "gres/gpu"),
    "jobs": ("GrpSubmit", ""),
    "time": ("MaxWall", ""),
    "cpu_minutes": ("GrpTRESMins", "cpu"),
}
# sacctmgr prints and accepts some limits under different names.
SPELLED = {"GrpSubmit": "GrpSubmitJobs", "MaxWall": "MaxWallDurationPerJob"}
ENDLESS = "-1"
# The description that marks an account as made for a class: a site's account of the same name is never changed.
MARK = "rankzero_course"


@dataclass(frozen=True)
class Rows:
    """What accounting knows of a class: parent, limits and users of each account by name.

    `foreign`: accounts with such a name that were not made for a class. `elsewhere`: accounts that also exist on other
    clusters of the same accounting database.
    """

    parents: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    users: Mapping[str, frozenset[str]] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()
    elsewhere: frozenset[str] = frozenset()


def rows_of(
    cluster: str,
    places: Iterable[Mapping[str, str]],
    own: Iterable[Mapping[str, str]],
    marks: Iterable[Mapping[str, str]],
    clusters: Iterable[Mapping[str, str]],
) -> Rows:
    """Build Rows from rows of PLACES, COLUMNS, MARKS and CLUSTERS. A user's association lets it charge the account."""
    parents: dict[str, str] = {}
    users: dict[str, set[str]] = {}
    for row in places:
        if row["User"]:
            users.setdefault(row["Account"], set()).add(row["User"])
        else:
            parents[row["Account"]] = row["ParentName"]
    limits = {row["Account"]: parsed(row) for row in own if not row["User"]}
    foreign = tuple(sorted(row["Account"] for row in marks if row["Descr"] != MARK))
    elsewhere = frozenset(row["Account"] for row in clusters if row["Cluster"] != cluster)
    return Rows(parents, limits, {name: frozenset(names) for name, names in users.items()}, foreign, elsewhere)


def parsed(row: Mapping[str, str]) -> dict[str, str]:
    """The limits of a row under our option names, without those that are not set."""
    limits = {}
    for name, (column, resource) in LIMITS.items():
        value = row.get(column, "")
        if resource:
            value = dict(part.partition("=")[::2] for part in value.split(",") if part).get(resource, "")
        if name == "time" and value:
            seconds = parse.parse_duration(value)
            value = "" if seconds is None else str(seconds)
        if value:
            limits[name] = value
    return limits


def wanted(limits: Mapping[str, object] | None, option: str) -> dict[str, str]:
    """Limits as a user gave them, in the form of `parsed`. Raises `RankzeroError`."""
    values = {}
    for name, value in (limits or {}).items():
        if value is None:
            continue
        if name == "time":
            seconds = parse.parse_duration(str(value))
            if not seconds:
                raise RankzeroError(
                    f'{option}.time: {str(value)!r} is not a Slurm time; write it like "00:30:00", in quotes'
                )
            values[name] = str(seconds)
        elif int(str(value)) < 0:
            raise RankzeroError(f"{option}.{name}: {value} is negative; give 0 or more, or omit it")
        else:
            values[name] = str(value)
    return values


@dataclass(frozen=True)
class ClassAccounts:
    """The accounts of a class: its account below `parent`, with the limits `whole`, and below that one account for each
    student, with the limits `each`.
    """

    course: str
    students: Sequence[Student]
    parent: str
    each: Mapping[str, str] = field(default_factory=dict)
    whole: Mapping[str, str] = field(default_factory=dict)


def additions(wanted: ClassAccounts, there: Rows, cluster: str) -> list[list[str]]:
    """The sacctmgr commands, as arguments, that turn `there` into what is wanted; empty if nothing needs to change."""
    commands = _account(wanted.course, wanted.parent, there, cluster, wanted.whole)
    for student in wanted.students:
        commands += _account(student.account, wanted.course, there, cluster, wanted.each)
        if student.user not in there.users.get(student.account, ()):
            commands.append(["add", "user", student.user, f"account={student.account}", f"cluster={cluster}"])
    return commands


def _account(name: str, parent: str, there: Rows, cluster: str, limits: Mapping[str, str]) -> list[list[str]]:
    place = [f"name={name}", f"cluster={cluster}"]
    if name not in there.limits:
        made = ["add", "account", name, f"cluster={cluster}", f"parent={parent}", f"Description={MARK}",
                f"Organization={MARK}"]  # fmt: skip
        return [[*made, *settings(limits, {})]]
    commands = []
    if there.parents.get(name) != parent:
        commands.append(["modify", "account", "where", *place, "set", f"parent={parent}"])
    changed = settings(limits, there.limits[name])
    if changed:
        commands.append(["modify", "account", "where", *place, "set", *changed])
    return commands


def settings(limits: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """The limits to be set, in sacctmgr's syntax. A limit that is no longer wanted is removed. If one resource of a
    column changes, all resources of that column are named, so that it does not matter whether sacctmgr would keep the
    others.
    """
    columns: dict[str, list[str]] = {}
    for name, (column, _resource) in LIMITS.items():
        columns.setdefault(column, []).append(name)
    settings = []
    for column, names in columns.items():
        if all(there.get(name) == limits.get(name) for name in names):
            continue
        values = []
        for name in names:
            value = limits.get(name) or (ENDLESS if name in there else "")
            if name == "time" and name in limits:
                value = clock(int(value))
            resource = LIMITS[name][1]
            values += [f"{resource}={value}" if resource else value] if value else []
        settings.append(f"{SPELLED.get(column, column)}={','.join(values)}")
    return settings


def clock(seconds: int) -> str:
    """Seconds in Slurm's duration format, with all parts."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02d}:{minutes % 60:02d}:{rest:02d}"


def removals(course: str, there: Rows, *, cluster: str) -> list[list[str]]:
    """The sacctmgr commands, as arguments, that remove the class.

    Slurm would also remove everything below the class's account, so that account is kept if anything else is below it.
    An account that also exists on other clusters is removed from this cluster only.
    """

    def account(name: str) -> list[str]:
        return ["delete", "account", f"name={name}", *([f"cluster={cluster}"] if name in there.elsewhere else [])]

    commands = []
    below = sorted(name for name, parent in there.parents.items() if parent == course)
    gone = [name for name in below if name.startswith(f"{course}-")]
    for name in gone:
        for user in sorted(there.users.get(name, ())):
            commands.append(["delete", "user", f"name={user}", f"account={name}", f"cluster={cluster}"])
        commands.append(account(name))
    if course in there.parents and gone == below:
        commands.append(account(course))
    return commands
