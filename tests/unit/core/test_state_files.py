# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a state root is read, and how it is written. tests/cluster/test_attacks_runs.py has the other user."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import ownership, safe_read, state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, generations

ME = pwd.getpwuid(os.geteuid())


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    path = tmp_path / "state" / "runs" / "gpt" / "0123456789abcdef" / "1"
    path.mkdir(parents=True)
    return RunDirectory(str(path))


def test_what_is_missing_is_empty_and_never_asked_for(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(name: str, *_args: object) -> None:
        raise AssertionError(f"{name} was asked for")

    monkeypatch.setattr(safe_read, "sync", asked)
    assert (run.claim(), run.started(), run.outcome(), run.events(), run.text("a/b")) == (None, None, None, [], "")
    assert RunDirectory(run.path + "0").events() == []


def test_asking_anew_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safe_read.sync(str(tmp_path / "missing"))
    monkeypatch.setattr(safe_read, "_libc", object())  # a C library without statx
    safe_read.sync(str(tmp_path))


def test_every_folder_from_the_state_root_down_and_every_file_counts(run: RunDirectory, tmp_path: Path) -> None:
    Path(run.file("claim")).write_text("1 lab 7\n")
    parts = [Path(run.file("claim")), *Path(run.path).parents]
    places = [Path(run.path), *(place for place in parts if tmp_path in place.parents)]
    assert len(places) == 6
    for place in places:
        before = place.stat().st_mode
        place.chmod(before | 0o002)
        with pytest.raises(Untrusted, match="can be written by everybody") as refused:
            RunDirectory(run.path).claim()
        assert str(place) in refused.value.message and f"chmod -R go-w {tmp_path}/state" in refused.value.message
        place.chmod(before)
    assert RunDirectory(run.path).claim() is not None
    tmp_path.chmod(0o777)
    assert RunDirectory(run.path).claim() is not None, "what is above the state root is not ours to judge"


def test_a_group_may_write_only_where_it_is_the_owners_alone(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual umask of users who have groups of their own is 002."""

    def group(name: str, members: list[str]) -> Any:
        monkeypatch.setattr(
            ownership.grp, "getgrgid", lambda _gid: type("group", (), {"gr_name": name, "gr_mem": members})
        )
        return RunDirectory(run.path).outcome

    Path(run.file("outcome.json")).write_text('{"success": true}')
    Path(run.file("outcome.json")).chmod(0o664)
    os.chown(run.file("outcome.json"), -1, ME.pw_gid)
    assert group(ME.pw_name, [])() == group(ME.pw_name, [ME.pw_name])() == {"success": True}
    for name, members in (("ml", []), (ME.pw_name, ["somebody"])):
        with pytest.raises(Untrusted, match="can be written by the group"):
            group(name, members)()
    with monkeypatch.context() as patched:
        patched.setattr(ownership.os, "listxattr", lambda _descriptor: ["system.posix_acl_access"])
        with pytest.raises(Untrusted):
            group(ME.pw_name, [])()


def test_links_pipes_and_endless_files_are_not_read(run: RunDirectory, tmp_path: Path) -> None:
    outcome = Path(run.file("outcome.json"))
    (tmp_path / "other.json").write_text('{"success": true}')
    outcome.symlink_to(tmp_path / "other.json")
    with pytest.raises(Untrusted, match="is a link"):
        run.outcome()
    outcome.unlink()
    os.mkfifo(outcome)
    with pytest.raises(Untrusted, match="not a regular file"):
        run.outcome()
    outcome.unlink()
    with outcome.open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(Untrusted, match="has more than"):
        run.outcome()
    os.rename(run.path, f"{tmp_path}/elsewhere")
    os.symlink(f"{tmp_path}/elsewhere", run.path)
    with pytest.raises(Untrusted, match="is a link"):
        RunDirectory(run.path).claim()


def test_a_bad_line_of_a_journal_costs_that_line(run: RunDirectory) -> None:
    bad: list[Any] = [
        {"event": "submitted", "time": 1e300, "job_id": "1"},
        {"event": "submitted", "time": -1, "job_id": "1"},
        {"event": "submitted", "time": True, "job_id": "1"},
        {"event": "submitted", "time": 5.0, "job_id": "1 2; rm -rf /"},
        {"event": "submitted", "time": 5.0, "job_id": "--user=root"},
        {"event": "submitted", "time": 5.0, "job_id": 7},
        {"event": "intent", "time": 5.0, "array": "../../../../etc/1"},
        {"event": "intent", "time": 5.0, "array": ".sweep-0/1", "task": 1 << 70},
        {"event": ["submitted"], "time": 5.0},
        {"event": "submitted"},
        [],
        7,
    ]
    lines = [*map(json.dumps, bad), "[" * 100_000, "1" * 5000, '{"event": "x", "time": ' + "1" * 5000 + "}", "{torn"]
    good = {"event": "submitted", "time": 5.0, "job_id": "7_1"}
    Path(run.file("journal.jsonl")).write_text("\n".join([*lines, json.dumps(good), ""]))
    assert run.events() == [good] and run.job_id() == "7_1"
    Path(run.file("journal.jsonl")).write_text("{}\n" * 1_000_000)
    assert run.events() == []


@pytest.mark.parametrize("claim", ["1 lab 1;rm", "1 lab --all", "99999999999 lab 1", "1 lab 7 8", "-1 lab 7"])
def test_a_claim_of_no_job_is_none(run: RunDirectory, claim: str) -> None:
    Path(run.file("claim")).write_text(claim)
    assert run.claim() is None


@pytest.mark.parametrize(
    "said",
    [
        {"attempt": -1},
        {"attempt": "0"},
        {"time": 1e12},
        {"started": "now"},
        {"job_id": "7; rm"},
        {"exit_code": "x"},
        {"artifact": ["x"]},
        {"nodes": "node01"},
    ],
)
def test_a_verdict_whose_values_are_none_of_ours_is_none(run: RunDirectory, said: dict[str, Any]) -> None:
    Path(run.file("outcome.json")).write_text(json.dumps({"success": True, **said}))
    Path(run.file("started.json")).write_text(json.dumps(said))
    assert (run.outcome(), run.started()) == (None, None)


def test_generations_are_numbers_as_we_write_them(run: RunDirectory) -> None:
    for name in ("2", "10", "03", "0", "9" * 30, "x"):
        os.mkdir(os.path.join(os.path.dirname(run.path), name))
    assert [one.generation for one in generations(os.path.dirname(run.path))] == [1, 2, 10]


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_nobody_else_may_write_what_we_make_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    tmp_path.chmod(0o2775)  # a project's folder
    before = os.umask(umask)
    try:
        state_files.write(f"{tmp_path}/state/sets/a/b.json", "{}")
        state_files.create(f"{tmp_path}/state/sets/a/c.json", "{}")
        RunDirectory(f"{tmp_path}/state/sets").record("intent")
    finally:
        os.umask(before)
    made = list((tmp_path / "state").rglob("*"))
    assert len(made) == 5 and not [path for path in made if path.stat().st_mode & 0o022]
    assert state_files.document(state_files.own(f"{tmp_path}/state"), "sets/a/b.json") == {}


@pytest.mark.parametrize(
    ("umask", "setgid", "private", "inherited"),
    [
        (0o002, True, False, 0o022),
        (0o002, True, True, 0o002),
        (0o000, False, True, 0o002),
        (0o077, True, False, 0o077),
        (0o022, False, False, 0o022),
    ],
)
def test_a_job_writes_nothing_that_a_group_of_several_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int, setgid: bool, private: bool, inherited: int
) -> None:
    tmp_path.chmod(0o2755 if setgid else 0o755)
    monkeypatch.setattr(state_files, "is_private_group", lambda _uid, _gid: private)
    before = os.umask(umask)
    try:
        with state_files.closed_to_groups(str(tmp_path)):
            (tmp_path / "claim").write_text("1 lab 7")
            seen = os.umask(0o022)
            os.umask(seen)
        after = os.umask(umask)
    finally:
        os.umask(before)
    assert (seen, after) == (inherited, umask)
    assert not (tmp_path / "claim").stat().st_mode & 0o002


def test_a_state_root_over_a_link(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to("state")
    state_files.write(f"{tmp_path}/state/cache/a.json", '{"a": 1}')
    assert state_files.document(state_files.own(f"{tmp_path}/link"), "cache/a.json") == {"a": 1}


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another user can be made by root only")
def test_what_belongs_to_another_user_decides_nothing(run: RunDirectory, tmp_path: Path) -> None:
    outcome = Path(run.file("outcome.json"))
    outcome.write_text('{"success": true}')
    os.chown(outcome, 60012, 60012)
    with pytest.raises(Untrusted, match="belongs to user 60012"):
        run.outcome()
    for place in [outcome, *outcome.parents]:
        if tmp_path in place.parents:
            os.chown(place, 60012, 60012)
    other = RunDirectory(run.path)
    assert other.foreign and other.outcome() == {"success": True}, "data of one other user can be looked at"
    with pytest.raises(Untrusted, match="belongs to user 60012"):
        state_files.own(f"{tmp_path}/state")
    os.symlink(f"{tmp_path}/state", f"{tmp_path}/link")
    os.chown(f"{tmp_path}/link", 60013, -1, follow_symlinks=False)
    with pytest.raises(Untrusted, match="over the link"):
        state_files.of(f"{tmp_path}/link")
