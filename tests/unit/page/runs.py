# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run directories of launches with many steps, ranks and attempts, for the tests of the page."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.report.pages import ARGUMENTS, pages
from tests.unit.run.test_launches import KEY, NOW, entry, make_run, outcome, queue, started

BEGAN = NOW - 3600


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def write_attempt(run: Path, attempt: int, ranks: int, steps: range, began: float, seconds: float = 1.0) -> None:
    """Logs and samples of one attempt. The last rank is slower than the others."""
    folder = run / "logs" / str(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        slow = 1.4 if rank == ranks - 1 else 1 + 0.02 * math.sin(rank)
        lines = [
            f"[{stamp(began + index * seconds)}] iteration {step}/ 1000 | elapsed time per iteration (ms): "
            f"{1000 * seconds * slow * (1 + 0.1 * math.sin(7 * step)):.1f} | learning rate: "
            f"{3e-4 / (1 + step / 500):.3E} | lm loss: {2 + 6 * math.exp(-step / 200) + 0.05 * math.sin(step):.5f} | "
            f"grad norm: {1 + 1 / (1 + step):.3f}\n"
            for index, step in enumerate(steps, 1)
        ]
        (folder / f"rank-{rank:04d}.log").write_text("".join(lines))
    monitor = run / "monitor" / str(attempt)
    monitor.mkdir(parents=True)
    for node in range(max(1, ranks // 8)):
        rows = ["time,load1,mem_used_mb,cpu_percent,mem_total_mb\n"]
        gpus = ["timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu\n"]
        for second in range(0, int(len(steps) * seconds), 10):
            at = time.strftime("%Y-%m-%dT%H:%M:%S+0000", time.gmtime(began + second))
            rows.append(f"{at},1.5,{20000 + 10 * second},{40 + 20 * math.sin(node + second / 90):.0f},100000\n")
            when = time.strftime("%Y/%m/%d %H:%M:%S.000", time.localtime(began + second))
            gpus.append(f"{when}, 0, {350 + 50 * math.sin(second / 60):.2f} W, {90 - 5 * node} %, 61000 MiB, 64\n")
        (monitor / f"node{node + 1:02d}.host.csv").write_text("".join(rows))
        (monitor / f"node{node + 1:02d}.gpu.csv").write_text("".join(gpus))


def make_launch(
    root: Path, *, ranks: int = 16, steps: int = 300, key: str = KEY, name: str = "gpt", **more: Any
) -> Path:
    """A launch of two attempts: the first one was preempted, and its last steps were repeated."""
    nodes = [f"node{number + 1:02d}" for number in range(max(1, ranks // 8))]
    manifest = {
        "key": key * 4, "collection": "0.1.0", "runtime": "/store/runtime/ab12",
        "code": {"commit": "1234567890abcdef", "branch": "main", "dirty": True, "digest": "c" * 64},
        "refs": [{"kind": "environment", "key": "e" * 32, "path": "/store/environments/e"}],
        "spec": {"name": name, "command": ["train.py", "--steps", str(steps)], "resources": {"nodes": str(len(nodes))}},
        "variables": [{"name": "NCCL_DEBUG", "value": "WARN", "reason": "errors are reported", "set_by": "policy"}],
        **more.pop("manifest", {}),
    }  # fmt: skip
    half, middle = steps * 2 // 3, BEGAN + steps * 2 // 3 + 200
    run = make_run(
        root,
        {**entry("intent"), "time": BEGAN - 120},
        {**entry("submitted", job_id="7"), "time": BEGAN - 119},
        name=name,
        key=key,
        claim="1 lab 7\n",
        launched=lambda made: made.launch(manifest["spec"]).altered("launch.json", **manifest),
        begun=started(time=BEGAN, nodes=nodes, world_size=ranks),
        preempted=outcome(False, 0, "preempted", by="requeue", began=BEGAN, at=BEGAN + half + 40, exit_code=143),
        again=lambda run: run.numbered(1),
        started_json=started(1, time=middle, nodes=nodes, world_size=ranks),
        outcome_json=outcome(**{"attempt": 1, "began": middle, "at": middle + 260, **more}),
    )
    (run / "preflight" / "0").mkdir(parents=True)
    (run / "preflight" / "0" / "table").write_text(
        "node    gpus  network  disk\n" + "".join(f"{n}  8     ok       ok\n" for n in nodes)
    )
    # The first attempt checks its nodes, and copies the code to one of them meanwhile.
    stage = run / "preflight" / "0" / "stage"
    stage.mkdir()
    times = {"stage/plan": 8, "stage/code.node01.done": 12, "srun.errors": 5, "table": 15}
    for name, seconds in times.items():
        with open(run / "preflight" / "0" / name, "a", encoding="utf-8"):
            pass
        os.utime(run / "preflight" / "0" / name, (BEGAN + seconds, BEGAN + seconds))
    os.utime(run / "started.before-attempt-1.json", (BEGAN, BEGAN))
    write_attempt(run, 0, ranks, range(half), BEGAN + 30)
    write_attempt(run, 1, ranks, range(max(0, half - 50), steps), middle + 20)
    return run


def found(root: Path, *launches: str, **more: Any) -> dict[str, Any]:
    """What module report_page returns."""
    given = {name: option.get("default") for name, option in ARGUMENTS.items()}
    return pages(queue("COMPLETED").slurm(), {**given, "launches": list(launches), "state_root": str(root), **more})
