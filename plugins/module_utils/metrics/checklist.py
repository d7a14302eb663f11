# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch checklist of a run, from the first and last bytes of its ranks' logs.

It answers whether all ranks started, over which network, whether they make steps and whether the model was saved; for a
running job also whether it stalls and which ranks are behind. Pure except for `read_ends`.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath, Opener, unlinked
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import (
    by_rank,
    log_names,
    node_of,
    of_ranks,
    ranks_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import (
    gaps,
    is_last,
    is_saved,
    parse_metrics,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import seconds_in, time_in

RANKS_NAMED = 8
# A rank identifies itself in its first lines; the last losses are in its last lines.
HEAD_BYTES, TAIL_BYTES = 65536, 262144
# Of a file that the ranks of a node share, so many bytes at most of each end are searched for the lines of each rank,
# in parts of so many bytes: one part is in memory, and of each rank what is wanted of it.
MOST_SHARED, PART_BYTES = 64 << 20, 1 << 20
# The steps that decide how long one takes.
STEPS = 64
# Of thousands of ranks, less of each log is read: so many bytes and steps of all ends together, and at least so many.
ALL_BYTES, LEAST_BYTES = 128 << 20, 16 << 10
ALL_STEPS, LEAST_STEPS = 32_000, 6
# After this many seconds without a step, the start has a problem: a download, a rendezvous, a compilation.
FIRST_STEP = 600
_BANNER = re.compile(r"^\[rankzero\] RANK=(\d{1,6}) LOCAL_RANK=\d{1,6} WORLD_SIZE=(\d{1,6}) ", re.MULTILINE)
_HOST = re.compile(r"^\[rankzero\] RANK=\d{1,6} .{0,400}\bhost=(\S{1,255})", re.MULTILINE)
# NCCL logs this once a rank at NCCL_DEBUG=INFO: "NCCL INFO NET/IB : Using [0]mlx5_0...", "NCCL INFO Using network IB".
_NETWORK = re.compile(r"NCCL INFO (?:NET/(\w{1,40}) ?: Using|Using network (\w{1,40}))")


@dataclass(frozen=True)
class RankLog:
    """The two ends of a rank's log as text, and when it was last written (epoch seconds)."""

    head: str
    tail: str
    modified: float


@dataclass(frozen=True)
class Answer:
    """One line of the checklist. `ok` is None where the answer is not known (yet)."""

    question: str
    answer: str
    ok: bool | None

    def as_dict(self) -> ModuleResult:
        """The answer as modules return it."""
        return {"question": self.question, "answer": self.answer, "ok": self.ok}


@dataclass(frozen=True)
class Progress:
    """The newest step of a rank. `seconds`: the median time between two steps, None if unknown; `at`: its epoch
    seconds; `average`: the seconds since the start, imports included, by its number: for an estimate.
    """

    step: int
    total: int | None
    seconds: float | None
    at: float
    average: float | None = None

    @property
    def last(self) -> bool:
        """Whether no other step is to come."""
        return is_last(self.step, self.total)


@dataclass(frozen=True)
class RankFacts:
    """What both ends of a rank's log tell. `modified`: when it was last written (epoch seconds).

    `banner`: the rank and the WORLD_SIZE that it reported; `host`: its node; `network`: the one that NCCL reported;
    `saved`: whether it reports a saved model; None if only that it begins to save it.
    """

    modified: float = 0.0
    banner: tuple[int, int] | None = None
    host: str | None = None
    network: str = ""
    progress: Progress | None = None
    saved: bool | None = False


@dataclass(frozen=True)
class Stall:
    """A stalled job. `age`, `median`: seconds; `behind`: the ranks behind; `nodes`: the nodes with idle GPUs.

    `median`, `step`: None where no time of a step is known, or no step; then `age` is that of the newest line.
    """

    age: float
    median: float | None
    step: int | None
    behind: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """For people: how long there was no step, which ranks are behind and which nodes' GPUs are idle."""
        since = "no step yet" if self.step is None else f"no step after step {self.step}"
        text = f"{since}, and no line in any log for {self.age:.0f} s"
        if self.median is not None:
            times = f"{self.age / self.median:.0f} times the median step of {self.median:.3g} s"
            text = f"no step for {self.age:.0f} s, {times}"
        if self.behind:
            text += f"; behind: rank{'s' if len(self.behind) > 1 else ''} {_few(self.behind)}"
        if self.nodes:
            text += f"; GPUs idle while the others' are busy: {', '.join(self.nodes[:RANKS_NAMED])}"
        return text

    def as_dict(self) -> ModuleResult:
        """The stall as modules return it, with `message`. Times are in seconds."""
        return {
            "age": round(self.age, 1), "median": self.median and round(self.median, 4), "step": self.step,
            "behind": list(self.behind), "nodes": list(self.nodes), "message": self.sentence,
        }  # fmt: skip


def _log(head: bytes, tail: bytes, modified: float) -> RankLog:
    return RankLog(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), modified)


def read_ends(path: str, most: int = TAIL_BYTES, opener: Opener = unlinked) -> RankLog:
    """The first and the last bytes of a log, at most `most` of each; empty where it cannot be read."""
    try:
        with opener(path) as stream:
            status = os.fstat(stream.fileno())
            head = stream.read(min(HEAD_BYTES, most))
            stream.seek(max(0, status.st_size - most))
            return _log(head, stream.read(most), status.st_mtime)
    except OSError:
        return _log(b"", b"", 0.0)


def _first_lines(stream: IO[bytes], size: int, length: int) -> Iterator[bytes]:
    """Whole lines from the beginning of a file, in parts of about `length` bytes."""
    position, rest = 0, b""
    while position < min(size, MOST_SHARED):
        stream.seek(position)
        part = stream.read(length)
        if not part:
            break
        position += len(part)
        lines, _newline, begun = (rest + part).rpartition(b"\n")
        yield lines
        # Of an endless line the beginning is kept, which names its rank.
        rest = begun[:PART_BYTES]
    yield rest


def _last_lines(stream: IO[bytes], size: int, length: int) -> Iterator[bytes]:
    """Whole lines from the end of a file, in parts of about `length` bytes, the last one first."""
    position, rest = size, b""
    while position > max(0, size - MOST_SHARED):
        begin = max(0, position - length)
        stream.seek(begin)
        part = stream.read(position - begin)
        # The first line of a part is whole only where the file begins.
        cut, newline, lines = part.partition(b"\n") if begin else (b"", b"\n", part)
        position = begin
        if newline:
            yield lines + rest
            rest = cut
        else:
            # Of an endless line the end is kept.
            rest = (cut + rest)[-PART_BYTES:]


def _of_each(parts: Iterable[bytes], ranks: Collection[int], least: int, most: int, *, last: bool) -> dict[int, bytes]:
    """The first (or `last`) lines of each rank, at most `most` bytes, from parts of a file.

    At least `least` bytes are read, and more while a rank has no line.
    """
    lines: dict[int, bytes] = {}
    read = 0
    for part in parts:
        for rank, text in of_ranks(part):
            before = lines.get(rank, b"")
            if len(before) < most:
                lines[rank] = (text + before)[-most:] if last else (before + text)[:most]
        read += len(part)
        if read >= least and lines.keys() >= set(ranks):
            break
    return lines


def ends_by_rank(
    paths: Mapping[int, str], most: int = TAIL_BYTES, opener: Opener = unlinked
) -> Iterator[tuple[int, RankLog]]:
    """(rank, the ends of its log). One file at a time is in memory; one that ranks share is read once."""
    files: dict[str, list[int]] = {}
    for rank, path in paths.items():
        files.setdefault(path, []).append(rank)
    for path, ranks in files.items():
        if node_of(path) is None:
            yield ranks[0], read_ends(path, most, opener)
        else:
            yield from _shared_ends(path, ranks, most, opener)


def _shared_ends(path: str, ranks: Sequence[int], most: int, opener: Opener) -> Iterator[tuple[int, RankLog]]:
    """The ends of each of these ranks in a file that they share. One that is silent has its last lines long before
    the end of the file.
    """
    heads: dict[int, bytes] = {}
    tails: dict[int, bytes] = {}
    modified, first, share = 0.0, min(HEAD_BYTES, most), len(ranks_of(path)) + 1
    with contextlib.suppress(OSError), opener(path) as stream:
        status = os.fstat(stream.fileno())
        length = min(PART_BYTES, share * first)
        heads = _of_each(_first_lines(stream, status.st_size, length), ranks, share * first, first, last=False)
        tails = _of_each(_last_lines(stream, status.st_size, length), ranks, share * most, most, last=True)
        modified = status.st_mtime
    for rank in ranks:
        yield rank, _log(heads.get(rank, b""), tails.get(rank, b""), modified)


def first_and_last(folder: Beneath) -> dict[int, RankLog]:
    """The logs of the first and the last rank, which print the steps. `folder`: the logs of an attempt."""
    logs = {rank: os.path.join(folder.path, name) for rank, name in by_rank(log_names(folder.names)).items()}
    ranks = list(logs)
    return dict(ends_by_rank({rank: logs[rank] for rank in (*ranks[:1], *ranks[-1:])}, opener=folder.at))


def facts_of(log: RankLog, begun: float | None = None, most_steps: int = STEPS) -> RankFacts:
    """What the ends of a log tell. `begun`: when the ranks started (epoch seconds), if that is known."""
    banner, host, network = _BANNER.search(log.head), _HOST.search(log.head), _NETWORK.search(log.head)
    return RankFacts(
        modified=log.modified,
        banner=(int(banner[1]), int(banner[2])) if banner else None,
        host=host[1] if host else None,
        network=(network[1] or network[2]) if network else "",
        progress=progress_of(log, begun, most_steps),
        saved=is_saved(log.tail, done=True) or (None if is_saved(log.tail) else False),
    )


def all_facts(paths: Mapping[int, str], begun: float | None = None, opener: Opener = unlinked) -> dict[int, RankFacts]:
    """What the logs of all ranks tell. One log at a time is in memory."""
    count = max(1, len(paths))
    most = min(TAIL_BYTES, max(LEAST_BYTES, ALL_BYTES // count))
    steps = min(STEPS, max(LEAST_STEPS, ALL_STEPS // count))
    return {rank: facts_of(log, begun, steps) for rank, log in ends_by_rank(paths, most, opener)}


def started(ranks: Iterable[RankFacts]) -> tuple[dict[int, int], list[int]]:
    """Rank -> the world size that it reports, and the ranks of that world that report nothing."""
    sizes = dict(rank.banner for rank in ranks if rank.banner)
    world = max(sizes.values(), default=0)
    return sizes, [rank for rank in range(world) if rank not in sizes]


def ranks_in_words(started: Mapping[int, int], silent: Sequence[int]) -> str:
    """How many ranks have started. `said`: the WORLD_SIZE that each rank reported; `silent`: ranks without a report."""
    worlds = sorted(set(started.values()))
    text = f"{len(started)} of {worlds[-1]} started with WORLD_SIZE {' and '.join(map(str, worlds))}"
    return text + (f"; nothing from rank {_few(silent)}" if silent else "")


def networks(ranks: Iterable[RankFacts]) -> list[str]:
    """The networks that NCCL reports: IB, Socket, or the name of a plugin."""
    return sorted({rank.network for rank in ranks if rank.network})


def network_in_words(chosen: Sequence[str]) -> str:
    """The transports that NCCL reported, with a warning about sockets."""
    return f"NCCL over {', '.join(chosen)}" + ("; Socket is the slow way" if "Socket" in chosen else "")


def progress_of(log: RankLog, begun: float | None, most: int = STEPS) -> Progress | None:
    """The newest step of a log, None without one.

    The time of a step comes from time stamps, else from the lines' own. Of a long log, the newest `most` steps count.
    """
    steps: list[tuple[int, int | None, float | None, float | None]] = []
    for line in from_the_end(log.tail):
        metrics = parse_metrics(line)
        if metrics is not None and metrics.step is not None:
            if steps and metrics.step > steps[-1][0]:
                break  # the program restarted after this line, or counts another epoch
            if steps and metrics.step == steps[-1][0]:
                steps.pop()
            steps.append((metrics.step, metrics.total, time_in(line), seconds_in(line)))
            if len(steps) > most:
                break
    if not steps:
        return None
    steps.reverse()
    step, total, at, _seconds = steps[-1]
    between = gaps((step, at) for step, _total, at, _seconds in steps)
    durations = [seconds for *_rest, seconds in steps if seconds]
    seconds = statistics.median(between) if between else statistics.median(durations) if durations else None
    since = log.modified - begun if begun is not None and len(steps) > 1 else 0.0
    return Progress(step, total, seconds, at or log.modified, since / step if since > 0 else None)


def from_the_end(text: str) -> Iterator[str]:
    """The lines of a text, the last one first. Carriage returns end a line as well."""
    end = len(text)
    while end >= 0:
        begin = text.rfind("\n", 0, end) + 1
        yield from reversed(text[begin:end].split("\r"))
        end = begin - 1


def answers(
    ranks: Mapping[int, RankFacts],
    *,
    world: int | None = None,
    begun: float | None = None,
    now: float | None = None,
    proven: bool | None = None,
) -> list[Answer]:
    """The checklist. Logs that do not belong to a single rank have negative numbers. Unknown answers are left out.

    `world`: the number of ranks that the job requested; `begun`, `now`: epoch seconds of a job that still runs;
    `proven`: whether its artifact is valid.
    """
    world_sizes, silent = started(ranks.values())
    rows = []
    if world_sizes:
        wanted = world or max(world_sizes.values())
        silent = [rank for rank in range(wanted) if rank not in world_sizes]
        rows.append(Answer("all ranks started", ranks_in_words(world_sizes, silent), not silent))
        sizes = set(world_sizes.values())
        rows.append(Answer("world size", " and ".join(map(str, sorted(sizes))), sizes == {wanted}))
    elif world:
        rows.append(Answer("all ranks started", f"none of {world} has reported yet", None))
    chosen = networks(ranks.values())
    if chosen:
        rows.append(Answer("network", network_in_words(chosen), "Socket" not in chosen))
    rows += _steps(ranks.values(), begun, now)
    saved = next((rank for rank, facts in sorted(ranks.items()) if facts.saved), None)
    if saved is not None:
        rows.append(Answer("model saved", f"{f'rank {saved}' if saved >= 0 else 'a log'} reports it", True))
    elif any(facts.saved is None for facts in ranks.values()):
        rows.append(Answer("model saved", "it has begun, no rank reports its end", None))
    elif proven is not None:
        rows.append(Answer("model saved", "no rank reports it", None if proven or now else False))
    return rows


def _steps(ranks: Iterable[RankFacts], begun: float | None, now: float | None) -> list[Answer]:
    steps = [facts.progress for facts in ranks if facts.progress]
    if not steps:
        if begun is None or now is None:
            return []
        late = False if now - begun > FIRST_STEP else None
        return [Answer("first step", f"none yet, {now - begun:.0f} s after the start", late)]
    newest = max(steps, key=lambda progress: (progress.step, progress.at))
    text = f"step {newest.step}" + (f" of {newest.total}" if newest.total else "")
    text += f", {newest.seconds:.3g} s a step" if newest.seconds else ""
    return [Answer("steps", text + (f", the last {now - newest.at:.0f} s ago" if now else ""), True)]


def _few(ranks: Sequence[int]) -> str:
    more = len(ranks) - RANKS_NAMED
    return ", ".join(map(str, ranks[:RANKS_NAMED])) + (f" and {more} more" if more > 0 else "")
