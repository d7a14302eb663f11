#!/usr/bin/env python3
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time the diagnosis of a job with one failed rank: 1 GB of logs in 256 files, and 1,024 small rank logs.

For comparison, the same run times the three grep passes that an engineer would make, and ripgrep with the same
patterns. All are run several times, in turn; the best result of each counts. Memory is sampled over all processes of
the diagnosis.

usage: speed.py [--folder DIR] [--megabytes 1024] [--repeat 3] [--processes 0]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence

BIG_FILES = 256
SMALL_FILES = 1024
SMALL = 64 << 10
PASSES = ("Traceback|Error", "NCCL WARN|Watchdog|timeout", "CANCELLED|Killed|oom|No space left")
ROOT_RANK = 5
GREP, RIPGREP = "grep -aE, three passes", "ripgrep -a, three passes"
WITH_GREP, WITH_RIPGREP = "diagnosis with grep", "diagnosis with ripgrep"
#: What is compared with what.
RATIOS = ((WITH_GREP, GREP), (WITH_RIPGREP, RIPGREP))
HERE = os.path.dirname(os.path.abspath(__file__))


def healthy(rank: int, size: int, seed: int) -> bytes:
    """Lines as a training run writes them, about `size` bytes."""
    dice = random.Random(seed)
    rows: list[str] = []
    length = step = 0
    while length < size:
        step += 1
        kind = dice.random()
        if kind < 0.6:
            row = (
                f" [2026-01-01 00:{step // 60 % 60:02d}:{step % 60:02d}] iteration {step:8d}/ 500000 |"
                f" consumed samples: {step * 512:12d} | elapsed time per iteration (ms): {dice.uniform(400, 500):.1f} |"
                f" learning rate: 1.5E-04 | global batch size:   512 | lm loss: {dice.uniform(2, 3):.6E} | grad norm:"
                f" {dice.random():.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
            )
        elif kind < 0.9:
            row = (
                f"n{rank // 8}:{1000 + rank}:{2000 + step % 99} [{rank % 8}] NCCL INFO Channel {step % 24:02d}/0 :"
                f" {rank} -> {rank + 1}"
            )
        else:
            row = (
                f"2026-01-01 00:00:{step % 60:02d},{step % 1000:03d} - trainer - INFO - bucket {step}: error feedback"
                " off, 0 errors"
            )
        rows.append(row)
        length += len(row) + 1
    return ("\n".join(rows) + "\n").encode()


def ending(rank: int, failed: int = ROOT_RANK) -> bytes:
    """The end of a rank's log: one rank has the cause, the others waited for it."""
    if rank == failed:
        full = "Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79.10 GiB of which 1.00 GiB is free."
        lines = (
            "Traceback (most recent call last):",
            '  File "/code/train.py", line 90, in main',
            "    loss.backward()",
            f"torch.OutOfMemoryError: CUDA out of memory. {full}",
        )
        return "".join(f"[rank{rank}]: {line}\n" for line in lines).encode()
    return (
        f"[rank{rank}]:[E101 00:10:00.1 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600003 milliseconds before timing "
        "out.\n"
    ).encode()


def write_logs(folder: str, megabytes: int) -> list[str]:
    size = (megabytes << 20) // BIG_FILES
    bodies = [healthy(seed, size, seed) for seed in range(4)]
    small = [healthy(seed, SMALL, 99 + seed) for seed in range(4)]
    paths = []
    for rank in range(BIG_FILES + SMALL_FILES):
        body = bodies[rank % 4] if rank < BIG_FILES else small[rank % 4]
        path = os.path.join(folder, f"rank{rank:05d}.log")
        with open(path, "wb") as stream:
            stream.write(body + ending(rank))
        paths.append(path)
    return paths


def passes(tool: Sequence[str], paths: Sequence[str]) -> None:
    for pattern in PASSES:
        for start in range(0, len(paths), 1000):
            subprocess.run(
                [*tool, pattern, "--", *paths[start : start + 1000]],
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
                check=False,
            )


def diagnose(paths: Sequence[str], processes: int, with_ripgrep: bool) -> str:
    """Diagnose in a separate process, as a module would, from its start to the cause."""
    path = os.environ["PATH"]
    if not with_ripgrep:
        folder = tempfile.mkdtemp(prefix="no-rg-")
        for name in ("grep", "zstd"):
            if shutil.which(name):
                os.symlink(str(shutil.which(name)), os.path.join(folder, name))
        path = folder
    code = (
        f"import sys; sys.path.insert(0, {HERE!r}); import predict; predict.as_collection()\n"
        "from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, scan\n"
        f"found = cause.find_cause(scan.scan(scan.find_logs(sys.argv[1]), {processes}).logs)\n"
        "print(found.family, found.root.file.rsplit('/', 1)[-1], found.root.rank)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, os.path.dirname(paths[0])],
            stdout=subprocess.PIPE,
            env={**os.environ, "PATH": path},
            check=True,
            text=True,
        )
        return done.stdout.strip()
    finally:
        if not with_ripgrep:
            shutil.rmtree(path)


def tree_memory(pid: int) -> int:
    """Memory in kilobytes of a process and its descendants; shared pages count once."""
    total = 0
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        try:
            with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as stream:
                waiting += map(int, stream.read().split())
            if process != pid:
                with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as stream:
                    total += next((int(line.split()[1]) for line in stream if line.startswith("Pss:")), 0)
        except OSError:
            continue
    return total


def measured(work: Callable[[], object], repeat: int, answers: list[object]) -> tuple[float, float, int]:
    """The best wall time and lowest CPU time in seconds, and the peak memory of the processes in kilobytes."""
    best = cpu = float("inf")
    most = 0
    for _ in range(repeat):
        over = threading.Event()
        seen = [0]

        def watch(over: threading.Event = over, seen: list[int] = seen) -> None:
            while not over.wait(0.05):
                seen[0] = max(seen[0], tree_memory(os.getpid()))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        before = os.times()
        begin = time.perf_counter()
        answers.append(work())
        best = min(best, time.perf_counter() - begin)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        cpu = min(cpu, used)
        over.set()
        watcher.join()
        most = max(most, seen[0])
    return best, cpu, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where to write the logs; by default a temporary folder")
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--processes", type=int, default=0, help="0: as many as there are processors, at most four")
    options = parser.parse_args()
    processes = options.processes or min(4, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="diagnosis-speed-", dir=options.folder) as folder:
        paths = write_logs(folder, options.megabytes)
        size = sum(map(os.path.getsize, paths)) / 1e9
        print(f"{size:.2f} GB in {len(paths)} files, {processes} processes, {os.cpu_count()} processors", flush=True)
        works: list[tuple[str, Callable[[], object]]] = [
            (GREP, lambda: passes(["grep", "-anE"], paths)),
            (WITH_GREP, lambda: diagnose(paths, processes, False)),
        ]
        if shutil.which("rg"):
            works.insert(1, (RIPGREP, lambda: passes(["rg", "-an", "--no-config"], paths)))
            works.append((WITH_RIPGREP, lambda: diagnose(paths, processes, True)))
        passes(["grep", "-anE"], paths)  # now the files are in memory for all tools
        best: dict[str, tuple[float, float, int]] = {}
        answers: dict[str, list[object]] = {name: [] for name, _work in works}
        for _round in range(options.repeat):
            # In turn, so that what else the machine does meets all of them.
            for name, work in works:
                found = measured(work, 1, answers[name])
                known = best.get(name, found)
                best[name] = (min(known[0], found[0]), min(known[1], found[1]), max(known[2], found[2]))
        for name, (seconds, cpu, memory) in best.items():
            note = f"  {answers[name][0]}" if answers[name][0] else ""
            rates = f"{seconds:7.2f} s {size / seconds:6.2f} GB/s {cpu:7.2f} s of CPU {memory / 1024:6.0f} MB"
            print(f"{name:<26}{rates}{note}", flush=True)
        for name, passes_of in RATIOS:
            if name in best:
                wall, cpu = (best[passes_of][at] / best[name][at] for at in (0, 1))
                print(f"{name}: {wall:.2f} times the rate of {passes_of}, {cpu:.2f} by CPU", flush=True)


if __name__ == "__main__":
    main()
