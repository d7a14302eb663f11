# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of run directories on the host that stores them.

This is the remote part of a poll (poll.py); its source is sent with the poll. No program from the cluster is executed:
the artifact is checked by this release's checker (runtime/artifact/outcome.py), whose source is sent as well. Each part
of the output begins with the marker and one of: `run I [local]`; `file I NAME`, then the text on the next lines;
`proven I`; `preflight I NODES`; `staging I KIND DONE NODES BYTES`; `log I ATTEMPT START SIZE`, then the bytes;
`untrusted I`, then the reason; `state I WORD`; `held SECONDS`; at last `end`.

A look that may wait first asks twice a second whether a run directory has changed. That opens one folder and reads no
file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import nobody_reads
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import json_object, of_run, text
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of

FILES = ("claim", "started.json", "no-python", "outcome.json")
# The largest artifact whose content is checked (bytes), and the CPU time limit of the check (JUDGE_SECONDS).
MOST_BYTES = 8 << 20
# The preflight writes these in addition to one file for each node. On many nodes all reports are in one file, of which
# this many bytes are read.
NOT_OF_NODES = frozenset({"exchange.json", "unfit.json"})
TOGETHER, TOGETHER_BYTES = "_tasks.log", 32 << 20
_REPORTED = re.compile(rb"\[report (\S+) 1/\d+\] ")
JUDGE_SECONDS = 60
# How often (seconds) a look that waits asks whether anything has changed.
PAUSE = 0.5


def main(request: Mapping[str, Any], checker: Any, out: IO[bytes]) -> None:
    """Look at every target of `request` and print the results to `out`.

    request: {"marker", "log_bytes", "whole_bytes", "hold", "targets": [{"run_dir", "attempt", "offset", "log", "whole",
    "artifact", "state"}]}. `hold`: wait up to this many seconds until a target has another `state`. `checker`: the
    module runtime/artifact/outcome.py, or None where no artifact is to be checked.
    """
    held = _await_change(request["targets"], request["hold"]) if request["hold"] else 0.0
    out.write(f"{request['marker']} held {held:.3f}\n".encode())
    if checker is not None:
        _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (JUDGE_SECONDS, hard))
    for index, target in enumerate(request["targets"]):
        answer = _Answer(index, request["marker"], out)
        # Before reading: what is written meanwhile is another state.
        state = state_of(target["run_dir"], target["artifact"])
        answer.say("state", words=f" {state}" if state else "")
        try:
            _look(_Place(target["run_dir"]), answer, target, request, checker)
        except Untrusted as error:
            answer.say("untrusted", error.message)
        out.flush()
    out.write(f"{request['marker']} end\n".encode())
    out.flush()


def _await_change(targets: Sequence[Mapping[str, Any]], seconds: float) -> float:
    """Wait until a target has another state than the last look found, at most `seconds`. Returns how long it took.

    Less if nobody reads the output any more.
    """
    began = time.monotonic()
    while True:
        left = began + seconds - time.monotonic()
        changed = (state_of(target["run_dir"], target["artifact"]) != target["state"] for target in targets)
        if left <= 0 or any(changed) or nobody_reads():
            return time.monotonic() - began
        time.sleep(min(PAUSE, left))


def state_of(run_dir: str, artifact: str) -> str:
    """Return a word that changes when a file in the run directory is created or replaced, or the artifact changes.

    The folder is opened, because a network file system then asks its server for the current time of change.
    """
    words: list[int] = []
    try:
        folder = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            words.append(os.fstat(folder).st_ctime_ns)
        finally:
            os.close(folder)
        if artifact:
            words.append(os.lstat(os.path.join(run_dir, artifact)).st_ctime_ns)
    except OSError:
        pass
    return ".".join(map(str, words))


class _Place:
    """A run directory. `believed`: decisive files, read only from the owner; `shown`: logs, which decide nothing."""

    def __init__(self, run_dir: str) -> None:
        self.run_dir = run_dir
        self.believed, self.below = of_run(run_dir)
        self.shown = Beneath(os.path.join(self.believed.root, self.below))

    def text(self, name: str) -> str:
        return text(self.believed, os.path.join(self.below, name))


class _Answer:
    """Prints the results for one target of the request."""

    def __init__(self, index: int, marker: str, out: IO[bytes]) -> None:
        self.index = index
        self.marker = marker
        self.out = out

    def say(self, kind: str, text: str | None = None, words: str = "") -> None:
        """Print the marker and `kind INDEX words`, then `text` on the following lines."""
        lines = f"{self.marker} {kind} {self.index}{words}\n" + ("" if text is None else f"{text}\n")
        self.out.write(lines.encode("utf-8", "replace"))


def _look(place: _Place, answer: _Answer, target: Mapping[str, Any], request: Mapping[str, Any], checker: Any) -> None:
    try:
        with place.believed.folder(place.below) as folder:
            there = os.listdir(folder)
    except OSError:
        return
    answer.say("run", words=" local" if "claim" not in there and _on_own_disk(place.run_dir) else "")
    texts = {}
    for name in FILES:
        # Open only the files that the listing names: a network file system caches that a name was missing.
        if name in there:
            texts[name] = place.text(name)
            answer.say("file", texts[name], f" {name}")
    launched = (json_object(texts.get("started.json", "")) or {}).get("launched")
    if not launched and "preflight" in there:
        newest = _newest_preflight(place)
        answer.say("preflight", words=f" {_looked_at(place, newest)}")
        _staging(place, newest, answer)
    if target["artifact"] and checker is not None and is_proven(place, checker):
        answer.say("proven")
    _log(place, answer, target, request)


def _on_own_disk(path: str) -> bool:
    """Whether a path lies on a block device of this host: what nodes write there through a server is seen at once."""
    return os.major(os.stat(path).st_dev) != 0


def _newest_preflight(place: _Place) -> str:
    attempts = [name for name in place.shown.names("preflight") if name.isascii() and name.isdigit() and len(name) < 10]
    return f"preflight/{max(attempts, key=int)}" if attempts else ""


def _looked_at(place: _Place, folder: str) -> int:
    """The number of nodes that this preflight has results from."""
    names = place.shown.names(folder) if folder else []
    own = sum(name.endswith(".json") and name not in NOT_OF_NODES for name in names)
    if not own and TOGETHER in names:
        with contextlib.suppress(OSError, Untrusted), place.shown.stream(f"{folder}/{TOGETHER}") as stream:
            return len(set(_REPORTED.findall(stream.read(TOGETHER_BYTES))))
    return own


def _staging(place: _Place, folder: str, answer: _Answer) -> None:
    """What is being copied to nodes that do not see it (runtime/node/copies.py), to how many of them, and its size."""
    names = place.shown.names(f"{folder}/stage") if folder else []
    # The environment, which takes longer, before the code.
    kinds = {name.partition(".")[0] for name in names if name.endswith(".room")}
    for kind in sorted(filter(str.isidentifier, kinds), reverse=True):
        nodes = sum(name.startswith(f"{kind}.") and name.endswith(".room") for name in names)
        if nodes:
            done = sum(name.startswith(f"{kind}.") and name.endswith(".done") for name in names)
            with contextlib.suppress(OSError, Untrusted):
                size = (json_object(text(place.shown, f"{folder}/stage/{kind}.offer")) or {}).get("bytes")
                answer.say("staging", words=f" {kind} {done} {nodes} {size if isinstance(size, int) else 0}")
                return


def _log(place: _Place, answer: _Answer, target: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    numbers = [int(name) for name in place.shown.names("logs") if name.isascii() and name.isdigit() and len(name) < 10]
    attempt = max(numbers, default=None)
    for path in _logs(place, attempt, target["log"]):
        with contextlib.suppress(OSError, Untrusted), place.shown.stream(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            start = target["offset"]
            # Another attempt has another log; a log that shrank was rewritten.
            if attempt != target["attempt"] or start > size:
                start = 0
            if target["whole"]:
                size = min(size, start + request["whole_bytes"])
            elif size - start > request["log_bytes"]:
                # A program may write more than one poll returns: keep the newest part.
                start = size - request["log_bytes"]
            # The length stays the same.
            data = redactor_of(place).read(stream, start, size - start)
            answer.say("log", words=f" {attempt or 0} {start} {size}")
            answer.out.write(data + b"\n")
            return


def _logs(place: _Place, attempt: int | None, name: str) -> list[str]:
    """The logs to try: the named one, or the rank to follow that the job names in `.live`, else the first rank."""
    own = [] if attempt is None else [f"logs/{attempt}"]
    if name:
        return [f"{folder}/{name}" for folder in (*own, "logs")]
    logs = []
    for folder in own:
        with contextlib.suppress(OSError), place.shown.folder(folder) as descriptor:
            if ".live" in os.listdir(descriptor):
                live = os.readlink(".live", dir_fd=descriptor)
                logs += [f"{folder}/{live}"] if "/" not in live else []
        logs.append(f"{folder}/rank-0000.log")
    return logs


def is_proven(place: _Place, checker: Any) -> bool:
    """Whether the artifact that the contract names exists and is valid, according to this release's checker."""
    contract = json_object(place.text("contract.json")) or {}
    checker.read = _bounded
    try:
        artifact = contract["artifact"]
        path = checker.evidence_of(place.run_dir, artifact)
        relative = os.path.relpath(path, place.run_dir)
        if relative.startswith("..") or os.path.isabs(artifact["path"]):
            return False
        with _opened(place, relative) as descriptor:
            # This name refers to the opened file, even if its path is replaced.
            report = checker.inspect(place.run_dir, artifact, f"/proc/self/fd/{descriptor}")
    except (OSError, Untrusted, LookupError, TypeError, ValueError, AttributeError, RecursionError, MemoryError):
        return False
    return report["valid"] is True


@contextlib.contextmanager
def _opened(place: _Place, relative: str) -> Any:
    """Open the artifact. A symbolic link to it is followed only in a run of the current user."""
    try:
        with place.shown.opened(relative) as descriptor:
            yield descriptor
            return
    except OSError:
        if place.believed.owner != os.geteuid():
            raise
    descriptor = os.open(os.path.join(place.run_dir, relative), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _bounded(path: str, keep: bool) -> tuple[bytes | None, None, int]:
    """Replaces the checker's `read`: computes no digest, which is not needed here, and limits the size."""
    size = os.stat(path).st_size
    if not keep:
        return None, None, size
    if size > MOST_BYTES:
        raise OSError(27, "is too large to be checked while waiting")
    with open(path, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    return content, None, len(content)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.modules.get("artifact.outcome"), sys.stdout.buffer)
