# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The signals with which Ansible or a lost connection ends a module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import end_orderly
number = int(sys.argv[1])
# Under nohup the tests themselves ignore SIGHUP.
signal.signal(number, signal.SIG_IGN if sys.argv[2:] == ["ignored"] else signal.SIG_DFL)
end_orderly()
try:
    os.kill(os.getpid(), number)
    print("continues")
finally:
    print("cleans up")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_module_that_is_ended_cleans_up(number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def output(*arguments: str) -> tuple[int, list[str]]:
        argv = [sys.executable, "-c", PROGRAM, str(int(number)), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
        return done.returncode, done.stdout.splitlines()

    assert output() == (128 + number, ["cleans up"])
    assert output("ignored") == (0, ["continues", "cleans up"]), "nohup still holds"
