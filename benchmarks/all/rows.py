# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `benchmarks/run all` measures: commands and playbooks as people type them, on stand-ins for Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.all.taken import NOW, Beside, Row
from benchmarks.budget.__main__ import TYPED, WAYS, Ground
from benchmarks.history.__main__ import make_history
from benchmarks.releases import collections_of
from tests.writers import Run

__all__ = ["QUICK", "WHOLE", "Beside", "Sizes", "grounds_of", "rows_of"]


@dataclass(frozen=True)
class Sizes:
    """Job files of a reconciliation, elements of a sweep, ended launches, steps in a log, bytes that are fetched."""

    specs: int
    elements: int
    launches: int
    steps: int
    fetched: int


WHOLE, QUICK = Sizes(200, 1000, 10_000, 10_000_000, 64 << 20), Sizes(2, 3, 20, 2_000, 1 << 20)
EMPTY, TYPED_LAUNCH, EDITED = "empty play", "rankzero run -d", "rankzero run -d, code edited"
# Packs the first bytes of a log as a fetch does: with the launch's redactor, or as they are.
FETCH = """
import os, sys
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import PLAIN, write_archive
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import Redactor
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Part
folder, size, how, target = sys.argv[1:]
part = Part("rank-0000.log", 0, int(size), int(size), True)
write_archive(Beneath(folder), [part], target, Redactor() if how == "redacted" else PLAIN)
os.unlink(target)
"""


def grounds_of(folder: Path, ref: str, sizes: Sizes) -> Mapping[str, Ground]:
    """A ground for this collection and one for that of a commit, warmed up; two logs for both."""
    grounds = {
        NOW: Ground(folder / NOW, os.environ["ANSIBLE_COLLECTIONS_PATH"]),
        ref: Ground(folder / "then", collections_of(ref, folder / "collections")),
    }
    for name, steps in (("short", 10), ("long", sizes.steps)):
        _trained(folder / "logs", name, steps, sizes.fetched if name == "long" else 0)
    for ground in grounds.values():
        # One for each: a version may not read the index that another one has written.
        make_history(ground.folder / "history", sizes.launches)
        ground.warm_up()
    return grounds


def _trained(root: Path, name: str, steps: int, least: int) -> None:
    """A launch of so many steps that has ended, a thousand a second. `least`: bytes of its log."""
    begun = 1_764_000_000
    run = Run.below(root, name)
    run.journal({"event": "intent", "time": begun - 9}, {"event": "submitted", "time": begun - 8, "job_id": run.job_id})
    run.launch({"name": name}).claimed().started(at=begun, ranks=1, nodes=("node01",))
    log = run.path / "logs" / "0" / "rank-0000.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as stream:
        step = 0
        while step < steps or stream.tell() < least:
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(begun + 5 + step // 1000))
            last = min(steps, step + 1000) if step < steps else step + 1000
            stream.writelines(
                f"{stamp},{each % 1000:03d} step {each}/{steps} loss {1 + 1 / (each + 1):.6f} "
                f"tokens/s {19000 + each % 500}\n"
                for each in range(step, last)
            )
            step += 1000
    run.ended(0, began=begun, at=begun + 6 + step // 1000)


def rows_of(sizes: Sizes) -> list[Row]:
    """All rows; each after its floor."""
    rows = [Row(EMPTY, "", lambda ground, number: ground.measure(EMPTY, number, 0))]
    named = [*(way for way in WAYS if way != EMPTY), *TYPED]
    named += [f"reconcile, {sizes.specs} new specs", f"reconcile, {sizes.specs} specs again"]
    rows += [Row(way, TYPED_LAUNCH if way == EDITED else EMPTY, _way(way, sizes.specs)) for way in named]
    rows.append(Row("sweep of one", EMPTY, _sweep(1)))
    rows.append(Row(f"sweep of {sizes.elements:,}", "sweep of one", _sweep(sizes.elements)))
    for what, playbook, more in (
        ("status", "status", {}), ("status, active", "status", {"active": True}),
        ("prune --check", "prune", {"older_than": 30}),
    ):  # fmt: skip
        rows.append(Row(f"{what}, {sizes.launches:,} ended launches", EMPTY, _of_history(playbook, more)))
    rows.append(Row("report of 10 steps", EMPTY, _report("short")))
    rows.append(Row(f"report of {sizes.steps:,} steps", "report of 10 steps", _report("long")))
    megabytes = sizes.fetched >> 20
    rows.append(Row(f"fetch of {megabytes} MB, packing alone", "", _fetch("plain", sizes.fetched)))
    rows.append(Row("the same, redacted", rows[-1].name, _fetch("redacted", sizes.fetched)))
    return rows


def _way(way: str, specs: int) -> Callable[[Ground, int], object]:
    return lambda ground, number: ground.measure(way, number, specs)


def _sweep(elements: int) -> Callable[[Ground, int], object]:
    def run(ground: Ground, number: int) -> object:
        name = f"sweep-{elements}-{number}"
        job = {
            "name": name, "command": ["true", "{number}"], "code": {"src": "code"},
            "resources": {"time": "00:05:00", "cpus_per_rank": 1},
            "sweep": {"parameters": {"number": [str(each) for each in range(elements)]}},
        }  # fmt: skip
        (ground.project / "sweep.json").write_text(json.dumps(job), encoding="utf-8")
        return ground.play("rankzero.slurm.sweep", job="sweep.json", launch_wait=False)

    return run


def _of_history(playbook: str, more: Mapping[str, object]) -> Callable[[Ground, int], object]:
    def run(ground: Ground, _number: int) -> object:
        roots = {"state_root": str(ground.folder / "history")}
        options = ["--check"] if playbook == "prune" else []
        return ground.play(f"rankzero.slurm.{playbook}", *options, launch_cluster=roots, **more)

    return run


def _report(name: str) -> Callable[[Ground, int], object]:
    def run(ground: Ground, _number: int) -> object:
        roots = {"state_root": str(ground.folder.parent / "logs")}
        return ground.play("rankzero.slurm.report", launch_cluster=roots, launches=name, dest="report.html")

    return run


def _fetch(how: str, size: int) -> Callable[[Ground, int], object]:
    def run(ground: Ground, _number: int) -> object:
        (folder,) = (ground.folder.parent / "logs" / "runs" / "long").glob("*/1/logs/0")
        argv = [sys.executable, "-c", FETCH, str(folder), str(size), how, str(ground.folder / "fetched.tar.gz")]
        environment = {**ground.environment, "PYTHONPATH": ground.environment["ANSIBLE_COLLECTIONS_PATH"]}
        return subprocess.run(argv, env=environment, check=True)

    return run
