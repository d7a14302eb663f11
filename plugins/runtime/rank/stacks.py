# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every rank of this node does: the state of its processes and their Python stacks. Used by rank/sampler.py.

Whoever wants to know writes a new id into RUN_DIR/stacks/ATTEMPT/request; each node then replaces its <node>.json
there. `ID SECONDS` has it look again and again for so long: one look does not show what a rank does most of the time. A
node also looks shortly before the time limit, and when the log that a wait follows has not grown for a while. The
conductor alone looks at these files on shared storage, and says what it saw to the collectors (collect_steps.py), or to
the nodes (asked.py). Only processes of this launch that have the file in memory of hook and handle its signal
get the signal: to any other process it would be the end. Command lines are not written: they may contain secrets.
Standard library only; any Python 3 that a node or an image may have.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import time

from core import children, files
from rank import memory, traces
from rank.asked import VARIABLE, Asked, Hearer, word_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

# As in hook/sitecustomize.py.
NUMBER = 43
# The number of the first process of a role, among those of all.
FIRST = "RANKZERO_FIRST_RANK="
PREFIX = "/memfd:rankzero-stacks-"
# At most so many processes of a rank, and so many bytes of the stacks of one.
PROCESSES, STACK_BYTES = 8, 48 * 1024
# Seconds until a process has written its stacks, and before the time limit.
ANSWER_SECONDS, BEFORE_LIMIT = 3.0, 25
PY_SPY_SECONDS = 10
# The longest time for which a node looks again and again, the most looks, and what is kept of the stacks of each, in
# bytes: the main thread's come last.
MOST_SECONDS, LOOKS, EARLIER_BYTES = 60, 40, 6 * 1024


class Request:
    """What a node is asked. `spool`: its folder, where its collector says so; "" where it has none."""

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float] = time.time, spool: str = "") -> None:
        asked = Asked(environ, clock)
        self.mine = {f"{name}={environ[name]}" for name in ("RANKZERO_RUN_DIR", "RANKZERO_ATTEMPT")}
        self.folder, self.clock = asked.folder, clock
        self.node = environ.get("SLURMD_NODENAME") or os.uname().nodename
        limit = environ.get("SLURM_JOB_END_TIME", "")
        self.limit = int(limit) - BEFORE_LIMIT if limit.isdigit() else None
        self.word: Callable[[], str] = (
            (lambda: word_in(os.path.join(spool, "asked"))) if spool else Hearer(environ.get(VARIABLE, ""), asked.word)
        )
        self.last = self.word()

    def serve(self) -> bool:
        """Answer a new request, and the time limit; whether there was anything to answer."""
        word, now = self.word(), self.clock()
        due = self.limit is not None and now >= self.limit
        if word == self.last and not due:
            return False
        asked = word.partition(" ")[2]
        seconds = asked.partition(" ")[2] if asked != self.last.partition(" ")[2] else ""
        self.last = word
        self.limit = None if due else self.limit
        earlier = earlier_looks(self.mine, min(int(seconds), MOST_SECONDS)) if seconds.isdigit() else []
        document = {
            "request": asked, "time": self.clock(), "node": self.node, "limit": due,
            "addresses": traces.own_addresses(), **sample_node(self.mine), "earlier": earlier,
        }  # fmt: skip
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, self.node + ".json")
        with open(path + ".new", "w", encoding="utf-8") as stream:
            json.dump(document, stream)
        os.replace(path + ".new", path)
        return True


def sample_node(mine: set[str], *, traced: bool = True) -> dict[str, Any]:
    """What the processes of a launch on this node do now, and what its swap and its network do meanwhile."""
    waiting = traces.connections()
    began, before = time.monotonic(), swapped_in()
    processes = sample_processes(mine, traced=traced)
    pages = (swapped_in() - before) / max(0.1, time.monotonic() - began)
    return {"processes": processes, "swapped_in": round(pages, 1), "network": traces.stuck(waiting)}


def earlier_looks(mine: set[str], seconds: int) -> list[dict[str, Any]]:
    """Looks for so many seconds, until no process is left. The pauses are uneven: even ones could always meet the same
    part of a step. The flight recorder is not asked: on a busy node it takes seconds.
    """
    looks: list[dict[str, Any]] = []
    until = time.monotonic() + seconds
    while len(looks) < LOOKS and time.monotonic() < until:
        looks.append(sample_node(mine, traced=False))
        for row in looks[-1]["processes"]:
            row["stack"] = row["stack"][-EARLIER_BYTES:]
        if not looks[-1]["processes"]:
            break
        time.sleep(random.random() * 2 * seconds / LOOKS)
    return looks


def swapped_in() -> int:
    """The pages of memory that the node has read back from its swap since boot."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as stream:
        return sum(int(line.split()[1]) for line in stream if line.startswith("pswpin "))
    return 0


def swapped(number: int) -> int:
    """How much of a process is swapped out, in KiB."""
    line = next((line for line in text_of(number, "status").splitlines() if line.startswith("VmSwap:")), "VmSwap: 0")
    return int(line.split()[1])


def text_of(number: int | str, name: str, most: int = 65536) -> str:
    """The text of a file of a process in /proc; empty where it cannot be read."""
    try:
        with open(f"/proc/{number}/{name}", "rb") as stream:
            return stream.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def switches(number: int) -> int:
    """How often the main thread of a process has been taken off its CPU. One that stands still never is."""
    lines = [line for line in text_of(number, "status").splitlines() if "voluntary_ctxt_switches:" in line]
    return sum(int(line.split()[1]) for line in lines)


def status(number: int) -> tuple[str, int, int] | None:
    """(state, parent, CPU time in ticks) of a process; None once it is gone."""
    fields = text_of(number, "stat").rpartition(")")[2].split()
    return (fields[0], int(fields[1]), int(fields[11]) + int(fields[12])) if len(fields) > 12 else None


def ranks(mine: set[str]) -> dict[int, int]:
    """Process -> rank, for all processes of a launch. `mine`: the variables that tell its processes from others.

    Only this user's processes: root can read those of others, who may write into their variables what they like.
    """
    by_process = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) == os.getpid() or not files.own_process(name):
            continue
        variables = text_of(name, "environ", 1 << 20).split("\0")
        if mine <= set(variables):
            rank = next((line[5:] for line in variables if line.startswith("RANK=")), "")
            first = next((line[len(FIRST) :] for line in variables if line.startswith(FIRST)), "0")
            if rank.isdigit() and first.isdigit():
                by_process[int(name)] = int(rank) + int(first)
    return by_process


def memory_file(number: int) -> int | None:
    """A descriptor of the file in memory that takes the stacks of a process; None where it has none of its own."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{number}/fd"):
            path = f"/proc/{number}/fd/{name}"
            target = os.readlink(path).partition(" ")[0] if os.path.islink(path) else ""
            # A fork shares the file of its parent.
            if target.startswith(PREFIX) and target.endswith(f"-{number}"):
                return memory.opened(path)
    return None


def handles(number: int) -> bool:
    """Whether a process handles the signal. To one that does not, the signal would be the end."""
    caught = next((line for line in text_of(number, "status").splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (NUMBER - 1) & 1)


def request_stacks(number: int) -> int | None:
    """Have a process write its stacks; a descriptor of the file that takes them, None where it cannot be asked."""
    descriptor = memory_file(number) if handles(number) else None
    if descriptor is None:
        return None
    try:
        os.ftruncate(descriptor, 0)
        os.kill(number, NUMBER)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def read(descriptor: int, deadline: float) -> str:
    """The stacks that a process writes: until they have not grown for a moment. Closes the descriptor."""
    size = -1
    while time.monotonic() < deadline:
        now = os.fstat(descriptor).st_size
        if now and now == size:
            break
        size = now
        time.sleep(0.05)
    with open(descriptor, "rb") as stream:
        return stream.read(STACK_BYTES).decode("utf-8", "replace")


def py_spy(number: int) -> str:
    """The stacks of a Python that cannot be asked, by py-spy, where the site has it and allows it."""
    program = shutil.which("py-spy")
    try:
        python = "python" in os.path.basename(os.readlink(f"/proc/{number}/exe"))
        if not program or not python:
            return ""
        words = [program, "dump", "--nonblocking", "--pid", str(number)]
        dump = children.run(words, os.environ, PY_SPY_SECONDS)
    except OSError:
        return ""
    text = dump.out[:STACK_BYTES].decode("utf-8", "replace")
    # Its first lines are the command line and the version.
    place = text.find("\nThread ")
    return text[place + 1 :] if dump.returncode == 0 and place >= 0 else ""


def sample_processes(mine: set[str], *, traced: bool = True) -> list[dict[str, Any]]:
    """All processes of a launch on this node, as JSON: rank, state, what it waits for in the kernel, CPU time, stacks.

    `cpu`: the part of one CPU that the process used while it was looked at; `switches`: before it was and after.
    `traced`: whether torch's flight recorder is asked as well.
    """
    rank_of, chosen = ranks(mine), []
    counted: dict[int, int] = {}
    # A parent before its children.
    for number in sorted(rank_of):
        state = status(number)
        if state is not None and counted.setdefault(rank_of[number], 0) < PROCESSES:
            counted[rank_of[number]] += 1
            chosen.append((number, state))
    began, unseen = time.monotonic(), {number: switches(number) for number, _state in chosen}
    asked, asleep = {}, {}
    for number, state in chosen:
        # Of the moment of its stacks: a rank that is only slow does something else a moment later.
        asleep[number] = ((status(number) or state)[0], text_of(number, "wchan", 100))
        # A stopped process would write its stacks once it goes on, when nobody reads them.
        if state[0] not in "TtZX":
            asked[number] = request_stacks(number)
    dumps = {number: traces.request_dump(number) for number in (asked if traced else ())}
    texts = {number: read(file, began + ANSWER_SECONDS) for number, file in asked.items() if file is not None}
    until = began + traces.ANSWER_SECONDS
    recorded = {number: traces.read(file, until) for number, file in dumps.items() if file is not None}
    time.sleep(max(0.0, began + 0.5 - time.monotonic()))
    rows, ticks = [], os.sysconf("SC_CLK_TCK") * (time.monotonic() - began)
    for number, before in chosen:
        now = status(number) or ("X", *before[1:])
        stack = texts.get(number, "")
        if not stack and now[0] not in "TtZX":
            stack = py_spy(number)
        there = stack and now[0] not in "ZX"
        letter, waits = asleep[number] if there else (now[0], text_of(number, "wchan", 100))
        rows.append(
            {
                "rank": rank_of[number], "pid": number, "parent": now[1], "state": letter,
                "waits_in": "" if waits == "0" else waits, "cpu": round((now[2] - before[2]) / ticks, 2),
                "swap_kb": swapped(number), "stack": stack, "trace": recorded.get(number, {}),
                "switches": [unseen[number], switches(number)],
            }
        )  # fmt: skip
    return rows
