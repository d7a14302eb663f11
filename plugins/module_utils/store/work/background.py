# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do long work on the host in the background while the controller asks for progress.

A separate process does the work, so that no call of the module takes more than a few seconds. It runs as long as the
controller asks: without a caller it is killed, and the next run resumes a transfer, or begins a build again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import lives, place
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

#: Seconds without a call after which the work is abandoned.
LEASE = 120.0
_TICK = 0.5
_LOOK = 0.05

Work = Callable[[Meter], "dict[str, Any]"]


@dataclass(frozen=True)
class Desk:
    """The folder through which a worker and its callers communicate. Only for this host."""

    folder: str

    @property
    def owner(self) -> str:
        """The file with the worker's process id."""
        return os.path.join(self.folder, "owner")

    @property
    def lease(self) -> str:
        """The file whose modification time is that of the last call."""
        return os.path.join(self.folder, "lease")

    @property
    def progress(self) -> str:
        """The progress of the work, rewritten regularly."""
        return os.path.join(self.folder, "progress.json")

    @property
    def result(self) -> str:
        """The result of the work."""
        return os.path.join(self.folder, "result.json")


def in_steps(doing: str, ensure: Callable[..., ModuleResult], options: Parameters, *, check_mode: bool) -> ModuleResult:
    """The result of `ensure(options, request, check_mode=..., meter=...)`. Raises RankzeroError.

    The work is done in this call, or in the background if the request, the option `x_request`, has the field `follow`:
    the seconds after which the controller wants a progress report. `again`: it has asked before. `doing`: what the work
    does, for an error.
    """
    given = options["x_request"] or {}
    request = {name: value for name, value in given.items() if name not in ("follow", "again")}

    def work(meter: Meter) -> ModuleResult:
        return ensure(options, request, check_mode=check_mode, meter=meter)

    records = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rankzero", "work")
    if given.get("follow") is None or check_mode or not _writable(records):
        return work(Meter())
    asked = {"doing": doing, "options": {**options, "x_request": request}}
    again = bool(given.get("again"))
    return follow(records, asked, float(given["follow"]), work, again=again)


def _writable(folder: str) -> bool:
    """Whether the folder exists now and can be written: not every home can."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.access(folder, os.W_OK | os.X_OK)


def follow(records: str, asked: JsonObject, seconds: float, work: Work, *, again: bool) -> ModuleResult:
    """The result of `work`, or `going` with its progress after this many seconds. Starts the work if it does not run.

    `asked` identifies the work; `records`: the folder for files shared by this host's processes; `again`: this is not
    the first call, so the work must be running. Raises RankzeroError: the one of the work, or one with `killed` that
    its process was killed; `asked["doing"]` says what that did.
    """
    name = hashlib.sha256(json.dumps([place(), dict(asked)], sort_keys=True).encode()).hexdigest()[:32]
    desk = Desk(os.path.join(records, f"{name}.work"))
    os.makedirs(desk.folder, mode=0o700, exist_ok=True)
    _touch(desk.lease)
    if not again and not _lives(desk) and not _unread(desk):
        _start(desk, work)
    until = time.monotonic() + seconds
    while not os.path.exists(desk.result):
        if not _lives(desk) and not os.path.exists(desk.result):
            with contextlib.suppress(OSError):
                remove_tree(desk.folder)
            raise RankzeroError(
                f"the process that {asked.get('doing', 'stages it')} on the host was killed. The part that was "
                "transferred is kept; run again to resume",
                killed=True,
            )
        if time.monotonic() >= until:
            return {"changed": False, "going": _json(desk.progress)}
        time.sleep(_LOOK)
    answer = _json(desk.result)
    with contextlib.suppress(OSError):
        remove_tree(desk.folder)
    if "error" in answer:
        raise RankzeroError(answer["error"], **answer.get("partial", {}))
    return dict(answer["result"])


def _start(desk: Desk, work: Work) -> None:
    """Start a process that is detached from its parent and from any terminal."""
    ready, ready_end = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _write(desk.owner, str(os.getpid()))
                os.write(ready_end, b".")
                _become(desk, work)
        finally:
            os._exit(0)
    os.close(ready_end)
    os.waitpid(middle, 0)
    os.read(ready, 1)
    os.close(ready)


def _become(desk: Desk, work: Work) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    # The pipes of the parent process.
    os.closerange(3, 256)
    os.chdir("/")
    meter = Meter(written=written)
    threading.Thread(target=_watch, args=(desk, meter), daemon=True).start()
    try:
        answer: dict[str, Any] = {"result": work(meter)}
    except RankzeroError as error:
        answer = {"error": error.message, "partial": error.partial}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    _write(desk.result, json.dumps(answer))


def _watch(desk: Desk, meter: Meter) -> None:
    """Write the progress. When nobody calls any more, kill this process and all that it started."""
    while True:
        try:
            _write(desk.progress, json.dumps(meter.known()))
            idle = os.stat(desk.progress).st_mtime - os.stat(desk.lease).st_mtime
        except OSError:  # the folder is gone: the caller has read the result
            return
        if idle > LEASE:
            with contextlib.suppress(OSError):
                remove_tree(desk.folder)
            os.killpg(0, signal.SIGKILL)
        time.sleep(_TICK)


def _unread(desk: Desk) -> bool:
    """Whether the result of earlier work waits for its reader. An error or an old result is not used: things change."""
    try:
        fresh = time.time() - os.stat(desk.result).st_mtime < LEASE
    except OSError:
        return False
    if fresh and "error" not in _json(desk.result):
        return True
    with contextlib.suppress(OSError):
        os.unlink(desk.result)
    return False


def written(process: int | str = "self") -> int:
    """The bytes that a process and its descendants have written, as far as Linux shows them to this user."""
    total = 0
    with contextlib.suppress(OSError, ValueError):
        with open(f"/proc/{process}/io", encoding="ascii") as stream:
            # Contains the bytes of descendants that have ended.
            total = int(dict(line.split(": ") for line in stream.read().splitlines())["wchar"])
        for thread in os.listdir(f"/proc/{process}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as names,
            ):
                total += sum(written(child) for child in names.read().split())
    return total


def _lives(desk: Desk) -> bool:
    try:
        with open(desk.owner, encoding="ascii") as stream:
            return lives(stream.read())
    except OSError:
        return False


def _touch(path: str) -> None:
    with open(path, "a", encoding="ascii"):
        os.utime(path)


def _write(path: str, text: str) -> None:
    own = f"{path}.{os.getpid()}.{threading.get_ident()}"
    with open(own, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(own, path)


def _json(path: str) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as stream:
        return dict(json.load(stream))
    return {}
