# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A staging that goes on while the controller asks how far it is.

A process of its own does the work, so that no call of the module is longer than a few seconds. It lives as long as
somebody asks: what nobody waits for any more is killed, and the next run goes on where it was.
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
from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject, ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.progress import Meter
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import lives, place

#: Seconds without a question after which nobody waits.
LEASE = 120.0
_TICK = 0.5
_LOOK = 0.05

Work = Callable[[Meter], "dict[str, Any]"]


@dataclass(frozen=True)
class Desk:
    """The folder in which a worker and those who ask it leave word. Only for this host."""

    folder: str

    @property
    def owner(self) -> str:
        """Who is working: host and process."""
        return os.path.join(self.folder, "owner")

    @property
    def lease(self) -> str:
        """Its time says when somebody last waited for the result."""
        return os.path.join(self.folder, "lease")

    @property
    def progress(self) -> str:
        """How far the work is, rewritten as it goes on."""
        return os.path.join(self.folder, "progress.json")

    @property
    def result(self) -> str:
        """What the work ended with."""
        return os.path.join(self.folder, "result.json")


def follow(records: str, asked: JsonObject, seconds: float, work: Work, *, again: bool) -> ModuleResult:
    """The result of `work`, or `going` with what is known of it after so many seconds; it is started where it is not.

    `asked` tells this work from others; `records`: folder for words between this host's processes; `again`: whoever
    asks has asked before, so that it must be there. Raises RankzeroError: that of the work, or that its process was
    ended from outside.
    """
    name = hashlib.sha256(json.dumps([place(), dict(asked)], sort_keys=True).encode()).hexdigest()[:32]
    desk = Desk(os.path.join(records, f"{name}.work"))
    os.makedirs(desk.folder, mode=0o700, exist_ok=True)
    _touch(desk.lease)
    if not again and not os.path.exists(desk.result) and not _lives(desk):
        _start(desk, work)
    until = time.monotonic() + seconds
    while not os.path.exists(desk.result):
        if not _lives(desk) and not os.path.exists(desk.result):
            with contextlib.suppress(OSError):
                remove_tree(desk.folder)
            raise RankzeroError(
                "the process that stages it on the host was killed. The part that was transferred is kept; run "
                "again to resume"
            )
        if time.monotonic() >= until:
            return {"changed": False, "going": _json(desk.progress)}
        time.sleep(_LOOK)
    told = _json(desk.result)
    with contextlib.suppress(OSError):
        remove_tree(desk.folder)
    if "error" in told:
        raise RankzeroError(told["error"])
    return dict(told["result"])


def _start(desk: Desk, work: Work) -> None:
    """A process that is nobody's child and in no terminal."""
    ready, said = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _write(desk.owner, str(os.getpid()))
                os.write(said, b".")
                _become(desk, work)
        finally:
            os._exit(0)
    os.close(said)
    os.waitpid(middle, 0)
    os.read(ready, 1)
    os.close(ready)


def _become(desk: Desk, work: Work) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    # The pipes of whoever started us.
    os.closerange(3, 256)
    os.chdir("/")
    meter = Meter()
    threading.Thread(target=_watch, args=(desk, meter), daemon=True).start()
    try:
        told: dict[str, Any] = {"result": work(meter)}
    except RankzeroError as error:
        told = {"error": error.message}
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    _write(desk.result, json.dumps(told))


def _watch(desk: Desk, meter: Meter) -> None:
    """Says how far it is. Once nobody asks, it ends this process and all that it has started."""
    while True:
        try:
            _write(desk.progress, json.dumps(meter.known()))
            idle = os.stat(desk.progress).st_mtime - os.stat(desk.lease).st_mtime
        except OSError:  # the desk is gone: whoever asked has what he wanted
            return
        if idle > LEASE:
            with contextlib.suppress(OSError):
                remove_tree(desk.folder)
            os.killpg(0, signal.SIGKILL)
        time.sleep(_TICK)


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
