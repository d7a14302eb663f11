# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks of the store: one owner at a time, also when owners are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store import locks
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import Busy, hold, is_held

# A process of its own finds the collection as this one does.
WITH_OURS = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

COUNT = """
import sys
from ansible_collections.rankzero.slurm.plugins.module_utils.store import locks
for turn in range(25):
    with locks.hold(sys.argv[1], 120):
        with open(sys.argv[2]) as stream:
            number = int(stream.read())
        with open(sys.argv[2], "w") as stream:
            stream.write(str(number + 1))
"""
HOLD = """
import sys, time
from ansible_collections.rankzero.slurm.plugins.module_utils.store import locks
with locks.hold(sys.argv[1], 0):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    path = str(tmp_path / "locks" / "one")
    with hold(path, 0):
        assert is_held(path)
        owner = json.loads(Path(path).read_text())
        assert owner["pid"] == os.getpid() and owner["host"] and owner["time"]
        with pytest.raises(Busy, match=f"process {os.getpid()} on"), hold(path, 0):
            pass
    assert not is_held(path) and os.listdir(tmp_path / "locks") == []


def test_many_processes_lose_no_turn(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    argv = [sys.executable, "-c", COUNT, str(tmp_path / "lock"), str(counter)]
    assert [one.wait(240) for one in [subprocess.Popen(argv, env=WITH_OURS) for _ in range(4)]] == [0] * 4
    assert counter.read_text() == "100"


def test_the_lock_of_a_killed_owner_is_taken_over_by_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    owner = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True, env=WITH_OURS)
    assert owner.stdout and owner.stdout.readline() == "held\n"
    with pytest.raises(Busy), hold(str(path), 0):
        pass
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    counter = tmp_path / "counter"
    counter.write_text("0")
    argv = [sys.executable, "-c", COUNT, str(path), str(counter)]
    assert [one.wait(240) for one in [subprocess.Popen(argv, env=WITH_OURS) for _ in range(3)]] == [0] * 3
    assert counter.read_text() == "75"
    assert os.listdir(tmp_path) == ["counter"]


def test_an_owner_on_another_host_is_dead_once_it_no_longer_touches_its_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(json.dumps({"host": "far", "place": "elsewhere", "pid": 1, "own": f"{path}.far"}))
    with pytest.raises(Busy, match="process 1 on far"), hold(str(path), 0):
        pass
    past = time.time() - locks.STALE_SECONDS - 60
    os.utime(path, (past, past))
    with hold(str(path), 5):
        assert json.loads(path.read_text())["pid"] == os.getpid()


def test_an_owner_that_lost_its_lock_leaves_the_next_ones_alone(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(str(path), 0):
        path.unlink()  # taken for stale: this process was stopped for a long time
        path.write_text("another's")
    assert path.read_text() == "another's"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RankzeroError, match="cannot write below"), hold(str(tmp_path / "file" / "lock"), 0):
        pass


@pytest.mark.parametrize("own", ["{lock}./../../victim", "{folder}/../victim", "../victim", "victim", 7, None, ["x"]])
def test_a_stale_lock_that_names_a_path_removes_nothing_but_itself(tmp_path: Path, own: object) -> None:
    """Whoever may write beside a lock has had a say in what it holds."""
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "one.lock.").mkdir()
    (folder / "victim").write_text("as it was", encoding="utf-8")
    (tmp_path / "victim").write_text("as it was", encoding="utf-8")
    lock = folder / "one.lock"
    named = own.format(lock=lock, folder=folder) if isinstance(own, str) else own
    lock.write_text(json.dumps({"place": locks.process_scope(), "pid": 2**31 - 1, "own": named}), encoding="utf-8")
    with hold(str(lock), 5):
        pass
    assert (folder / "victim").exists() and (tmp_path / "victim").exists()
    assert sorted(os.listdir(folder)) == ["one.lock.", "victim"]


def test_a_lock_that_is_a_pipe_or_a_link_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "target").write_text(json.dumps({"place": locks.process_scope(), "pid": 2**31 - 1}), encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("target")
    for name in ("pipe", "link"):
        with pytest.raises(Busy, match="that did not sign"), hold(str(tmp_path / name), 0):
            pass
        os.utime(tmp_path / name, (0, 0))
        with hold(str(tmp_path / name), 5):
            pass
    assert sorted(os.listdir(tmp_path)) == ["target"]


def test_a_process_whose_caller_is_gone_waits_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    waits = HOLD.replace(", 0)", ", 600)")
    with hold(str(path), 0):
        waiting = subprocess.Popen(
            [sys.executable, "-c", waits, path], env=WITH_OURS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        while len(os.listdir(tmp_path)) < 3:
            assert waiting.poll() is None
            time.sleep(0.05)
        assert waiting.stdout
        waiting.stdout.close()
        assert waiting.wait(60) == 1
        assert len(os.listdir(tmp_path)) == 2


def test_a_lock_of_brackets_is_a_lock_that_nobody_signed(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    path.write_bytes(b"[" * 60_000)
    with pytest.raises(Busy, match="a process that did not sign"), hold(str(path), 0):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a link in another user's name")
def test_a_folder_of_locks_that_a_stranger_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "store").mkdir()
    folder = tmp_path / "store" / "locks"
    folder.symlink_to(tmp_path / "private")
    # One's own link is a choice: the folder may lie on another disk.
    with hold(str(folder / "one.lock"), 0):
        assert (tmp_path / "private" / "one.lock").exists()
    os.lchown(folder, 65534, 65534)
    with pytest.raises(RankzeroError, match="locks is a link of user nobody"), hold(str(folder / "one.lock"), 0):
        pass
    assert list((tmp_path / "private").iterdir()) == []
