# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs with nothing wrong, which evaluate and save: whatever the wait says of their ranks or steps is a false alarm.

As a user has them: an ordinary user with a uid of six digits, a playbook that waits, a sealed environment with torch.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site

HERE = Path(__file__).resolve().parent
PROJECT = (
    '[project]\nname = "calm"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = ["numpy", "torch>=2.2"]\n'
)
#: What a wait says of a job that stands still or is slow.
ALARM = re.compile(r"stands? still|no step (?:for|yet|after)|steps take|\brank \d+ on |no line in (?:its|any) log")
#: Bound of a run and of the build of its environment, in seconds.
PATIENCE = 1500


@dataclass(frozen=True)
class Calm:
    """Seconds of a step, of the first one, of an evaluation and of a checkpoint, and after how many steps these are.

    `every`: which steps are printed; `times`: none, stamps, stated; `by`: all ranks evaluate, or the first alone.
    """

    seconds: float
    every: int = 1
    evaluates: int = 100
    evaluation: float = 10.0
    saves: int = 50
    checkpoint: float = 3.0
    times: str = "none"
    by: str = "all"
    compiles: float = 0.0
    lasts: float = 150.0


RUNS = tuple(
    Calm(seconds, every, evaluates, evaluation, saves, checkpoint, times, by, compiles)
    for at, (seconds, every, evaluates, evaluation, saves, checkpoint) in enumerate(
        (
            (0.1, 1, 100, 10.0, 50, 2.0), (0.1, 10, 200, 20.0, 100, 5.0), (0.2, 1, 100, 15.0, 50, 3.0),
            (0.2, 10, 60, 8.0, 30, 2.0), (0.3, 1, 50, 20.0, 25, 4.0), (0.3, 10, 100, 30.0, 50, 6.0),
            (0.5, 1, 40, 10.0, 20, 5.0), (0.5, 5, 60, 40.0, 30, 8.0), (1.0, 1, 20, 15.0, 10, 4.0),
            (2.0, 1, 10, 10.0, 5, 3.0),
        )
    )
    for times, by, compiles in (
        (("none", "first", 20.0), ("stamps", "all", 0.0))
        if at % 2
        else (("none", "all", 0.0), ("stated", "first", 15.0))
    )
)  # fmt: skip
#: The same, silent for longer than a step may be away.
RUNS += tuple(
    Calm(seconds, 1, 200, evaluation, 350, checkpoint, times, by, lasts=300.0)
    for seconds, evaluation, checkpoint, times, by in (
        (0.2, 75.0, 2.0, "none", "all"), (0.2, 90.0, 2.0, "none", "first"), (0.3, 120.0, 2.0, "stated", "first"),
        (0.3, 150.0, 2.0, "stamps", "all"), (0.2, 2.0, 90.0, "none", "first"),
    )
)  # fmt: skip


def play(lab: LabCluster, numbers: Sequence[int], together: int, scratch: Path) -> list[dict[str, Any]]:
    """Play runs; a row for each that ended as it should: what the wait said of it."""
    # The first one builds the environment.
    rows = [_play(lab, numbers[0], scratch)]
    with ThreadPoolExecutor(together) as pool:
        rows += pool.map(lambda number: _play(lab, number, scratch), numbers[1:])
    return [row for row in rows if row]


def _play(lab: LabCluster, number: int, scratch: Path) -> dict[str, Any]:
    run = RUNS[number % len(RUNS)]
    folder = scratch / f"calm-{number}"
    folder.mkdir()
    site = Site(lab, folder, f"calm-{number}")
    began = time.monotonic()
    try:
        shutil.copy(HERE / "calm_train.py", folder / "code" / "train.py")
        project = folder / "project"
        project.mkdir()
        (project / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        job = site.job(
            ["train.py", json.dumps(asdict(run))],
            resources={"nodes": 2, "time": "00:20:00", "exclusive": True},
            launcher={"ranks_per_node": 2},
            environment={"project": str(project), "mode": "sealed", "torch": "cpu"},
            env={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"},
        )
        played = site.play(job, wait=True, timeout=PATIENCE)
        alarms = [line.strip() for line in played.output.splitlines() if ALARM.search(line)]
        if played.rc:
            raise RuntimeError(f"calm run {number} failed:\n{played.output[-3000:]}")
    except Exception:
        traceback.print_exc()
        return {}
    finally:
        site.close()
    row = {"kind": "calm", "number": number, "run": asdict(run), "alarms": alarms, "screen": played.output.splitlines()}
    print(f"[calm] {number} {time.monotonic() - began:.0f} s: {alarms or 'no alarm'}", file=sys.stderr, flush=True)
    return row
