# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks of one node leave on the node's own disk is brought together here, one process a node.

    collector.py    runs beside the ranks of an attempt, until the conductor closes its standard input; what comes
                    from there before is for the node's sampler (collect_steps.py, stacks.py)

The ranks wait for the folder RANKZERO_SPOOL/<node> and write there: their logs (`rank-<n>.log`, rank.sh) and the
samples (`samples/`, sampler.py). This process appends the logs to one file a node on shared storage, each line marked
with its rank as srun --label does it, and all nodes together open theirs at most WRITES times a second. The samples go
through srun's own channel: they are printed, and srun writes what all nodes print to one file. A node that dies loses
only what it has not brought yet. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import re
import sys
import time

sys.dont_write_bytecode = True
RUNTIME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, RUNTIME)

from core import compiled  # noqa: E402

compiled.use(RUNTIME)

from core import log_names  # noqa: E402
from core.clearing import remove_tree  # noqa: E402
from node import disk, job_end  # noqa: E402

# The value of logs.per with which the logs are brought while they grow.
PER_NODE = "node"
# Seconds between two looks; how often a second all nodes together write to shared storage; until a line without an end
# is written as it is, as a progress bar may never end.
EVERY, WRITES, HELD = 1.0, 200, 20.0
# The longest line; the most that is read of a log at a time.
LONGEST, BLOCK = 64 << 10, 1 << 20
# How long the node's other ranks may take to begin their logs, before the node's file gets its name.
GATHER = 3.0
# Of logs that are brought at the end only (logs.per: first): the beginning, and the end.
HEAD, TAIL = 16 << 10, 1 << 20
# The most samples of a kind that are brought, evenly spread over the attempt: two hours of one every 15 s.
MOST_SAMPLES = 480
# The most logs in a folder, as in rank.sh.
FOLDER = 1000
# Room for the logs that are not brought yet.
ROOM_BYTES, ROOM_FILES = 64 << 20, 1000
_LOG = re.compile(r"rank-(\d+)\.log")
_KINDS = {"host.csv": "host", "gpu.csv": "gpu", "pcie.txt": "pcie"}
_PUNCH = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


def give_back(descriptor: int, start: int, count: int) -> None:
    """Give the blocks of a part of a file back to the disk, where the file system can do that."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        size = ctypes.c_longlong
        ctypes.CDLL(None).fallocate(descriptor, _PUNCH, size(start), size(count))


def marked(rank: int, data: bytes) -> bytes:
    """Whole lines, each with the rank before it. What ends without a newline gets one."""
    if not data:
        return b""
    mark = b"%d: " % rank
    body = data[:-1] if data.endswith(b"\n") else data
    return mark + body.replace(b"\n", b"\n" + mark) + b"\n"


class RankLog:
    """The log of one rank on this disk, and how much of it has been brought."""

    def __init__(self, rank: int, path: str) -> None:
        self.rank = rank
        self.descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.seen = time.monotonic()
        self.brought = self.size = 0
        self.waits_since: float | None = None

    def new_lines(self, final: bool) -> bytes:
        """What can be brought now. A line without an end waits for it, but not for ever."""
        data = os.pread(self.descriptor, BLOCK, self.brought)
        end = data.rfind(b"\n") + 1
        now = time.monotonic()
        if end:
            self.waits_since = None
        elif data:
            self.waits_since = self.waits_since or now
            if final or len(data) >= LONGEST or now - self.waits_since >= HELD:
                end, self.waits_since = len(data), None
        if final and len(data) < BLOCK:
            end = len(data)
        return data[:end]

    def taken(self, count: int) -> None:
        give_back(self.descriptor, self.brought, count)
        self.brought += count

    def trim(self) -> None:
        """Keep no more on the disk than both ends."""
        size = os.fstat(self.descriptor).st_size
        if size > max(HEAD + 2 * TAIL, self.size + TAIL):
            give_back(self.descriptor, HEAD, size - TAIL - HEAD)
            self.size = size

    def ends(self) -> bytes:
        """Both ends, and between them how much is left out."""
        size = os.fstat(self.descriptor).st_size
        if size <= HEAD + TAIL:
            return os.pread(self.descriptor, size, 0)
        head, tail = os.pread(self.descriptor, HEAD, 0), os.pread(self.descriptor, TAIL, size - TAIL)
        head, tail = head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]
        left = b"[rankzero] %d bytes of this rank were left out here (logs.per: first)\n"
        return head + left % (size - len(head) - len(tail)) + tail


class Shared:
    """The end of a file on shared storage. It is opened where there is something to write, once a look: a file system
    that is shared may be away for a while, and come back.
    """

    def __init__(self, path: str) -> None:
        self.path, self.descriptor = path, -1
        self.new: list[tuple[RankLog, bytes]] = []

    def add(self, log: RankLog, data: bytes) -> None:
        if data:
            self.new.append((log, data))
        if sum(len(each) for _log, each in self.new) >= BLOCK:
            self.write()

    def write(self) -> None:
        """Append what was added, all ranks in one piece."""
        if self.new and self.descriptor < 0:
            self.descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        rest = memoryview(b"".join(marked(log.rank, data) for log, data in self.new))
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
        for log, data in self.new:
            log.taken(len(data))
        self.new = []

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class Collector:
    """`spool`: the folder on this node's disk. `logs`: that of the attempt on shared storage. `per`: as in logs.per."""

    def __init__(self, spool: str, logs: str, per: str | None, node: str, ranks: int) -> None:
        self.spool, self.logs, self.per, self.node, self.ranks = spool, logs, per, node, ranks
        self.every = self.due = 0.0
        self.known: dict[int, RankLog] = {}
        self.files: dict[int, str] = {}

    def share_storage(self, nodes: int) -> None:
        """So many nodes write to it."""
        self.every = nodes / WRITES

    def print(self, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        while data:
            data = data[os.write(1, data) :]

    def scan(self, final: bool = False) -> None:
        """Bring what is new. `final`: all of it; nothing comes after."""
        names = os.listdir(self.spool)
        for name in names:
            match = _LOG.fullmatch(name)
            if match and int(match[1]) not in self.known:
                with contextlib.suppress(OSError):
                    self.known[int(match[1])] = RankLog(int(match[1]), os.path.join(self.spool, name))
        if self.per == PER_NODE or final:
            if final or time.monotonic() >= self.due:
                self.due = time.monotonic() + self.every
                self.bring(final)
        else:
            for log in self.known.values():
                log.trim()
        if "wanted" in names and not final:
            os.unlink(os.path.join(self.spool, "wanted"))
            self.bring_samples()

    def bring(self, final: bool) -> None:
        """Append to the node's file on shared storage."""
        self.name_files(final)
        for path in sorted(set(self.files.values())):
            logs = [log for rank, log in sorted(self.known.items()) if self.files.get(rank) == path]
            with contextlib.closing(Shared(path)) as shared:
                while logs:
                    more = []
                    for log in logs:
                        data = log.new_lines(final) if self.per == PER_NODE else log.ends()
                        shared.add(log, data)
                        if self.per == PER_NODE and data and (final or len(data) > BLOCK // 2):
                            more.append(log)
                    shared.write()
                    logs = more

    def name_files(self, final: bool) -> None:
        """A file of this node is named after the ranks in it; one that begins late gets a file of its own."""
        fresh = {rank: log for rank, log in self.known.items() if rank not in self.files}
        waited = any(time.monotonic() - log.seen >= GATHER for log in fresh.values())
        if fresh and (final or waited or len(fresh) >= self.ranks):
            path = os.path.join(self.logs, log_names.of_node(self.node, fresh))
            self.files.update(dict.fromkeys(fresh, path))

    def pass_on(self, word: bytes) -> None:
        """Leave what the conductor says where the node's sampler looks (stacks.py)."""
        path = os.path.join(self.spool, "asked")
        with open(path + ".new", "wb") as stream:
            stream.write(word.splitlines()[-1])
        os.replace(path + ".new", path)

    def bring_samples(self) -> None:
        for path in sorted(glob.glob(os.path.join(glob.escape(self.spool), "samples", "*"))):
            kind = next((kind for end, kind in _KINDS.items() if path.endswith(f".{end}")), None)
            if kind:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    self.print(log_names.text_lines(kind, self.node, thinned(stream.read(log_names.MOST_BYTES))))


def thinned(text: str) -> str:
    """At most MOST_SAMPLES moments of a series of samples, the last one among them. What is no sample stays: it is a
    complaint.
    """
    moments, groups = set(), []
    for line in text.splitlines(keepends=True):
        if line[:4].isdigit():
            # To the second: the GPUs of a node are asked one after the other.
            moments.add(line[:19])
        groups.append((len(moments), line))
    step = -(-len(moments) // MOST_SAMPLES)
    return "".join(
        line for number, line in groups if step < 2 or not line[:4].isdigit() or (len(moments) - number) % step == 0
    )


def log_folder(logs: str, nodes: int, place: int) -> str:
    """Where the file of a node is, which is at this place among so many: no folder has more than FOLDER of them."""
    return logs if nodes <= FOLDER else os.path.join(logs, f"{place // FOLDER:03d}")


def made(places: list[str], memory: int, node: str) -> tuple[str, list[disk.Home]]:
    """(the folder of this node, what holds it): on a disk that has room, under a name that is the same everywhere. The
    folder has .new at its end until all is ready.
    """
    common = disk.Home(disk.COMMON)
    homes = [common]
    path = os.environ["RANKZERO_SPOOL"]
    try:
        place = disk.choose(places, ROOM_BYTES, ROOM_FILES, memory)
        if place != disk.COMMON:
            homes.append(disk.Home(place))
        real = os.path.join(homes[-1].path, os.path.basename(path))
        os.makedirs(os.path.join(real, f"{node}.new", "samples"), mode=0o700, exist_ok=True)
        if real != path and not os.path.exists(path):
            disk.link(real, path)
    except (OSError, disk.Trouble):
        for home in homes:
            home.leave()
        raise
    return os.path.join(path, node), homes


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("--local-dir", "--slurm-tmp"):
        parser.add_argument(option, default="")
    parser.add_argument("--memory", type=int, default=0)
    arguments, get = parser.parse_args(), os.environ.get
    end, node = job_end.End(), get("SLURMD_NODENAME") or os.uname().nodename
    homes: list[disk.Home] = []
    try:
        places = disk.candidates(arguments.local_dir, arguments.slurm_tmp)
        spool, homes = made(places, arguments.memory, node)
        ranks, nodes = int(get("RANKZERO_RANKS_PER_NODE") or 1), get("RANKZERO_NODELIST", "").count(",") + 1
        logs = log_folder(os.environ["RANKZERO_LOGS"], nodes, int(get("SLURM_NODEID") or 0))
        os.makedirs(logs, exist_ok=True)
        # Ranks that wait for it go on.
        os.rename(f"{spool}.new", spool)
        collector = Collector(spool, logs, get("RANKZERO_LOG_PER"), node, ranks)
        collector.share_storage(nodes)
        collector.print(f"[ready {node}]\n")
        while not end.reached(EVERY):
            with contextlib.suppress(OSError):
                if end.word:
                    collector.pass_on(end.word)
                    end.word = b""
                collector.scan()
        collector.scan(final=True)
        collector.bring_samples()
        collector.print(f"[done {node}]\n")
        with contextlib.suppress(OSError):
            remove_tree(spool)
    except (OSError, disk.Trouble) as error:
        # The ranks that find no folder write their own logs (rank.sh).
        with contextlib.suppress(OSError):
            place = os.path.join(os.environ["RANKZERO_RUN_DIR"], "monitor", os.environ["RANKZERO_ATTEMPT"])
            open(os.path.join(place, f"alone.{node}"), "x").close()
        os.write(1, f"[failed {node}] {' '.join(str(error).split())[:600]}\n".encode("utf-8", "replace"))
    finally:
        for home in homes:
            home.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
