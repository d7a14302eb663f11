# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the runtime opens where others can write: regular files only, and of its own processes only files in memory."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.runtime.harness import runtime_parts


@pytest.fixture(scope="module")
def memory() -> Iterator[ModuleType]:
    with runtime_parts("rank.memory") as module:
        yield module


@pytest.fixture(scope="module")
def files() -> Iterator[ModuleType]:
    with runtime_parts("core.files") as module:
        yield module


def made(folder: Path, kind: str) -> Path:
    """A name of this kind in a folder."""
    path = folder / kind.replace(" ", "-")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": Path("/dev/zero"), "nothing": folder / "missing", "loop": path}[kind])
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "device", "nothing", "loop"])
def test_only_a_regular_file_is_opened(files: ModuleType, tmp_path: Path, kind: str) -> None:
    with pytest.raises(OSError):
        files.opened(made(tmp_path, kind))


def test_a_name_that_becomes_a_pipe_in_between_is_not_waited_for(
    files: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening, the attacker puts a pipe in the place of the file."""
    regular, pipe, look = tmp_path / "regular", made(tmp_path, "pipe"), os.stat
    regular.touch()
    monkeypatch.setattr(os, "stat", lambda path, **options: look(regular if path == pipe else path, **options))
    with pytest.raises(OSError, match="not a regular file"):
        files.opened(pipe)


def test_only_a_file_in_memory_of_this_user_takes_stacks(memory: ModuleType, tmp_path: Path) -> None:
    """Files on disk and on a file system in memory, also deleted ones, are left as they are."""
    places = [tmp_path, *(Path(place) for place in ("/dev/shm",) if os.access(place, os.W_OK))]
    for place in places:
        for deleted in (False, True):
            descriptor, path = tempfile.mkstemp(dir=place)
            os.write(descriptor, b"precious")
            if deleted:
                os.unlink(path)
            assert memory.opened(f"/proc/{os.getpid()}/fd/{descriptor}") is None
            assert os.fstat(descriptor).st_size == 8
            os.close(descriptor)
            if not deleted:
                os.unlink(path)
    descriptor = os.memfd_create("rankzero-stacks-0-1")
    taken = memory.opened(f"/proc/{os.getpid()}/fd/{descriptor}")
    assert taken is not None and os.fstat(taken).st_ino == os.fstat(descriptor).st_ino
    os.close(taken)
    os.close(descriptor)


def test_a_file_in_memory_of_another_user_is_not_opened(memory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.memfd_create("rankzero-stacks-0-1")
    monkeypatch.setattr(os, "getuid", lambda: 60099)
    assert memory.opened(f"/proc/self/fd/{descriptor}") is None
    os.close(descriptor)


def test_the_stacks_of_a_false_file_are_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: ModuleType
) -> None:
    """The name in /proc is as for a file in memory; what it leads to is a file on disk."""
    with runtime_parts("rank.stacks") as stacks:
        traces: Any = importlib.import_module("rank.traces")
        victim = tmp_path / "victim"
        victim.write_text("precious")
        number = os.getpid()
        monkeypatch.setattr(stacks, "handles", lambda _number: True)
        monkeypatch.setattr(stacks.os, "kill", lambda *_words: pytest.fail("it is signalled"))
        with open(victim, "rb"):
            for request, prefix in (
                (stacks.request_stacks, f"{stacks.PREFIX}0-{number}"),
                (traces.request_dump, f"{traces.PREFIX}{number}-0"),
            ):
                monkeypatch.setattr(os, "readlink", lambda path, name=prefix: name)
                monkeypatch.setattr(traces, "is_pipe", lambda _path: True)
                assert request(number) is None
        assert victim.read_text() == "precious"


def test_a_process_of_other_users_is_no_rank(files: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.own_process(os.getpid())
    monkeypatch.setattr(os, "getuid", lambda: 60099)
    assert not files.own_process(os.getpid())
    assert not files.own_process("999999999")


def test_variables_of_a_process_of_others_make_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root can read them."""
    mine = {"RANKZERO_RUN_DIR=/a/run/of/this/test"}
    words = [sys.executable, "-c", "print(1, flush=True); input()"]
    with (
        runtime_parts("rank.stacks") as stacks,
        subprocess.Popen(
            words,
            env={"RANKZERO_RUN_DIR": "/a/run/of/this/test", "RANK": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as rank,
    ):
        assert rank.stdout is not None and rank.stdout.readline() == b"1\n"
        assert stacks.ranks(mine) == {rank.pid: 3}
        monkeypatch.setattr(stacks.files, "own_process", lambda _number: False)
        assert stacks.ranks(mine) == {}
        rank.communicate(b"\n")
