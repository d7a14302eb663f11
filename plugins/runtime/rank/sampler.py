# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples a node until its ranks have ended. Started by rank.sh, beside the first of them.

    sampler.py PID     appends to <node>.host.csv, .gpu.csv and .pcie.txt in RUN_DIR/monitor/ATTEMPT, or on the
                       node's own disk (collector.py), and answers requests for the stacks (stacks.py)

A rank may end long before another one of its node, which then is the one to look at. A sampler that outlived them all
would keep the allocation, and its bill. Standard library only; any Python 3 that a
node or an image may have.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
RUNTIME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, RUNTIME)

from core import compiled  # noqa: E402

compiled.use(RUNTIME)

from artifact.guard import state_of  # noqa: E402
from core import children  # noqa: E402
from rank import asked, stacks  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOST_COLUMNS = "time,load1,mem_used_mb,cpu_percent,mem_total_mb"
GPU_COLUMNS = "timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu"
# One sample of the throughput of PCIe, which --query-gpu does not know: date, time, GPU, MB/s received and sent.
PCIE = ("dmon", "-s", "t", "-c", "1", "-o", "DT")
ASK_SECONDS = 10
# The other ranks of the node have started by then.
STARTED_SECONDS = 5.0


def cpu_time() -> tuple[int, int]:
    """(busy, total) CPU time of the node since boot, in clock ticks."""
    with open("/proc/stat", encoding="ascii") as stream:
        user, nice, system, idle, iowait, irq, softirq = (int(ticks) for ticks in stream.readline().split()[1:8])
    busy = user + nice + system + irq + softirq
    return busy, busy + idle + iowait


def memory() -> tuple[int, int]:
    """(total, available) memory of the node in MB."""
    with open("/proc/meminfo", encoding="ascii") as stream:
        sizes = dict(line.split()[:2] for line in stream)
    return int(sizes["MemTotal:"]) // 1024, int(sizes["MemAvailable:"]) // 1024


def own_spool(spool: str, node: str) -> str:
    """The folder of this node's collector, where it has made one; "" where it has not, or somebody else has."""
    path = os.path.join(spool, node)
    try:
        owners = {os.stat(each).st_uid for each in (os.path.dirname(spool), spool, path)} if spool else set()
    except OSError:
        return ""
    return path if owners == {os.getuid()} else ""


def awaited_spool(environ: Mapping[str, str], node: str, runs: Callable[[], bool]) -> str:
    """The same, once it is there: it is made while the ranks start. As long as `runs`, and a collector may come."""
    spool, place = environ.get("RANKZERO_SPOOL", ""), own_place(environ)
    until = time.monotonic() + int(environ.get("RANKZERO_SPOOL_SECONDS") or 0)
    while True:
        path = own_spool(spool, node)
        if path or not spool or time.monotonic() >= until or not runs():
            return path
        if any(os.path.exists(os.path.join(place, name)) for name in ("alone", f"alone.{node}")):
            return ""
        time.sleep(0.5)


def own_place(environ: Mapping[str, str]) -> str:
    """The folder of the samples on shared storage."""
    return os.path.join(environ["RANKZERO_RUN_DIR"], "monitor", environ["RANKZERO_ATTEMPT"])


def append(path: str, header: str, line: str = "") -> None:
    """Append a line to a file that begins with the names of its columns."""
    with open(path, "a", encoding="ascii") as stream:
        if not stream.tell():
            stream.write(header + "\n")
        stream.write(line)


def sample_host(path: str, before: tuple[int, int]) -> tuple[int, int]:
    """Append load, used memory, CPUs and memory in all; the CPU time now, for the next sample."""
    now = cpu_time()
    busy, total = now[0] - before[0], max(1, now[1] - before[1])
    all_of_it, available = memory()
    values = (time.strftime("%Y-%m-%dT%H:%M:%S%z"), f"{os.getloadavg()[0]:.2f}", all_of_it - available)
    append(path, HOST_COLUMNS, ",".join(str(value) for value in (*values, 100 * busy // total, all_of_it)) + "\n")
    return now


def append_answer(path: str, *words: str) -> int | None:
    """The exit code of nvidia-smi, whose answer is appended to a file; None if it does not end. It is started each
    time: one that runs on (--loop) could outlive this process.
    """
    try:
        asked = children.run(["nvidia-smi", *words], os.environ, ASK_SECONDS)
        with open(path, "ab") as stream:
            stream.write(asked.out + asked.err)
    except OSError:
        return None
    return asked.returncode


def sample_gpus(path: str) -> bool:
    """Append a line for each GPU; whether to ask again."""
    append(path, GPU_COLUMNS)
    return append_answer(path, "--query-gpu=" + GPU_COLUMNS, "--format=csv,noheader") is not None


def sample_pcie(path: str) -> bool:
    """Append the throughput of each GPU's PCIe link; whether to ask again: not every GPU and driver tells it."""
    return append_answer(path, *PCIE) == 0


def beside(rank: int, parent: int, mine: set[str]) -> dict[int, int]:
    """Process -> birth of the ranks that the parent of `rank` started; what a rank leaves behind has another one."""
    states = {number: state_of(number) for number in stacks.ranks(mine) if number != rank}
    return {number: state[1] for number, state in states.items() if state is not None and state[0] == parent}


def main() -> None:
    rank, environ = int(sys.argv[1]), os.environ
    every = {kind: int(environ.get("RANKZERO_MONITOR_" + kind.upper()) or 0) for kind in ("host", "gpu")}
    state = state_of(rank)
    if state is None:
        # The rank has ended already, perhaps with the collector that would bring the samples.
        return
    node = environ.get("SLURMD_NODENAME") or os.uname().nodename
    # Where the node has a collector, it brings the samples at the end.
    spool = awaited_spool(environ, node, lambda: (state_of(rank) or ("", ""))[1] == state[1])
    folder = os.path.join(spool, "samples") if spool else own_place(environ)
    series = os.path.join(folder, node)
    # The run directory may be gone: it is not made again.
    for path in (os.path.dirname(folder), folder):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
    if every["host"]:
        append(series + ".host.csv", HOST_COLUMNS)
    before, start = cpu_time(), time.monotonic()
    every["pcie"] = every["gpu"]
    due = {kind: start + 1 for kind in every if every[kind] and (kind == "host" or shutil.which("nvidia-smi"))}
    due["stacks"], every["stacks"], request = start + 1, asked.EVERY, stacks.Request(environ, spool=spool)
    sample = {"gpu": (sample_gpus, series + ".gpu.csv"), "pcie": (sample_pcie, series + ".pcie.txt")}
    alive, looked = {rank: state[1]}, False
    while due:
        time.sleep(1)
        now = time.monotonic()
        # A process with the same number that began at another moment is not the rank.
        alive = {number: birth for number, birth in alive.items() if (state_of(number) or ("", ""))[1] == birth}
        if not looked and (not alive or now - start >= STARTED_SECONDS):
            alive.update(beside(rank, state[0], request.mine))
            looked = True
        if not alive:
            return
        for kind in [kind for kind in due if now >= due[kind]]:
            due[kind] = now + every[kind]
            if kind == "stacks":
                with contextlib.suppress(OSError):
                    if request.serve() and spool:
                        append(os.path.join(spool, "wanted"), "samples")
            elif kind == "host":
                before = sample_host(series + ".host.csv", before)
            elif not sample[kind][0](sample[kind][1]):
                del due[kind]


if __name__ == "__main__":
    main()
