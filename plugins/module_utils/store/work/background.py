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
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import weakness
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import start_thread, user_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import read_json, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    ABANDONED_AFTER,
    lives,
    process_scope,
    remove,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

#: Seconds without a call after which the work is abandoned.
LEASE = 120.0
_TICK = 0.5
_LOOK = 0.05

Work = Callable[[Meter], "dict[str, Any]"]


@dataclass(frozen=True)
class WorkFolder:
    """The folder through which one try of a work and its callers communicate. Only for this host.

    The tries of a work are numbered folders in one folder. The newest counts: whoever asks late about an older one gets
    the answer of the newest.
    """

    works: str
    number: int

    @property
    def folder(self) -> str:
        """The folder of this try."""
        return os.path.join(self.works, str(self.number))

    @property
    def owner(self) -> str:
        """The file with the worker's process id."""
        return os.path.join(self.folder, "owner")

    @property
    def lease(self) -> str:
        """The file whose modification time is that of the last call."""
        return os.path.join(self.works, "lease")

    @property
    def progress(self) -> str:
        """The progress of the work, rewritten regularly."""
        return os.path.join(self.folder, "progress.json")

    @property
    def result(self) -> str:
        """The result of the work. It stays, as several callers may follow one work, each at its own pace."""
        return os.path.join(self.folder, "result.json")

    @property
    def read(self) -> str:
        """The file that exists once somebody has read the result."""
        return os.path.join(self.folder, "read")


def run_or_follow(
    doing: str, ensure: Callable[..., ModuleResult], options: Parameters, *, check_mode: bool
) -> ModuleResult:
    """The result of `ensure(options, request, check_mode=..., meter=...)`. Raises RankzeroError.

    The work is done in this call, or in the background if the request, the option `x_request`, has the field `follow`:
    the seconds after which the controller wants a progress report. `again`: it has asked before. `doing`: what the work
    does, for an error.
    """
    given = options["x_request"] or {}
    request = {name: value for name, value in given.items() if name not in ("follow", "again")}

    def work(meter: Meter) -> ModuleResult:
        return ensure(options, request, check_mode=check_mode, meter=meter)

    records = user_cache("work")
    if given.get("follow") is None or check_mode or not _own(records):
        return work(Meter())
    asked = {"doing": doing, "options": {**options, "x_request": request}}
    again = bool(given.get("again"))
    return follow(records, asked, float(given["follow"]), work, again=again)


def _own(folder: str) -> bool:
    """Whether the folder exists now and this user alone can write it: not every home can be written, and the result of
    a work is believed, which another user could leave in a cache that a group shares.
    """
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with Beneath(folder).folder() as descriptor:
            own = os.fstat(descriptor).st_uid == os.geteuid() and not weakness(descriptor, os.geteuid())
        return own and os.access(folder, os.W_OK | os.X_OK)
    return False


def follow(records: str, asked: JsonObject, seconds: float, work: Work, *, again: bool) -> ModuleResult:
    """The result of `work`, or `going` with its progress after this many seconds. Starts the work if it does not run.

    `asked` identifies the work; `records`: the folder for files shared by this host's processes; `again`: this is not
    the first call, so the work runs or has ended. Every caller gets the result, however late it asks; results are
    removed a day after the last call. Raises RankzeroError: the one of the work, or one with `killed` that its process
    was killed; `asked["doing"]` says what that did.
    """
    name = hashlib.sha256(json.dumps([process_scope(), dict(asked)], sort_keys=True).encode()).hexdigest()[:32]
    works = os.path.join(records, f"{name}.work")
    _sweep(records, works)
    os.makedirs(works, mode=0o700, exist_ok=True)
    _touch(WorkFolder(works, 0).lease)
    desk = _newest(works)
    if not again and not _usable(desk):
        _start(desk, work)
    until = time.monotonic() + seconds
    while True:
        desk = _newest(works)
        lived = _lives(desk)
        answer = _json(desk.result)
        if "result" in answer or "error" in answer:
            break
        if answer or desk.number == 0:  # it was abandoned, and removed perhaps
            _start(desk, work)
        elif not lived and desk == _newest(works):
            raise RankzeroError(
                f"the process that {asked.get('doing', 'stages it')} on the host was killed. The part that was "
                "transferred is kept; run again to resume.",
                killed=True,
            )
        elif time.monotonic() >= until:
            return {"changed": False, "going": _json(desk.progress)}
        else:
            time.sleep(_LOOK)
    with contextlib.suppress(OSError):
        _touch(desk.read)
    if "error" in answer:
        raise RankzeroError(answer["error"], **answer.get("partial", {}))
    return dict(answer["result"])


def _newest(works: str) -> WorkFolder:
    """The newest try of a work; number 0, which has no folder, if there is none."""
    return WorkFolder(works, max((int(name) for name in os.listdir(works) if name.isdigit()), default=0))


def _usable(desk: WorkFolder) -> bool:
    """Whether a first caller joins this try: it runs, or its result waits for a reader.

    An error, and a result that is old or was read, are not used: things change.
    """
    answer = _json(desk.result)
    if not answer:
        return _lives(desk)
    try:
        fresh = time.time() - os.stat(desk.result).st_mtime < LEASE
    except OSError:
        return False
    return fresh and "result" in answer and not os.path.exists(desk.read)


def _sweep(records: str, kept: str) -> None:
    """Remove the folders of works about which nobody has asked for a day."""
    with contextlib.suppress(OSError):
        for name in os.listdir(records):
            works = os.path.join(records, name)
            if works == kept or not name.endswith(".work"):
                continue
            with contextlib.suppress(OSError):
                if time.time() - os.stat(WorkFolder(works, 0).lease).st_mtime > ABANDONED_AFTER:
                    remove(works)


def _start(before: WorkFolder, work: Work) -> None:
    """Begin the try after `before`, in a process that is detached from its parent and from any terminal.

    Of several callers that begin the same one, the rename of its folder lets one through; the others follow it.
    """
    desk = WorkFolder(before.works, before.number + 1)
    own = os.path.join(desk.works, f".{desk.number}.{os.getpid()}.{threading.get_ident()}")
    os.makedirs(own, mode=0o700, exist_ok=True)
    _write(os.path.join(own, "owner"), str(os.getpid()))
    try:
        os.rename(own, desk.folder)
    except OSError:
        remove_tree(own)
        if os.path.isdir(desk.folder):
            return
        raise
    if before.number > 1:
        with contextlib.suppress(OSError):
            remove_tree(WorkFolder(before.works, before.number - 1).folder)
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


def _become(desk: WorkFolder, work: Work) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    # The pipes of the parent process.
    os.closerange(3, 256)
    os.chdir("/")
    meter = Meter(written=written)
    start_thread(threading.Thread(target=_watch, args=(desk, meter), daemon=True))
    try:
        answer: dict[str, Any] = {"result": work(meter)}
    except RankzeroError as error:
        answer = {"error": error.message, "partial": error.partial}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    _write(desk.result, json.dumps(answer))


def _watch(desk: WorkFolder, meter: Meter) -> None:
    """Write the progress. When nobody calls any more, kill this process and all that it started."""
    while True:
        try:
            _write(desk.progress, json.dumps(vars(meter.reading())))
            idle = os.stat(desk.progress).st_mtime - os.stat(desk.lease).st_mtime
        except OSError:  # the folder was removed
            return
        if idle > LEASE:
            with contextlib.suppress(OSError):
                _write(desk.result, json.dumps({"abandoned": True}))
            os.killpg(0, signal.SIGKILL)
        time.sleep(_TICK)


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


def _lives(desk: WorkFolder) -> bool:
    try:
        return lives(text_of(desk.owner, errors="replace"))
    except OSError:
        return False


def _touch(path: str) -> None:
    with open(path, "a", encoding="ascii"):
        os.utime(path)


def _write(path: str, text: str) -> None:
    replace_file(path, text)


def _json(path: str) -> dict[str, Any]:
    document = read_json(path)
    return document if isinstance(document, dict) else {}
