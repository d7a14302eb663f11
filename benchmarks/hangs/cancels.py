# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that somebody cancels: whatever the card says beside that is a false sentence, but for a hang before it.

The programs (cancel_train.py) need no torch: they print what one prints when it is ended so.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import PLAY_SECONDS, Site

HERE = Path(__file__).resolve().parent
#: What is no cause of a job that was cancelled: what its end brings about, what it tried again, what nobody saw.
FALSE = re.compile(
    r"memory|network|interface|connect|peer|disk|file system|\bport\b|\bnode failed|exclude|time limit|exception|crash|"
    r"worker|semaphore|requeued|rendezvous|firewall"
)
STOOD = "stood still"
#: Seconds until a hang is named, and until a job has begun.
PATIENCE = 240


@dataclass(frozen=True)
class Cancel:
    """`what` the program does (cancel_train.py); `how` it is cancelled; after how many `seconds` of it."""

    what: str
    how: str = "scancel"
    seconds: float = 8.0

    @property
    def hangs(self) -> bool:
        return self.what.startswith("hang")


RUNS = (
    Cancel("steps"), Cancel("steps", "playbook"), Cancel("steps", "root"), Cancel("steps", "kill"),
    Cancel("steps", "step"), Cancel("interrupt"), Cancel("says"), Cancel("ignores"), Cancel("retries"),
    Cancel("retries", "kill"), Cancel("torchrun"), Cancel("workers"), Cancel("shell"), Cancel("memory"),
    Cancel("memory", "kill"), Cancel("peer"), Cancel("semaphores", "playbook"), Cancel("loading"),
    Cancel("hang", seconds=100.0), Cancel("hang-first", "kill", 100.0),
)  # fmt: skip


def play(lab: LabCluster, numbers: Sequence[int], together: int) -> list[dict[str, Any]]:
    """Play runs; a row for each that was cancelled: what its card says."""
    with tempfile.TemporaryDirectory(prefix="rankzero-cancels-") as scratch, ThreadPoolExecutor(together) as pool:
        rows = list(pool.map(lambda number: _play(lab, number, Path(scratch)), numbers))
    return [row for row in rows if row]


def _play(lab: LabCluster, number: int, scratch: Path) -> dict[str, Any]:
    run = RUNS[number % len(RUNS)]
    folder = scratch / f"cancel-{number}"
    folder.mkdir()
    site = Site(lab, folder, f"cancel-{number}")
    try:
        shutil.copy(HERE / "cancel_train.py", folder / "code" / "train.py")
        job = site.job(
            ["sh", "-c", "python3 train.py steps; exit $?"]
            if run.what == "shell"
            else ["python3", "train.py", run.what],
            resources={"nodes": 2, "time": "00:20:00", "exclusive": True},
            launcher={"ranks_per_node": 1},
        )
        waiting = site.start(job, wait=True)
        lab.wait_until(
            lambda: any(path.joinpath("work", "going").exists() for path in site.runs()), PATIENCE, "it runs"
        )
        time.sleep(run.seconds)
        _cancel(site, run.how)
        card = waiting.finish(PLAY_SECONDS).output
        card = card[max(card.rfind("cause"), 0) :]
    except (Exception, pytest.fail.Exception):
        traceback.print_exc()
        return {}
    finally:
        site.close()
    # Which ends a signal may mean is no statement on this one.
    words = sorted(set(FALSE.findall(card.lower().replace("(cancelled, time limit or preemption)", ""))))
    right = not words and ("cancelled" in card or (run.hangs and STOOD in card))
    print(f"[cancels] {number} {run}: {'right' if right else f'FALSE {words}'}\n{card}", file=sys.stderr, flush=True)
    return {"kind": "cancel", "number": number, "what": run.what, "how": run.how, "right": right, "card": card}


def _cancel(site: Site, how: str) -> None:
    left = site.left()
    if how == "playbook":
        done = site.play(None, playbook="rankzero.slurm.cancel", job_id=left[0])
        if done.rc:
            raise RuntimeError(done.output[-2000:])
    elif how == "root":
        site.lab.head(["scancel", *left])
    else:
        # Without --batch or --full a signal goes to the steps alone.
        options = {"kill": ["--signal=KILL", "--full"], "step": ["--signal=TERM"]}.get(how, [])
        site.head(["scancel", *options, *left])
