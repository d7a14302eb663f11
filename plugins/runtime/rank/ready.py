# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until all processes of a role are ready, and ends with 0 then; a program of its own, which the conductor ends.

    ready.py FILE WAY VALUE TARGET ...
    ready.py "" WAY VALUE TARGET ...       looks once, and ends with 1 if one is not

FILE takes what it waits for. WAY http: VALUE is the path of a page, each TARGET HOST:PORT; port: the same without a
page; file: TARGET is its path; line: VALUE is a regular expression, each TARGET FROM:LOG, a log from this byte on.
Standard library only.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

EVERY, ANSWER_SECONDS, AT_ONCE = 0.5, 5.0, 32
# Longer lines are read in parts.
LONGEST = 64 << 10


def page(path: str, target: str) -> str:
    """Why a process is not ready by its page; empty if it is."""
    host, _colon, port = target.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()
    return "" if 200 <= status < 300 else f"it answers with {status}"


def port(_value: str, target: str) -> str:
    """Why a process is not ready by its port."""
    host, _colon, number = target.rpartition(":")
    try:
        socket.create_connection((host, int(number)), ANSWER_SECONDS).close()
    except OSError as error:
        return str(error) or type(error).__name__
    return ""


def file(_value: str, target: str) -> str:
    """Why a role is not ready by its file."""
    return "" if os.path.lexists(target) else "it is not there"


class Lines:
    """Reads each log once."""

    def __init__(self) -> None:
        self.read: dict[str, int] = {}

    def __call__(self, value: str, target: str) -> str:
        """Why a process is not ready by its log."""
        start, _colon, log = target.partition(":")
        with contextlib.suppress(OSError), open(log, "rb") as stream:
            stream.seek(self.read.get(target, int(start)))
            while True:
                line = stream.readline(LONGEST)
                whole = line.endswith(b"\n") or len(line) == LONGEST
                if re.search(value, line.decode("utf-8", "replace").rstrip("\n")):
                    return ""
                if not whole:
                    return f"no line matches {value}"
                self.read[target] = stream.tell()
        return "it is not there"


def main() -> int:
    """Wait for all targets."""
    status_file, way, value, *targets = sys.argv[1:]
    ways: dict[str, Callable[[str, str], str]] = {"http": page, "port": port, "file": file, "line": Lines()}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            reasons = dict(zip(targets, pool.map(lambda target: ways[way](value, target), targets)))
            targets = [target for target, reason in reasons.items() if reason]
            if not targets or not status_file:
                return bool(targets)
            with contextlib.suppress(OSError):
                with open(f"{status_file}.part", "w", encoding="utf-8") as stream:
                    shown = targets[0].partition(":")[2] if way == "line" else targets[0]
                    stream.write(f"{len(targets)} not ready; {shown}{value if way == 'http' else ''}: ")
                    stream.write(reasons[targets[0]])
                os.replace(f"{status_file}.part", status_file)
            time.sleep(EVERY)


if __name__ == "__main__":
    sys.exit(main())
