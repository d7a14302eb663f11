# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module course_class. A class made: who may be in it, accounts in Slurm, folders, and what a cluster cannot do."""

from __future__ import annotations

import getpass
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import COURSE_CLASS
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmError
from ansible_collections.rankzero.slurm.plugins.module_utils.course import classes, folders, limits
from ansible_collections.rankzero.slurm.plugins.module_utils.course.students import students
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from tests.unit.slurm.recorded import said

LOGIN = getpass.getuser()
DENIED = said(stderr=" Problem adding accounts: Access/permission denied\n", rc=1)


class Accounting:
    """sacctmgr as far as a class needs it, and scontrol's settings. `refusal`: its answer to every change."""

    def __init__(self, kind: str = "accounting_storage/slurmdbd", enforce: str = "associations,limits") -> None:
        self.config = f"AccountingStorageType = {kind}\nAccountingStorageEnforce = {enforce}\nClusterName = lab\n"
        self.accounts: dict[str, dict[str, str]] = {"root": {"ParentName": "", "Descr": "default root account"}}
        self.users: dict[str, set[str]] = {}
        self.elsewhere: set[str] = set()
        self.changes: list[str] = []
        self.refusal: CommandResult | None = None

    def run(self, argv: Sequence[str], *_ignored: object) -> CommandResult:
        if argv[0].endswith("scontrol"):
            return said(self.config)
        words = [word for word in argv[1:] if not word.startswith("--")]
        if words[0] == "show":
            return said(self._show(words))
        self.changes.append(" ".join(words))
        return self.refusal or self._change(words)

    def _show(self, words: Sequence[str]) -> str:
        given = dict(word.partition("=")[::2] for word in words)
        columns = given["format"].split(",")
        asked = given.get("account", "").split(",")
        below = [name for name, row in self.accounts.items() if row["ParentName"] == given.get("parent")]
        rows = []
        for name in [name for name in self.accounts if name in asked or ("parent" in given and name in below)]:
            rows.append({"Account": name, "Cluster": "lab", **self.accounts[name]})
            if words[1] == "assoc" and name in self.elsewhere:
                rows.append({"Account": name, "Cluster": "other", "User": "somebody"})
            if words[1] == "assoc" and "account" in given:
                rows += [{"Account": name, "Cluster": "lab", "User": user} for user in sorted(self.users.get(name, ()))]
        return "".join("|".join(row.get(column, "") for column in columns) + "\n" for row in rows)

    def _change(self, words: Sequence[str]) -> CommandResult:
        given = dict(word.partition("=")[::2] for word in words if "=" in word)
        if words[:2] == ["add", "user"]:
            self.users.setdefault(given["account"], set()).add(words[2])
        elif words[:2] == ["delete", "user"]:
            self.users[given["account"]].discard(given["name"])
        elif words[0] == "delete":
            del self.accounts[given["name"]]
        else:
            row = self.accounts.setdefault(given.get("name") or words[2], {"ParentName": "root", "Descr": ""})
            names = {"parent": "ParentName", "Description": "Descr", "GrpSubmitJobs": "GrpSubmit"}
            names["MaxWallDurationPerJob"] = "MaxWall"
            row.update({names.get(name, name): _set(value) for name, value in given.items()})
        return said()


def _set(value: str) -> str:
    """A limit as accounting keeps it: -1 lifts it."""
    return ",".join(part for part in value.split(",") if part != "-1" and not part.endswith("=-1"))


def make(slurmdbd: Accounting, place: Path, *, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    slurm = Slurm(slurmdbd.run, environment={"PATH": ""}, which=lambda name, path: f"/usr/bin/{name}")  # type: ignore[arg-type]
    defaults = {name: option.get("default") for name, option in COURSE_CLASS.items()}
    given = {"name": "ddp", "students": ["ada", "ben"], "root": str(place / "class"), **options}
    return classes.change(slurm, {**defaults, **given}, check_mode=check_mode)


def test_a_class_is_made_once(tmp_path: Path) -> None:
    accounting = Accounting()
    asked: dict[str, Any] = {
        "limits": {"nodes": 5, "jobs": 2, "time": "00:30:00"},
        "class_limits": {"cpu_minutes": 600},
    }
    foretold = make(accounting, tmp_path, check_mode=True, **asked)
    assert foretold["changed"] and not accounting.changes and not (tmp_path / "class").exists()
    done = make(accounting, tmp_path, **asked)
    assert [line for line in foretold["changes"] if "sacctmgr" in line] == [
        line for line in done["changes"] if "sacctmgr" in line
    ]
    assert (done["undone"], done["enforced"], done["former"]) == ([], True, [])
    assert accounting.accounts["ddp"]["GrpTRESMins"] == "cpu=600"
    ada = accounting.accounts["ddp-ada"]
    assert (ada["ParentName"], ada["GrpTRES"], ada["GrpSubmit"], ada["MaxWall"]) == ("ddp", "node=5", "2", "0-00:30:00")
    assert accounting.users == {"ddp-ada": {LOGIN}, "ddp-ben": {LOGIN}}
    home = tmp_path / "class" / "students" / "ada"
    assert home.stat().st_mode & 0o7777 == 0o700
    variables = json.loads((tmp_path / "class" / "vars" / "ada.json").read_text())
    assert variables["launch_cluster"] == done["students"][0]["launch_cluster"] == {
        "state_root": f"{home}/state",
        "store_root": str(tmp_path / "class" / "store"),
        "resources": {"account": "ddp-ada"},
    }  # fmt: skip
    before = len(accounting.changes)
    again = make(accounting, tmp_path, **asked)
    assert not again["changed"] and again["diff"] == {} and len(accounting.changes) == before


def test_limits_change_are_lifted_and_nothing_else_is_touched(tmp_path: Path) -> None:
    accounting = Accounting()
    make(accounting, tmp_path, limits={"nodes": 5, "cpus": 8, "gpus": 1, "time": "30"})
    accounting.changes.clear()
    done = make(accounting, tmp_path, limits={"nodes": 3, "cpus": 8})
    set_ = "set GrpTRES=node=3,cpu=8,gres/gpu=-1 MaxWallDurationPerJob=-1"
    assert accounting.changes == [f"modify account where name=ddp-{one} cluster=lab {set_}" for one in ("ada", "ben")]
    assert done["changes"] == [f"sacctmgr {line}" for line in accounting.changes]
    accounting.changes.clear()
    make(accounting, tmp_path, limits={"nodes": 3, "cpus": 8}, parent="teaching")
    assert accounting.changes == ["modify account where name=ddp cluster=lab set parent=teaching"]


def test_who_is_not_listed_any_more_stays_until_the_class_goes(tmp_path: Path) -> None:
    accounting = Accounting()
    make(accounting, tmp_path)
    (tmp_path / "class/students/ben/state").mkdir()
    assert make(accounting, tmp_path, students=["ada", "cem"])["former"] == ["ben"]
    assert {"ddp-ada", "ddp-ben", "ddp-cem"} <= set(accounting.accounts)
    assert make(accounting, tmp_path, students=["ada", "ben"])["former"] == ["cem"]
    gone = make(accounting, tmp_path, state="absent", check_mode=True)
    assert gone["changed"] and "ddp" in accounting.accounts
    gone = make(accounting, tmp_path, state="absent", students=[])
    assert gone["changed"] and set(accounting.accounts) == {"root"} and set(gone["former"]) == {"ada", "ben", "cem"}
    assert (tmp_path / "class/students/ben/state").is_dir()
    assert sorted(os.listdir(tmp_path / "class")) == ["store", "students", "vars"]
    assert not make(accounting, tmp_path, state="absent")["changed"]


def test_other_accounts_below_the_course_keep_it(tmp_path: Path) -> None:
    accounting = Accounting()
    make(accounting, tmp_path)
    accounting.accounts["tutors"] = {"ParentName": "ddp", "Descr": "ours"}
    make(accounting, tmp_path, state="absent")
    assert set(accounting.accounts) == {"root", "ddp", "tutors"}


def test_what_other_clusters_have_is_taken_from_this_one_only(tmp_path: Path) -> None:
    accounting = Accounting()
    make(accounting, tmp_path, students=["ada"])
    accounting.elsewhere = {"ddp"}
    accounting.changes.clear()
    make(accounting, tmp_path, state="absent")
    assert [line for line in accounting.changes if "account name" in line] == [
        "delete account name=ddp-ada",
        "delete account name=ddp cluster=lab",
    ]


@pytest.mark.parametrize("name", ["ddp", "ddp-ben"])
@pytest.mark.parametrize("state", ["present", "absent"])
def test_an_account_of_the_site_is_left_alone(tmp_path: Path, name: str, state: str) -> None:
    accounting = Accounting()
    accounting.accounts[name] = {"ParentName": "ddp" if name != "ddp" else "root", "Descr": "physics"}
    with pytest.raises(RankzeroError, match=f"the account {name} is in Slurm's accounting already") as error:
        make(accounting, tmp_path, state=state)
    assert "choose another name" in error.value.message and not accounting.changes


@pytest.mark.parametrize("kind", ["accounting_storage/none", "(null)"])
def test_a_cluster_without_accounting_has_folders_and_says_so(tmp_path: Path, kind: str) -> None:
    accounting = Accounting(kind=kind)
    done = make(accounting, tmp_path, limits={"nodes": 5})
    assert done["changed"] and not done["enforced"] and not accounting.changes
    (sentence,) = done["undone"]
    assert "keeps no accounting" in sentence
    assert done["students"][0]["account"] is None
    assert "resources" not in done["students"][0]["launch_cluster"]
    with pytest.raises(RankzeroError, match="accounting: required, but accounts and limits: this cluster keeps no"):
        make(accounting, tmp_path, accounting="required")
    assert "accounting: off" in make(Accounting(), tmp_path, accounting="off")["undone"][0]


def test_limits_that_nobody_enforces_are_said(tmp_path: Path) -> None:
    done = make(Accounting(enforce="none"), tmp_path, limits={"nodes": 5})
    assert not done["enforced"] and "does not enforce them here (AccountingStorageEnforce is none" in done["undone"][0]
    assert make(Accounting(enforce="none"), tmp_path, root=str(tmp_path / "b"))["undone"] == []


def test_whoever_may_not_is_told_who_may(tmp_path: Path) -> None:
    accounting = Accounting()
    accounting.refusal = DENIED
    done = make(accounting, tmp_path, limits={"nodes": 5})
    assert done["students"][0]["account"] is None and (tmp_path / "class/students/ada").is_dir()
    assert "permission denied" in done["undone"][0] and "administrator of Slurm's accounting" in done["undone"][0]
    with pytest.raises(SlurmError, match="permission denied"):
        make(accounting, tmp_path, accounting="required")
    accounting.refusal = said(stderr="sacctmgr: error: something else\n", rc=1)
    with pytest.raises(SlurmError, match="something else"):
        make(accounting, tmp_path)


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (["o'brien"], "students: \"o'brien\" cannot be an id ('o-brien' would do)"),
        (["../../etc"], "students: '../../etc' cannot be an id ('etc' would do)"),
        (["Ada"], "('ada' would do)"),
        (["-rf"], "('rf' would do)"),
        ([".ssh"], "('ssh' would do)"),
        (["a b", "$(reboot)"], "('reboot' would do)"),
        (["zoë"], "('zo' would do)"),
        (["\x1b[31m"], "students: '\\x1b[31m' cannot be an id"),
        (["x" * 33], "at most 32"),
        ([""], "students: '' cannot be an id;"),
        (["ada", "ada"], "students: 'ada' is named twice"),
        ([], "students: name at least one"),
    ],
)
def test_strange_ids_are_refused_all_at_once(tmp_path: Path, ids: list[str], says: str) -> None:
    accounting = Accounting()
    with pytest.raises(RankzeroError) as error:
        make(accounting, tmp_path, students=ids)
    assert says in error.value.message and "\x1b" not in error.value.message
    assert not accounting.changes and not (tmp_path / "class").exists()


def test_all_mistakes_come_together() -> None:
    with pytest.raises(RankzeroError) as error:
        students("My Course", ["a b", "c/d", "ok"], mode="projects", login="teacher")
    assert len(error.value.partial["problems"]) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("one", ["s123456", "j.smith", "ada_l", "x" * 32, "0"])
def test_usual_ids_are_taken(one: str) -> None:
    (student,) = students("ddp", [one], mode="accounts", login="teacher")
    assert (student.user, student.account) == (one, f"ddp-{one}")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limits": {"time": "soon"}}, "limits.time: 'soon'"),
        ({"limits": {"nodes": -1}}, "limits.nodes: -1"),
        ({"class_limits": {"cpu_minutes": -5}}, "class_limits.cpu_minutes: -5"),
        ({"root": "class"}, "root: 'class' is not an absolute path"),
        ({"group": "no-such-group"}, "group: 'no-such-group'"),
        ({"mode": "accounts", "store": "/store"}, "store: not allowed in mode accounts"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(RankzeroError) as error:
        make(Accounting(), tmp_path, **options)
    assert says in error.value.message


def test_logins_that_do_not_exist_are_said_and_the_others_have_folders(tmp_path: Path) -> None:
    done = make(Accounting(), tmp_path, mode="accounts", students=[LOGIN, "no-such-login"])
    (sentence,) = done["undone"]
    assert sentence.startswith("folders: no-such-login is not a login on this host")
    assert sorted(os.listdir(tmp_path / "class/students")) == [LOGIN]
    assert done["students"][0]["launch_cluster"]["store_root"].endswith(f"students/{LOGIN}/store")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_student_owns_his_folder_and_teachers_may_read_it(tmp_path: Path) -> None:
    asked = {"mode": "accounts", "students": ["nobody"], "group": "daemon"}
    make(Accounting(), tmp_path, **asked)
    status = (tmp_path / "class/students/nobody").stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o2750, 65534)
    os.chmod(tmp_path / "class/students/nobody", 0o777)
    again = make(Accounting(), tmp_path, **asked)
    assert [line for line in again["changes"] if "nobody" in line and "sacctmgr" not in line]
    assert (tmp_path / "class/students/nobody").stat().st_mode & 0o7777 == 0o2750


def test_a_store_that_was_there_before(tmp_path: Path) -> None:
    done = make(Accounting(), tmp_path, store="/scratch/store")
    assert done["students"][0]["launch_cluster"]["store_root"] == "/scratch/store"
    assert sorted(os.listdir(tmp_path / "class")) == ["class.json", "students", "vars"]


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "class/students").mkdir(parents=True)
    (tmp_path / "class/students/ada").symlink_to("/etc")
    with pytest.raises(RankzeroError, match="students/ada exists and is not a folder"):
        make(Accounting(), tmp_path)
    make(Accounting(), tmp_path, name="other", root=str(tmp_path / "b"))
    for state in ("present", "absent"):
        with pytest.raises(RankzeroError, match="contains the class 'other', not 'ddp'"):
            make(Accounting(), tmp_path, root=str(tmp_path / "b"), state=state)
    (tmp_path / "b/class.json").write_text("{}")
    with pytest.raises(RankzeroError, match="is not a class record"):
        folders.read(str(tmp_path / "b"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have a file of somebody else")
def test_a_record_that_a_student_wrote_is_not_believed(tmp_path: Path) -> None:
    make(Accounting(), tmp_path)
    os.chown(tmp_path / "class/class.json", 65534, 65534)
    with pytest.raises(RankzeroError, match="who is neither you nor root"):
        folders.read(str(tmp_path / "class"))


def test_every_word_for_sacctmgr_is_one_argument() -> None:
    (student,) = students("ddp", ["ada"], mode="projects", login="teacher")
    wanted = limits.ClassAccounts("ddp", [student], "root", each={"nodes": "5"})
    commands = limits.additions(wanted, limits.Rows(), "lab")
    assert [shlex.split(shlex.join(command)) for command in commands] == commands
    assert commands[-1] == ["add", "user", "teacher", "account=ddp-ada", "cluster=lab"]
