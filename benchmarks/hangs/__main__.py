# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provoke hangs and slow ranks on a lab, and compare the verdict with what was provoked: benchmarks/run hangs.

See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.hangs import calm, cancels
from benchmarks.hangs.cases import KINDS, LAUNCHES, Case
from benchmarks.hangs.conditions import CONDITIONS, Place
from benchmarks.hangs.environment import environment_of
from benchmarks.hangs.verdicts import BLAMES, LINK, judged, named_in
from benchmarks.launch import table
from tests.cluster.conftest import booted, lab_of
from tests.cluster.launching import Play, Site

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# Seconds: until a case begins (the first of a condition builds its environment), and until the wait has named a rank of
# it. A slow rank takes longer.
PATIENCE, NAMING, NAMING_SLOW = 1800.0, 150.0, 300.0
# The last lines of a wait that are kept where it was wrong.
SCREEN = 40
# So little that the ranks' data takes minutes, and enough for the node to answer Slurm.
RATE = "32kbit"


class Played:
    """One launch under a playbook that waits: plays its cases, and takes what the wait says of each."""

    def __init__(self, place: Place, condition: str, number: int, folder: Path) -> None:
        self.lab, self.launch, self.number, self.condition = place.lab, LAUNCHES[number], number, condition
        folder.mkdir()
        self.site = Site(self.lab, folder, f"hangs-{condition}-{number}")
        self.inside = f"{self.lab.shared_inside}/hangs-{condition}-{number}"
        self.shared = self.site.own(self.inside)
        self.parts = CONDITIONS[condition](place)
        self.rows: list[dict[str, Any]] = []

    def play(self) -> list[dict[str, Any]]:
        try:
            shutil.copy(HERE / "train.py", self.site.folder / "code" / "train.py")
            (self.shared / "launch.json").write_text(json.dumps(self.launch.document()), encoding="utf-8")
            if "container" in self.parts:
                self.parts["container"] = {**self.parts["container"], "mounts": [f"{self.inside}:{self.inside}"]}
            job = self.site.job(
                ["python3", "train.py", self.inside],
                resources={"nodes": self.launch.nodes, "time": "00:40:00", "exclusive": True},
                launcher={"ranks_per_node": 4 // self.launch.nodes},
                env={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"},
                **self.parts,
            )
            waiting = self.site.start(job, wait=True)
            for number, case in enumerate(self.launch.cases):
                self._case(waiting, number, case)
        except Exception:
            # The other launches go on; what is missing of this one is counted.
            traceback.print_exc()
        finally:
            self.site.close()
        return self.rows

    def _case(self, waiting: Play, number: int, case: Case) -> None:
        self._wait(waiting, f"slow.{number}" if case.kind == "slow" else f"begun.{number}")
        (run,) = self.site.runs()
        names = [str(name) for name in json.loads((run / "started.json").read_text(encoding="utf-8"))["nodes"]]
        node = self.launch.node_of(case.ranks[0], names)
        known = len(waiting.output.splitlines())
        began = time.monotonic()
        if case.kind == "link":
            self.lab.faults.slow(node, "eth0", RATE)
        elif case.kind == "gone":
            self.lab.faults.link_down(node, "eth0")
            self.lab.faults.power_off(node)
        if case.kind in ("link", "gone"):
            (self.shared / f"go.{number}").touch()
        told: list[str] = []
        limit = NAMING_SLOW if case.kind == "slow" else NAMING
        while not told and time.monotonic() - began < limit and waiting.process.poll() is None:
            time.sleep(0.5)
            lines = waiting.output.splitlines()[known:]
            told = [line.strip() for line in lines if BLAMES.search(line) or (case.kind == "link" and LINK in line)]
        seconds = round(time.monotonic() - began)
        if case.kind == "link":
            self.lab.faults.unslow(node, "eth0")
        (self.shared / f"release.{number}").touch()
        message = told[0] if told else ""
        row: dict[str, Any] = {
            "condition": self.condition, "how": self.launch.how, "kind": case.kind, "factor": case.factor,
            "ranks": case.ranks, "node": node, "named": sorted(named_in(message)), "message": message,
            "seconds": seconds, "launch": self.number, "load": round(os.getloadavg()[0], 1),
            **judged(case, node, message),
        }  # fmt: skip
        if not row["right"]:
            row["screen"] = waiting.output.splitlines()[-SCREEN:]
        self.rows.append(row)
        print(
            f"[hangs] {self.condition} {self.number}.{number} {self.launch.how} {case.kind} {case.ranks} {node}: "
            f"{'right' if row['right'] else 'WRONG'} (line {row['line']}, reason {row['reason']}) after {seconds} s, "
            f"load {row['load']}: {message}",
            file=sys.stderr, flush=True,
        )  # fmt: skip

    def _wait(self, waiting: Play, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (self.shared / name).exists():
            if time.monotonic() > deadline or waiting.process.poll() is not None:
                raise RuntimeError(
                    f"{self.condition}, launch {self.number}: {name} did not appear\n{waiting.output[-3000:]}"
                )
            time.sleep(0.2)


def tables(rows: list[dict[str, Any]], planned: int) -> str:
    """Right of all, and the seconds until then, by what was provoked and by condition; then each case."""
    conditions = [name for name in CONDITIONS if any(row["condition"] == name for row in rows)]

    def cell(chosen: list[dict[str, Any]]) -> str | None:
        good = [row["seconds"] for row in chosen if row["right"]]
        return f"{len(good)} of {len(chosen)}" + (f" ({max(good)} s)" if good else "") if chosen else None

    summary = [
        [about, *(cell([r for r in rows if r["kind"] == kind and r["condition"] == name]) for name in conditions)]
        for kind, (about, _function, _reason) in KINDS.items()
        if any(row["kind"] == kind for row in rows)
    ]
    summary.append(["all", *(cell([row for row in rows if row["condition"] == name]) for name in conditions)])
    head = table.markdown(["what was provoked", *conditions], summary)
    names = [
        "condition",
        "how",
        "kind",
        "factor",
        "ranks",
        "node",
        "right",
        "line",
        "reason",
        "seconds",
        "load",
        "message",
    ]
    body = table.markdown(names, [[row[name] for name in names] for row in rows])
    return f"{len(rows)} of {planned} cases were played.\n\n{head}\n\n{body}\n"


def main_of_calm(given: str, together: int) -> int:
    """Play calm runs, and count what the wait says of them."""
    numbers = _numbers(given)
    lab = lab_of("calm", nodes=2 * together, cpus=2, memory=6000, gpus=0, accounting="none", internet=False)
    with booted(lab) as there, tempfile.TemporaryDirectory(prefix="rankzero-calm-") as scratch:
        rows = calm.play(there, numbers, together, Path(scratch))
    alarms = [f"{row['number']}: {line}" for row in rows for line in row["alarms"]]
    text = "\n".join([f"{len(rows)} of {len(numbers)} calm runs were played, {len(alarms)} alarms.", *alarms]) + "\n"
    results.save("hangs-calm", text, {"date": datetime.date.today().isoformat(), "rows": rows})
    print(text)
    return 0


def main_of_cancels(given: str, together: int) -> int:
    """Play jobs that are cancelled, and count the cards that say more than that."""
    lab = lab_of("cancels", nodes=2 * together, cpus=2, memory=4000, gpus=0, accounting="slurmdbd", internet=False)
    numbers = _numbers(given)
    with booted(lab) as there:
        rows = cancels.play(there, numbers, together)
    false = [f"{row['number']} {row['what']} {row['how']}:\n{row['card']}" for row in rows if not row["right"]]
    text = "\n".join([f"{len(rows)} of {len(numbers)} jobs were cancelled, {len(false)} cards are false.", *false])
    results.save("hangs-cancels", text, {"date": datetime.date.today().isoformat(), "rows": rows})
    print(text)
    return 0


def _numbers(given: str) -> list[int]:
    first, _dash, last = given.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run hangs", description=__doc__)
    parser.add_argument("--environment", default="", help="a virtual environment with torch; made with uv by default")
    parser.add_argument("--conditions", default=",".join(CONDITIONS), help="where torch lies (all)")
    parser.add_argument("--launches", default="", help="the launches to play: 3, or venv:3 for one condition (all)")
    parser.add_argument("--calm", default="", help="only calm runs: their numbers, from 0, such as 0-19")
    parser.add_argument("--cancels", default="", help="only cancelled jobs: their numbers, from 0, such as 0-19")
    parser.add_argument("--together", type=int, default=3, help="launches at a time (3)")
    options = parser.parse_args()
    if options.calm:
        return main_of_calm(options.calm, options.together)
    if options.cancels:
        return main_of_cancels(options.cancels, options.together)
    environment = environment_of(options.environment, ROOT / ".cache" / "benchmarks" / "hangs")
    words = options.launches.split(",") if options.launches else list(map(str, range(len(LAUNCHES))))
    chosen = [
        (name, int(word.rpartition(":")[2]))
        for word in words
        for name in ([word.partition(":")[0]] if ":" in word else options.conditions.split(","))
    ]
    nodes = sorted((LAUNCHES[number].nodes for _name, number in chosen), reverse=True)
    began = time.monotonic()
    lab = lab_of(
        "hangs", nodes=sum(nodes[: options.together]), cpus=4, memory=8000,
        gpus=0, accounting="none", internet=False, binds=[str(environment)],
    )  # fmt: skip
    with booted(lab) as there, tempfile.TemporaryDirectory(prefix="rankzero-hangs-") as scratch:
        place = Place(there, environment, Path(scratch))
        # One after the other: what a condition is made of is made once.
        played = [Played(place, name, number, Path(scratch) / f"{name}-{number}") for name, number in chosen]
        with ThreadPoolExecutor(options.together) as pool:
            rows = [row for part in pool.map(Played.play, played) for row in part]
    planned = sum(len(LAUNCHES[number].cases) for _name, number in chosen)
    text = tables(rows, planned) + f"\n{time.monotonic() - began:.0f} s, load at the end {os.getloadavg()[0]:.1f}.\n"
    results.save("hangs", text, {"date": datetime.date.today().isoformat(), "rows": rows})
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
