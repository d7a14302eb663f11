# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook ends with the killed command that has started it, and says how: nobody waits for it any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.repository import BIN
from tests.warm_playbooks import lives

#: Bound of waiting, in seconds. Nothing is measured with it.
SECONDS = 60
#: Stands for the command: it starts the playbook, says its process id, and waits.
COMMAND = '"$@" > output 2>&1 & echo $!; wait'


def test_a_playbook_is_interrupted_when_its_command_is_killed(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    task = {"command": {"argv": ["sh", "-c", f"touch begun; exec sleep {10 * SECONDS}"], "chdir": str(tmp_path)}}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [task]}
    (tmp_path / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
    (tmp_path / "records").touch()
    records = str(tmp_path / "records")
    env = {**os.environ, "ANSIBLE_CALLBACKS_ENABLED": "rankzero.slurm.records", "RANKZERO_RECORDS": records}
    argv = ["sh", "-c", COMMAND, "sh", str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml"]
    argv += ["-e", f"ansible_python_interpreter={sys.executable}"]
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout
        playbook = command.stdout.readline().strip()
        try:
            until(begun.exists, tmp_path)
            command.send_signal(signal.SIGKILL)
            until(lambda: not lives(playbook), tmp_path)
        finally:
            if lives(playbook):
                os.kill(int(playbook), signal.SIGKILL)
    assert "interrupt" in (tmp_path / "output").read_text(encoding="utf-8").lower()


def until(condition: object, folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            pytest.fail((folder / "output").read_text(encoding="utf-8"))
        time.sleep(0.05)
