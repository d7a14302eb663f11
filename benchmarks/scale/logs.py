# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files on shared storage that logs and samples of a run need, and what reading them costs."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import names
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import all_facts
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.monitor import read_samples
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME

PRINTING = "opens on shared storage a second of all collectors: all ranks print"
SILENT = "the same: all ranks are silent"
LOOKING = "without collectors, operations on shared storage a second: silent nodes"
TELLING = "the same: the conductor, for all of them"
#: Looks of a collector in a minute.
LOOKS = 60
COLLECTING = "each node's collector: CPU milliseconds for its logs and samples"
#: What each rank prints, and the samples of an hour.
LINES = "".join(f"step {step}/200 loss 2.5 tokens/s 19000\n" for step in range(200))
SAMPLES = "time,load1,mem_used_mb,cpu_percent,mem_total_mb\n" + "".join(
    f"2026-01-02T03:{minute:02d}:{second:02d}+0000,{second}.25,{90000 + 7 * second},{minute},512000\n"
    for minute in range(60)
    for second in range(0, 60, 15)
)


def measured(folder: Path, nodes: int, ranks: int, *, many: bool) -> dict[str, float]:
    """The figures of a run with so many ranks on each node. `many`: with collectors, else a file for each rank."""
    logs, monitor = folder / "logs" / "0", folder / "monitor" / "0"
    logs.mkdir(parents=True)
    monitor.mkdir(parents=True)
    rows: dict[str, float] = {}
    begun = time.process_time()
    if many:
        _collected(folder, nodes, ranks)
        rows[COLLECTING] = 1000 * (time.process_time() - begun) / nodes
    else:
        for rank in range(nodes * ranks):
            (logs / f"rank-{rank:04d}.log").write_text(_log(rank))
        for node in range(nodes):
            (monitor / f"node{node:05d}.host.csv").write_text(SAMPLES)
        rows[COLLECTING] = 0.0
    rows["files of logs and samples"] = sum(len(files) for _place, _folders, files in os.walk(folder))
    begun = time.process_time()
    there = names.log_names(Beneath(str(logs)).names)
    facts = all_facts(names.by_rank(str(logs / name) for name in there))
    assert len(facts) == nodes * ranks and all(rank.progress.step == 199 for rank in facts.values() if rank.progress)
    assert len(read_samples(Beneath(str(monitor)))) == nodes
    rows["CPU seconds to read both ends of all ranks' logs, and all samples"] = time.process_time() - begun
    return rows


def opens(folder: Path, nodes: int, ranks: int) -> dict[str, float]:
    """How often a second all nodes open files on shared storage, by the collector of one that looks for a minute of
    played time: while its ranks print, and while they are silent.
    """
    sys.path.insert(0, RUNTIME)
    from rank import collector

    shared, now, opened = folder / "shared", [0.0], [0]
    shared.mkdir()
    sys.addaudithook(
        lambda event, words: opened.__setitem__(
            0, opened[0] + (event in ("open", "os.listdir", "os.scandir") and str(words[0]).startswith(str(shared)))
        )
    )
    own = collector.Collector(str(folder / "spool"), str(shared), collector.PER_NODE, "node", ranks)
    own.share_storage(nodes)
    counts: list[float] = []
    with mock.patch.object(collector, "time", SimpleNamespace(monotonic=lambda: now[0])):
        for line in (LINES[: LINES.find("\n") + 1], ""):
            before = opened[0]
            for _look in range(LOOKS):
                for rank in range(ranks):
                    path = folder / "spool" / f"rank-{rank}.log"
                    path.parent.mkdir(exist_ok=True)
                    with path.open("a") as stream:
                        stream.write(line)
                now[0] += collector.EVERY
                own.scan()
            counts.append((opened[0] - before) * nodes / (LOOKS * collector.EVERY))
            # What is held until the next write is written before the silence.
            own.scan(final=True)
    for log in own.known.values():
        os.close(log.descriptor)
    return dict(zip((PRINTING, SILENT), counts, strict=True))


def looks(folder: Path, nodes: int) -> dict[str, float]:
    """How often a second the samplers of all nodes without collectors, and the conductor, open or ask for files on
    shared storage, by LOOKS looks of each while nobody asks anything.
    """
    sys.path.insert(0, RUNTIME)
    from core.state import Job
    from rank import asked, stacks, teller

    shared, count = str(folder / "looks"), [0]
    environ = {"RANKZERO_RUN_DIR": shared, "RANKZERO_ATTEMPT": "0", "RANKZERO_MASTER_ADDR": "127.0.0.1"}
    names = [f"node{number:05d}" for number in range(nodes)]
    conductor = Job({**environ, "RANKZERO_MONITOR_HOST": "15", "SLURMD_NODENAME": names[0]}, "", nodes=names)
    told = teller.begin(conductor)
    with ThreadPoolExecutor(nodes) as pool:
        made = [pool.submit(stacks.Request, {**conductor.env, "SLURMD_NODENAME": name}) for name in names]
        while not all(node.done() for node in made):
            told.tell_nodes(conductor)

    def counted(path: object, *_rest: object) -> None:
        count[0] += str(path).startswith(shared)

    sys.addaudithook(lambda event, words: counted(*words) if event == "open" else None)
    stat, rows = os.stat, {}
    with mock.patch.object(os, "stat", lambda path, **options: (counted(path), stat(path, **options))[1]):
        for row, each in ((LOOKING, [node.result().serve for node in made]), (TELLING, [told.asked.word])):
            before = count[0]
            for _look in range(LOOKS):
                for look in each:
                    look()
            rows[row] = (count[0] - before) / (LOOKS * asked.EVERY)
    teller.finish(conductor, told)
    return rows


def _log(rank: int) -> str:
    return f"[rankzero] RANK={rank} LOCAL_RANK=0 WORLD_SIZE=1\n{LINES}"


def _collected(folder: Path, nodes: int, ranks: int) -> None:
    """Let the collector of each node bring what its ranks and its sampler left on the node's disk."""
    sys.path.insert(0, RUNTIME)
    from rank import collector

    # The rank that is followed writes for itself.
    logs = folder / "logs" / "0"
    (logs / "rank-0000.log").write_text(_log(0))
    for node in range(nodes):
        name = f"node{node:05d}"
        printed: list[str] = []
        spool = folder.with_name(f"{folder.name}-{name}")
        (spool / "samples").mkdir(parents=True)
        for rank in range(node * ranks or 1, (node + 1) * ranks):
            (spool / f"rank-{rank}.log").write_text(_log(rank))
        (spool / "samples" / f"{name}.host.csv").write_text(SAMPLES)
        own = collector.Collector(str(spool), str(logs), collector.PER_NODE, name, ranks)
        own.print = printed.append
        own.scan()
        own.scan(final=True)
        own.bring_samples()
        for log in own.known.values():
            os.close(log.descriptor)
        with (folder / "monitor" / "0" / "nodes").open("a") as stream:
            stream.writelines(printed)
        for path in sorted(spool.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        spool.rmdir()
