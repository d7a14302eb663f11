# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of a class on shared storage, and the record of its students.

    ROOT/class.json          the class, as the check-off reads it
    ROOT/vars/<id>.json      what a student passes to ansible-playbook with -e @FILE
    ROOT/students/<id>/      the student's folder: state/ with the student's runs (and store/, where logins differ)
    ROOT/store/              in a class of projects: code and environments, shared by all (or another folder)

Nothing is ever written below a student's folder, where the student could have put a link, and nothing there is
removed.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import stat
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import json_object
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import whole
from ansible_collections.rankzero.slurm.plugins.module_utils.course.students import Student
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_text

RECORD = "class.json"
VARS, STUDENTS, STORE = "vars", "students", "store"


@dataclass(frozen=True)
class Course:
    """A class as recorded. `former`: students who were listed before."""

    name: str
    mode: str
    students: tuple[Student, ...]
    former: tuple[Student, ...] = ()
    accounts: bool = False
    store: str = ""

    @property
    def everyone(self) -> tuple[Student, ...]:
        """Current students, then former students."""
        return (*self.students, *self.former)


@dataclass
class Changes:
    """What was made, or would be: paths with descriptions. `undone`: what could not be made."""

    made: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)


def home_of(root: str, student: Student) -> str:
    """The folder of one student below the course folder."""
    return os.path.join(root, STUDENTS, student.id)


def cluster_of(root: str, course: Course, student: Student) -> JsonObject:
    """The `launch_cluster` setting of a student."""
    home = home_of(root, student)
    shared = course.mode == "projects"
    settings: dict[str, Any] = {
        "state_root": os.path.join(home, "state"),
        "store_root": (course.store or os.path.join(root, STORE)) if shared else os.path.join(home, STORE),
    }
    if course.accounts:
        settings["resources"] = {"account": student.account}
    return settings


def read(root: str) -> Course | None:
    """The class at `root`; None if there is none. Raises `RankzeroError` if its record cannot be trusted."""
    path = os.path.join(root, RECORD)
    try:
        with open(path, "rb") as stream:
            owner = os.fstat(stream.fileno()).st_uid
            text = whole(stream, path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RankzeroError(f"root: {path} cannot be read: {error.strerror}") from error
    if owner not in (0, os.geteuid()):
        raise RankzeroError(f"root: {path} belongs to user {owner}, who is neither you nor root, so it is not trusted")
    document = json_object(text) or {}
    try:
        return Course(
            name=str(document["name"]),
            mode=str(document["mode"]),
            students=tuple(Student(**student) for student in document["students"]),
            former=tuple(Student(**student) for student in document["former"]),
            accounts=bool(document["accounts"]),
            store=str(document["store"]),
        )
    except (KeyError, TypeError) as error:
        raise RankzeroError(
            f"root: {path} is not a class record; module rankzero.slurm.course_class writes it again"
        ) from error


def record_of(course: Course) -> str:
    """The course as JSON; the same course gives the same bytes."""
    return json.dumps(asdict(course), indent=1, sort_keys=True) + "\n"


def remember(root: str, course: Course, *, check_mode: bool) -> dict[str, str]:
    """Write the record and every student's variables. Returns {path: diff as text}, empty if nothing changes."""
    files = {os.path.join(root, RECORD): record_of(course)}
    for student in course.students:
        text = json.dumps({"launch_cluster": cluster_of(root, course, student)}, indent=1, sort_keys=True) + "\n"
        files[os.path.join(root, VARS, f"{student.id}.json")] = text
    return {path: text for path, text in files.items() if write_text(path, text, check_mode=check_mode)["changed"]}


def prepare(root: str, course: Course, *, group: str, check_mode: bool) -> Changes:
    """Create the folders with their owners and modes. What would need root for another user's folder is reported."""
    done = Changes()
    gid = _group(group)
    _folder(done, root, 0o755, check_mode=check_mode)
    for name in (VARS, STUDENTS, *([STORE] if course.mode == "projects" and not course.store else [])):
        _folder(done, os.path.join(root, name), 0o755, check_mode=check_mode)
    missing = []
    for student in course.students:
        try:
            person = pwd.getpwnam(student.user)
        except KeyError:
            missing.append(student.user)
            continue
        # Teachers can read what the group can; new files inherit the folder's group.
        mode = 0o700 if gid is None else 0o2750
        owner = (person.pw_uid, person.pw_gid if gid is None else gid)
        _folder(done, home_of(root, student), mode, owner, check_mode=check_mode)
    if missing:
        done.undone.append(
            f"folders: {', '.join(sorted(set(missing)))} "
            f"{'is not a login' if len(set(missing)) == 1 else 'are not logins'} on this host, so the folder would "
            "have no owner. Ask for the logins, or use mode: projects, where all share one"
        )
    return done


def _group(name: str) -> int | None:
    if not name:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise RankzeroError(f"group: {name!r} is not a group on this host") from None


def _folder(done: Changes, path: str, mode: int, owner: tuple[int, int] | None = None, *, check_mode: bool) -> None:
    """Create one folder. Its owner is changed only if the folder is new or ours; another owner is left and reported."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        there = None
    except OSError as error:
        raise _trouble(path, error) from error
    if there is not None and not stat.S_ISDIR(there.st_mode):
        raise RankzeroError(f"root: {path} exists and is not a folder; remove it, or name another root")
    if there is not None and owner is None:
        return
    me = os.geteuid()
    if owner is not None and me not in (0, owner[0]):
        done.undone.append(f"folders: only root can give {path} to another user; run this as root (become)")
        return
    wanted = (mode, *(owner or (me, None)))
    if there is not None and (stat.S_IMODE(there.st_mode), there.st_uid, there.st_gid) == wanted:
        return
    done.made.append(f"{path} mode {mode:04o}" + (f" owner {owner[0]}:{owner[1]}" if owner else ""))
    if check_mode:
        return
    try:
        if there is None:
            os.makedirs(path)
        if owner is not None and (me == 0 or there is None or there.st_gid != owner[1]):
            os.chown(path, *owner, follow_symlinks=False)
        os.chmod(path, mode)
    except OSError as error:
        raise _trouble(path, error) from error


def _trouble(path: str, error: OSError) -> RankzeroError:
    return RankzeroError(
        f"root: cannot make {path}: {error.strerror or error}. Name a folder on shared storage that this user may "
        "write, or run as root (become)."
    )


def forget(root: str, *, check_mode: bool) -> list[str]:
    """Remove the record and the variables; the students' folders stay. Returns the paths that are removed."""
    gone = []
    places = [os.path.join(root, RECORD)]
    with contextlib.suppress(OSError):
        places += [os.path.join(root, VARS, name) for name in sorted(os.listdir(os.path.join(root, VARS)))]
    for path in places:
        if os.path.isfile(path):
            gone.append(path)
            if not check_mode:
                os.unlink(path)
    return gone


def succession(course: Course, before: Course | None) -> Course:
    """The new class, with the students who are no longer listed as former ones. Raises `RankzeroError`."""
    if before is None:
        return course
    if before.name != course.name:
        raise RankzeroError(
            f"root: contains the class {before.name!r}, not {course.name!r}. Give each class its own root, or remove "
            "the other one (state: absent)."
        )
    here = {student.id for student in course.students}
    former = tuple(student for student in before.everyone if student.id not in here)
    return replace(course, former=former)


def student_results(root: str, course: Course) -> list[ModuleResult]:
    """The students in the form that the module returns."""
    return [
        {
            "id": student.id,
            "user": student.user,
            "account": student.account if course.accounts else None,
            "folder": home_of(root, student),
            "vars": os.path.join(root, VARS, f"{student.id}.json"),
            "launch_cluster": cluster_of(root, course, student),
        }
        for student in course.students
    ]
