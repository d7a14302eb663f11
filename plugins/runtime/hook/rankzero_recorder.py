# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes torch's flight recorder readable from outside, without a change in the program. Used by rankzero_torch.py.

A rank that imports torch.distributed gets a thread that sleeps on a pipe. Upon a byte it writes the recorder's JSON
into a file in memory (memfd), which ends with the process. rank/traces.py sends that byte. A process that uses a GPU
is left alone, because there the recorder may wait for the GPU: torch itself writes its dump at a timeout. Any Python 3.
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# rank/traces.py has the same prefix.
PREFIX = "rankzero-trace"
MOST_BYTES = 4000000
# What is in the path of a file that is no part of the program.
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3")


def listen(_module: Any) -> None:
    """Start the thread, with its pipe and its file."""
    import _thread

    taken, given = os.pipe()
    file = os.memfd_create(f"{PREFIX}-{os.getpid()}-{given}")
    _thread.start_new_thread(serve, (taken, file))


def serve(taken: int, file: int) -> None:
    """Answer until the process ends."""
    while os.read(taken, 1):
        with contextlib.suppress(Exception):  # the next question may go better
            text = dump()
            os.ftruncate(file, 0)
            os.pwrite(file, text[:MOST_BYTES], 0)


def dump() -> bytes:
    """The recorder's entries as JSON, each with the line of the program that called it; an empty object where this
    torch has none, or where a GPU is used. The pickle is this process's own.
    """
    import json
    import pickle

    cuda = sys.modules.get("torch.cuda")
    recorder = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace", None)
    if recorder is None or (cuda is not None and cuda.is_initialized()):
        return b"{}"
    with lazy_import_refused("_inductor"):
        dumped = recorder(includeCollectives=True, includeStackTraces=True, onlyActive=False)
    entries = pickle.loads(dumped)["entries"]  # noqa: S301  # torch made it in this process
    for entry in entries:
        entry["place"] = innermost_line(entry.pop("frames", ()))
    return json.dumps({"entries": entries}).encode()


@contextlib.contextmanager
def lazy_import_refused(part: str) -> Iterator[None]:
    """While torch turns its stacks into lines it asks itself for this part, which is imported by being asked for: 800
    modules and 9 s of a CPU, in a thread of the program. Where it is not there already, this thread is told that torch
    has none; the program's own threads get it.
    """
    import _thread

    torch, thread = sys.modules["torch"], _thread.get_ident()
    ask = torch.__dict__.get("__getattr__")
    if ask is None:
        yield
        return

    def answer(name: str) -> Any:
        if name == part and _thread.get_ident() == thread:
            raise AttributeError(name)
        return ask(name)

    torch.__dict__["__getattr__"] = answer
    try:
        yield
    finally:
        torch.__dict__["__getattr__"] = ask


def innermost_line(frames: Any) -> str:
    """The innermost line of the program itself, as `file.py:42, in function`; empty where there is none."""
    for frame in frames:
        file = frame["filename"]
        if file.endswith(".py") and not any(part in file for part in LIBRARIES):
            return f"{file}:{frame['line']}, in {frame['name']}"
    return ""
