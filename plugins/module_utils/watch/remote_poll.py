# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer a poll (poll.py) on the host that stores the run directories and knows the queue.

No program from the cluster is executed: the artifact is checked by this release's checker
(runtime/artifact/outcome.py), whose source comes with the request.

A poll that may wait first asks four times a second whether a run directory has changed. That opens one folder and reads
no file.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import nobody_reads
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import json_object, of_run, text
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run import plain_verdict
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import Claim, RunDirectory, attempt_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import not_ready, roles_of
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.checker import loaded
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import (
    LogChunk,
    Poll,
    Request,
    Staging,
    Target,
    View,
)

FILES = ("claim", "started.json", "no-python", "outcome.json")
# How much (bytes) is read at once of a log that is read whole.
WHOLE_LOG_BYTES = 256 * 1024
# The largest artifact whose content is checked (bytes), and the CPU time limit of the check (JUDGE_SECONDS).
MOST_BYTES = 8 << 20
# The file with the reports of all nodes (runtime/node/reports.py), of which this many bytes are read.
TOGETHER, TOGETHER_BYTES = "_tasks.log", 32 << 20
_REPORTED = re.compile(rb"\[report (\S+) 1/\d+\] ")
JUDGE_SECONDS = 60
GATE_CHARACTERS = 200
# How often (seconds) a poll that waits asks whether anything has changed.
PAUSE = 0.25


def answer(request: Request) -> Poll:
    """Wait for a change where the request allows it, ask the queue if there was none, and read every run directory."""
    queue = Poll(whole=True)
    held = _await_change(request.targets, request.hold) if request.hold else 0.0
    # What has changed comes first: often it is the end of the job.
    if request.jobs and held >= request.hold:
        # Most polls ask nothing of Slurm, and are to cost the login node little.
        from ansible_collections.rankzero.slurm.plugins.module_utils.watch.queue import asked

        queue = asked(request.jobs, request.budget)
        if queue.asked and not queue.silent:
            queue = _with_alternatives(queue, request)
    checker = loaded(request.checker) if request.checker else None
    if checker is not None:
        _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (JUDGE_SECONDS, hard))
    views = tuple(_view(target, request, checker) for target in request.targets)
    return replace(queue, held=held, views=views, clock=time.time())


def _with_alternatives(queue: Poll, request: Request) -> Poll:
    """Return the answer of the queue, with the job that decides in place of one that waits or has gone, where a launch
    has several that none has claimed (resources.any_of).
    """
    others: dict[str, tuple[str, ...]] = {}
    for target in request.targets:
        known = queue.queue.get(target.job_id)
        if target.job_id in request.jobs and target.job_id.isdigit() and (known is None or known.pending):
            run = RunDirectory(target.run_dir)
            with contextlib.suppress(Untrusted):
                others[target.job_id] = run.other_jobs(run.own_events())
    jobs = [job_id for more in others.values() for job_id in more]
    if not jobs:
        return queue
    from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import deciding
    from ansible_collections.rankzero.slurm.plugins.module_utils.watch.queue import asked

    rows = {**queue.queue, **asked(jobs, 0).queue}
    for job_id, more in others.items():
        record = deciding([rows[each] for each in (job_id, *more) if each in rows])
        rows.update({} if record is None else {job_id: record})
    return replace(queue, queue=rows)


def _await_change(targets: Sequence[Target], seconds: float) -> float:
    """Wait until a target has another state than the last poll found, at most `seconds`. Returns how long it took.

    Less if nobody reads the output any more.
    """
    began = time.monotonic()
    while True:
        left = began + seconds - time.monotonic()
        changed = (state_of(target.run_dir, target.artifact) != target.state for target in targets)
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
        self.shown = Beneath(self.believed.root, inside=self.below)

    def text(self, name: str) -> str:
        return text(self.believed, os.path.join(self.below, name))


def _view(target: Target, request: Request, checker: types.ModuleType | None) -> View:
    # Before reading: what is written meanwhile is another state.
    state = state_of(target.run_dir, target.artifact)
    try:
        return replace(_read(_Place(target.run_dir), target, request, checker), state=state)
    except Untrusted as error:
        return View(exists=True, untrusted=error.message, state=state)


def _read(place: _Place, target: Target, request: Request, checker: types.ModuleType | None) -> View:
    try:
        with place.believed.folder(place.below) as folder:
            there = os.listdir(folder)
    except OSError:
        return View()
    # Open only the files that the listing names: a network file system caches that a name was missing.
    texts = {name: place.text(name) for name in FILES if name in there}
    started = attempt_of(json_object(texts.get("started.json", "")))
    waits = "preflight" in there and not (started or {}).get("launched")
    preflight = _newest_preflight(place) if waits else ""
    outcome = json_object(texts.get("outcome.json", "")) or plain_verdict.verdict(texts.get(plain_verdict.FILE, ""))
    return View(
        exists=True,
        local="claim" not in there and _on_own_disk(place.run_dir),
        claim=Claim.of(texts.get("claim", "")),
        started=started,
        outcome=attempt_of(outcome),  # type: ignore[arg-type]  # its fields are checked there
        log=_log(place, target, request),
        proven=bool(target.artifact) and checker is not None and is_proven(place, checker),
        preflight=_looked_at(place, preflight) if waits else None,
        staging=_staging(place, preflight) if waits else None,
        gate=_gate(place, started or {}, there),
    )


def _on_own_disk(path: str) -> bool:
    """Whether a path lies on a block device of this host: what nodes write there through a server is seen at once."""
    return os.major(os.stat(path).st_dev) != 0


def _newest_preflight(place: _Place) -> str:
    attempts = [name for name in place.shown.names("preflight") if name.isascii() and name.isdigit() and len(name) < 10]
    return f"preflight/{max(attempts, key=int)}" if attempts else ""


def _looked_at(place: _Place, folder: str) -> int:
    """The number of nodes that this preflight has results from."""
    if folder and TOGETHER in place.shown.names(folder):
        with contextlib.suppress(OSError, Untrusted), place.shown.stream(f"{folder}/{TOGETHER}") as stream:
            return len(set(_REPORTED.findall(stream.read(TOGETHER_BYTES))))
    return 0


def _gate(place: _Place, started: Mapping[str, object], there: Sequence[str]) -> str:
    """The roles that are not ready, and what a process of theirs answered last (runtime/rank/ready.py)."""
    words: list[str] = []
    for role in not_ready(roles_of(started)) if started.get("launched") else ():
        answer = ""
        if f".ready-{role.name}" in there:
            with contextlib.suppress(OSError, Untrusted):
                answer = " ".join(text(place.shown, f".ready-{role.name}").split())
        words.append(f"{role.name} ({answer[:GATE_CHARACTERS]})" if answer else role.name)
    return " and ".join(words)


def _staging(place: _Place, folder: str) -> Staging | None:
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
                return Staging(kind, done, nodes, size if isinstance(size, int) else 0)
    return None


def _log(place: _Place, target: Target, request: Request) -> LogChunk | None:
    numbers = [int(name) for name in place.shown.names("logs") if name.isascii() and name.isdigit() and len(name) < 10]
    attempt = max(numbers, default=None)
    for path in _logs(place, attempt, target.log):
        with contextlib.suppress(OSError, Untrusted), place.shown.stream(path) as stream:
            status = os.fstat(stream.fileno())
            size, age = status.st_size, max(0.0, time.time() - status.st_mtime)
            start = target.offset
            # Another attempt has another log; a log that shrank was rewritten.
            if attempt != target.attempt or start > size:
                start = 0
            if target.whole:
                size = min(size, start + max(request.log_bytes, WHOLE_LOG_BYTES))
            elif size - start > request.log_bytes:
                # A program may write more than one poll returns: keep the newest part.
                start = size - request.log_bytes
            data = redactor_of(place).read(stream, start, size - start)
            return LogChunk(attempt or 0, start, size, data.decode("utf-8", "replace"), age)
    return None


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


def is_proven(place: _Place, checker: types.ModuleType) -> bool:
    """Whether the artifact that the contract names exists and is valid, according to this release's checker."""
    contract = json_object(place.text("contract.json")) or {}
    checker.read = _bounded  # type: ignore[attr-defined]
    try:
        artifact = contract["artifact"]
        if "reader" in artifact:
            # A program that the cluster declares judges it, in the job.
            return False
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
def _opened(place: _Place, relative: str) -> Iterator[int]:
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
