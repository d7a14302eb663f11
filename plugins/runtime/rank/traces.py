# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What torch's flight recorder knows of the ranks of this node, and what waits in the node's network.

A process with the hook writes the recorder's JSON into its file in memory when it is told to
(hook/rankzero_recorder.py). Of it only the newest collectives are kept. Standard library only; any Python 3.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import time

from rank import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# As in hook/rankzero_recorder.py.
PREFIX = "/memfd:rankzero-trace-"
# The largest dump, the groups of one of which the newest collective is kept, the collectives that are kept besides, the
# longest text of one, and the seconds until it is there.
MOST_BYTES, KEPT, RECENT, WIDTH, ANSWER_SECONDS = 4000000, 64, 32, 400, 5.0
# The most connections of a node that are named.
CONNECTIONS = 32


def recorder(number: int) -> tuple[str, str] | None:
    """(file in memory, pipe) of a process whose flight recorder can be asked; None for any other."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{number}/fd"):
            path = f"/proc/{number}/fd/{name}"
            target = os.readlink(path).partition(" ")[0] if os.path.islink(path) else ""
            words = target[len(PREFIX) :].split("-") if target.startswith(PREFIX) else []
            # A fork shares the file of its parent, but has no thread that would answer.
            if len(words) == 2 and words[0] == str(number) and words[1].isdigit():
                pipe = f"/proc/{number}/fd/{words[1]}"
                return (path, pipe) if is_pipe(pipe) else None
    return None


def is_pipe(path: str) -> bool:
    """Whether a path is a pipe."""
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def write_byte(pipe: str) -> bool:
    """Write a byte into a pipe that somebody reads; whether that went well. Never waits."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(descriptor, b"1") == 1
    except OSError:
        return False
    finally:
        os.close(descriptor)


def request_dump(number: int) -> int | None:
    """Have the recorder of a process write; a descriptor of the file that takes it, None where it cannot be asked."""
    known = recorder(number)
    descriptor = None if known is None else memory.opened(known[0])
    if known is None or descriptor is None:
        return None
    os.ftruncate(descriptor, 0)
    if write_byte(known[1]):
        return descriptor
    os.close(descriptor)
    return None


def read(descriptor: int, deadline: float) -> dict[str, Any]:
    """The newest collectives in a dump: as its JSON, shortened. Empty where none arrives in time. Closes the
    descriptor.
    """
    with open(descriptor, "rb", buffering=0):
        while True:
            document = None
            with contextlib.suppress(OSError, ValueError, RecursionError):
                document = json.loads(os.pread(descriptor, MOST_BYTES, 0).decode("utf-8", "replace"))
            if isinstance(document, dict):
                return {"entries": shortened(document.get("entries"))}
            if time.monotonic() >= deadline:
                return {}
            time.sleep(0.05)


def shortened(entries: Any) -> list[dict[str, Any]]:
    """The newest entries, and the newest of each process group."""
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    newest = {}
    for entry in entries:
        newest[str(entry.get("process_group"))] = entry
    recent = entries[-RECENT:]
    kept = [entry for entry in list(newest.values())[-KEPT:] if all(entry is not last for last in recent)]
    names = (
        "process_group", "collective_seq_id", "profiling_name", "input_sizes", "input_dtypes", "state", "retired",
        "is_p2p", "time_created_ns",
    )  # fmt: skip
    # A path may be long; what tells files apart is its end.
    return [
        {**{name: entry.get(name) for name in names}, "place": str(entry.get("place", ""))[-WIDTH:]}
        for entry in kept + recent
    ]


def address(text: str) -> str:
    """The address in a line of /proc/net/tcp or tcp6, for people."""
    words = bytes.fromhex(text.partition(":")[0])
    native = b"".join(words[place : place + 4][::-1] for place in range(0, len(words), 4))
    if len(native) == 16 and native[:12] == b"\0" * 10 + b"\xff\xff":
        native = native[12:]
    return socket.inet_ntop(socket.AF_INET if len(native) == 4 else socket.AF_INET6, native)


def established() -> Iterator[tuple[str, str, int, int]]:
    """(address here, address there, bytes that wait to be sent or acknowledged, tries) of this user's connections."""
    user = str(os.getuid())
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/self/net/{table}", encoding="ascii") as stream:
            next(stream, None)
            for line in stream:
                fields = line.split()
                # State 01: established.
                if fields[3] == "01" and fields[7] == user:
                    unsent = int(fields[4].partition(":")[0], 16)
                    yield address(fields[1]), address(fields[2]), unsent, int(fields[6], 16)


def own_addresses() -> list[str]:
    """The addresses of this node from which this user has connections to other nodes."""
    addresses: set[str] = set()
    for here, there, _unsent, _tries in established():
        if here != there and len(addresses) < CONNECTIONS:
            addresses.add(here)
    return sorted(addresses)


def connections() -> dict[Any, list[int]]:
    """{(address here, address there): [bytes that wait to be sent or acknowledged, tries]} of this user."""
    waiting: dict[tuple[str, str], list[int]] = {}
    for here, there, unsent, tries in established():
        if unsent:
            row = waiting.setdefault((here, there), [0, 0])
            row[:] = row[0] + unsent, max(row[1], tries)
    return waiting


def stuck(before: Any) -> list[dict[str, Any]]:
    """The connections in which something waited before and waits now: the largest first."""
    now = connections()
    rows = [
        {"from": pair[0], "to": pair[1], "bytes": min(before[pair][0], size), "tries": tries}
        for pair, (size, tries) in now.items()
        if pair in before and pair[0] != pair[1]
    ]
    return sorted(rows, key=lambda row: -row["bytes"])[:CONNECTIONS]
