# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process on the controller ends with the one that has started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

# Its child ends only by `end_with`, and holds standard output open until then.
PARENT = """
import os, time
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import end_with
own = os.getpid()
if os.fork() == 0:
    end_with(own, lambda: (os.write(1, b"ended"), os._exit(0)))
    os.write(1, b"waits ")
time.sleep(600)
"""


def test_a_child_ends_with_its_killed_parent() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT], env=env, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.read(6) == b"waits "
        parent.send_signal(signal.SIGKILL)
        assert parent.stdout.read() == b"ended"
