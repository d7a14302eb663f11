# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one launch on a host of the lab, as the module `job` does there, and kill it where the fault says.

    driver.py REQUEST [--kill operation|line --at N]

REQUEST is a JSON file with what the controller would have sent. The process ends itself with SIGKILL right before its
Nth operation (a file opened for writing, renamed, linked, removed; a folder made or removed; a program started), or
its Nth line of the code that submits. Without a kill, it prints the number of operations and lines, and the module's
result.
Uses only the standard library and the collection's module_utils.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from types import FrameType
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import LaunchSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request

OPERATIONS = ("os.rename", "os.link", "os.symlink", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "subprocess.Popen")
#: The files whose lines are counted.
LINES = ("/submit/launch.py", "/submit/create.py", "/run/directory.py", "/submit/admission/checkpoint_owner.py")


class Counter:
    """Counts operations and lines while it is armed, and ends this process right before the requested one."""

    def __init__(self, kind: str | None, at: int) -> None:
        self.kind, self.at = kind, at
        self.counts = {"operation": 0, "line": 0}
        self.armed = False

    def arm(self) -> None:
        sys.addaudithook(self._audited)
        if self.kind != "operation":
            sys.settrace(self._called)
        self.armed = True

    def _step(self, kind: str) -> None:
        self.counts[kind] += 1
        if (kind, self.counts[kind]) == (self.kind, self.at):
            os.kill(os.getpid(), signal.SIGKILL)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in OPERATIONS:
            self._step("operation")

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._traced if frame.f_code.co_filename.endswith(LINES) else None

    def _traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._step("line")
        return self._traced


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("request")
    parser.add_argument("--kill", choices=["operation", "line"])
    parser.add_argument("--at", type=int, default=0)
    options = parser.parse_args()
    with open(options.request, encoding="utf-8") as stream:
        request = json.load(stream)
    # Only what comes after the stores have been found is counted.
    request.pop("stores")
    counter = Counter(options.kill, options.at)
    submitter = f"{socket.gethostname()}:{os.getpid()}"
    launcher = LaunchSubmission(Request.of(request).changed(submitter=submitter), Slurm())
    counter.arm()
    try:
        result = launcher.launch().result()
    except RankzeroError as error:
        result = {"failed": True, "kind": type(error).__name__, "msg": error.message}
    counter.armed = False
    sys.settrace(None)
    result.pop("diff", None)
    print(json.dumps({"counts": counter.counts, "result": result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
