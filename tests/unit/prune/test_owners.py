# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`store_prune` for other users, and by size."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import users
from tests.unit.prune.test_prune import DAY, NOW, Place, gone

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


def test_only_root_prunes_for_others_and_only_for_users_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users.os, "geteuid", lambda: 1000)
    with pytest.raises(RankzeroError, match="owners: requires root"):
        users.accounts(["nobody"])
    monkeypatch.setattr(users.os, "geteuid", lambda: 0)
    with pytest.raises(RankzeroError, match="'nosuchuser' is not a user"):
        users.accounts(["nobody", "nosuchuser"])
    with pytest.raises(RankzeroError, match="root's own files"):
        users.accounts(["root"])


@root_only
def test_the_prune_of_a_user_is_done_by_that_user_for_good() -> None:
    def work() -> dict[str, object]:
        with pytest.raises(PermissionError):
            os.setuid(0)
        return {"ids": [*os.getresuid(), *os.getresgid()], "home": os.path.expanduser("~"), "groups": os.getgroups()}

    nobody = pwd.getpwnam("nobody")
    found = users.as_user(nobody, work)
    assert found["ids"] == [nobody.pw_uid] * 3 + [nobody.pw_gid] * 3
    assert found["home"] == nobody.pw_dir and 0 not in found["groups"]
    assert os.geteuid() == 0


@root_only
def test_one_users_failure_is_named_and_the_others_are_done() -> None:
    done = {
        "changed": True,
        "removed": [{"path": "/x"}],
        "bytes": 3,
        "swept": [],
        "kept": [],
        "diff": {},
        "lines": ["removed 1 MB"],
        "notes": ["n"],
    }

    def work(name: str) -> dict[str, object]:
        if name == "nobody":
            raise RankzeroError("state_root: cannot be read")
        return dict(done)

    notes: list[str] = []
    with pytest.raises(RankzeroError) as caught:
        users.for_each(["nobody", "daemon"], work, notes.append)
    assert "nobody: state_root: cannot be read" in caught.value.message
    assert caught.value.partial["removed"] == [{"path": "/x", "owner": "daemon"}] and notes == ["daemon: n"]
    assert users.for_each(["daemon"], work, notes.append)["bytes"] == 3


@root_only
def test_a_process_that_dies_is_no_success() -> None:
    with pytest.raises(RankzeroError, match="ended from outside"):
        users.as_user(pwd.getpwnam("nobody"), lambda: os.kill(os.getpid(), 9))


def test_a_size_takes_the_longest_unused_and_no_more_than_it_must(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ages = {letter: NOW - days * DAY for letter, days in (("a", 90), ("b", 80), ("c", 70))}
    things = {letter: place.thing(f"code/{letter * 64}", used) for letter, used in ages.items()}
    place.thing(f"code/{'f' * 64}", NOW)
    for made in things.values():
        made.chmod(0o755)
        (made / "file").write_bytes(b"x" * 1000)
        used = ages[made.name[0]]
        os.utime(made, (used, used))
    shown = place.prune(max_size=2500, check_mode=True)
    assert gone(shown) == {str(things["a"])} and str(things["a"]) in shown["diff"]["before"]
    assert all(made.exists() for made in things.values())
    result = place.prune(max_size=2500)
    assert gone(result) == {str(things["a"])} and not things["a"].exists()
    kept = {one["path"]: one["reason"] for one in result["kept"]}
    assert "room within max_size" in kept[str(things["b"])]
    # A size below all that is there takes what age allows, and not what was used since.
    assert gone(place.prune(max_size=0)) == {str(things["b"]), str(things["c"])}
    assert (place.store / "code" / ("f" * 64)).exists()
    assert place.prune(max_size=0)["removed"] == []
