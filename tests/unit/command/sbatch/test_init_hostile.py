# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script of somebody else, recorded by `rankzero init --from` as an ordinary user, changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.command.sbatch.recorded import needs_sandbox

pytestmark = needs_sandbox
NOBODY = 65534
RECORD = """
import json, sys
from rankzero.sbatch import recorder
recorder.SECONDS = int(sys.argv[2])
text = open(sys.argv[1] + "/job.sbatch", encoding="utf-8").read()
done = recorder.recorded(recorder.Script(text, sys.argv[1]), recorder.Allocation(), 1)
print(json.dumps([done.code, done.ended, [call.words for call in done.calls]]))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user may enter, which the folders of pytest are not."""
    place = Path(tempfile.mkdtemp(prefix="rankzero-hostile-"))
    (place / "project").mkdir()
    for path in (place, place / "project"):
        path.chmod(0o755)
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)
    yield place
    shutil.rmtree(place)


def record(folder: Path, body: str, seconds: int = 10) -> tuple[int, str, list[list[str]]]:
    """(exit code, the bound that ended it, calls) of a script."""
    script = folder / "project" / "job.sbatch"
    script.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    done = subprocess.run(
        [sys.executable, "-c", RECORD, str(script.parent), str(seconds)],
        env={"PYTHONPATH": ":".join(sys.path), "HOME": "/nowhere"}, capture_output=True, text=True, timeout=300,
        check=True, cwd=folder, **user,
    )  # fmt: skip
    code, ended, calls = json.loads(done.stdout)
    return code, ended, calls


def test_nothing_outside_the_copy_is_changed(folder: Path) -> None:
    (folder / "outside").write_text("mine", encoding="utf-8")
    (folder / "outside").chmod(0o666)
    (folder / "project" / "own").write_text("mine", encoding="utf-8")
    (folder / "project" / "own").chmod(0o666)
    body = f"echo yours > {folder}/outside; echo yours > own; rm -f own; touch /usr/x /etc/x; srun end $?"
    _code, _ended, calls = record(folder, body)
    assert calls[-1][:2] == ["srun", "end"]
    assert (folder / "outside").read_text(encoding="utf-8") == "mine"
    assert (folder / "project" / "own").read_text(encoding="utf-8") == "mine"


def test_nothing_outside_the_folder_is_read(folder: Path) -> None:
    (folder / "key").write_text("secret", encoding="utf-8")
    (folder / "key").chmod(0o644)
    (folder / "project" / "link").symlink_to(folder / "key")
    (folder / "project" / "config").write_text("inside", encoding="utf-8")
    body = (
        f'srun "$(cat {folder}/key link /proc/1/root{folder}/key 2>/dev/null)" "$(cat config)" "$(ls -A /home /root)"'
    )
    _code, _ended, calls = record(folder, body)
    assert calls[-1] == ["srun", "", "inside", "/home:\n\n/root:"]


def test_it_has_no_capability_and_no_network(folder: Path) -> None:
    body = (
        "mount -o remount,rw,bind /usr && srun mounted\n"
        "umount /proc && srun unmounted\n"
        "(exec 3<>/dev/tcp/127.0.0.1/22) 2>/dev/null && srun connected\n"
        'srun "$(grep CapEff /proc/self/status)" "$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d \' \')"'
    )
    _code, _ended, calls = record(folder, body)
    assert calls == [["srun", "CapEff:\t0000000000000000", "lo"]]


@pytest.mark.parametrize(
    ("body", "ended"),
    [
        ("while :; do :; done", "time"),
        ("while :; do { sleep 1000; :; } & done", "processes"),
        ("trap '' TERM INT HUP; (while :; do :; done) & wait", "time"),
    ],
)
def test_no_script_takes_for_ever(folder: Path, body: str, ended: str) -> None:
    code, why, _calls = record(folder, body, seconds=1)
    assert code < 0 and why == ended


def test_a_variable_that_doubles_takes_bounded_memory(folder: Path) -> None:
    """A gigabyte is four times what a script and each of its children may have."""
    body = "a=$(printf %01024d 0)\nfor i in {1..20}; do a=$a$a; done\nsrun ${#a}"
    _code, _ended, calls = record(folder, body, seconds=60)
    assert calls == []


def test_a_script_that_waits_is_ended(folder: Path) -> None:
    code, _ended, calls = record(folder, "srun a\nwhile [ ! -f result ]; do sleep 60; done\nsrun b", seconds=60)
    assert code == -9
    assert [call for call in calls if call[0] == "srun"] == [["srun", "a"]]


def test_what_it_writes_is_bounded(folder: Path) -> None:
    body = "head -c 200000000 /dev/zero > big; srun $(wc -c < big)\nfor i in {1..400}; do srun $i; done"
    _code, _ended, calls = record(folder, body, seconds=60)
    assert int(calls[0][1]) <= 8 << 20
    assert len(calls) <= 150


def test_nothing_that_is_recorded_runs(folder: Path) -> None:
    (folder / "project" / "t.py").write_text("open('ran', 'w')", encoding="utf-8")
    python = os.path.realpath("/usr/bin/python3")
    body = f"python3 t.py; {python} t.py; env python3 t.py; [ ! -e ran ] && srun nothing"
    _code, _ended, calls = record(folder, body)
    assert calls[-1] == ["srun", "nothing"]
    assert [call[1:] for call in calls[:-1]] == [["t.py"]] * 3
