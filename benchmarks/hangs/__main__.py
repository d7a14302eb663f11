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
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.hangs import calm
from benchmarks.hangs.cases import KINDS, LAUNCHES, Case, Launch
from benchmarks.launch import table
from tests.cluster.conftest import LabCluster, booted, lab_of
from tests.cluster.launching import Site

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# Seconds: until a case begins, between its begin and the look, and between two looks at a rank that does not hang yet.
PATIENCE, SETTLING, AGAIN = 240.0, 4.0, 2.0
LOOKS = 4


class Played:
    """One launch: plays its cases, and looks at each of them."""

    def __init__(self, lab: LabCluster, launch: Launch, number: int, python: str, folder: Path) -> None:
        self.lab, self.launch, self.number, self.python = lab, launch, number, python
        folder.mkdir()
        self.site = Site(lab, folder, f"hangs-{number}")
        self.shared = Path(lab.shared) / f"hangs-{number}"
        self.shared.mkdir()
        self.inside = f"{lab.shared_inside}/hangs-{number}"
        self.rows: list[dict[str, Any]] = []

    def play(self) -> list[dict[str, Any]]:
        try:
            shutil.copy(HERE / "train.py", self.site.folder / "code" / "train.py")
            (self.shared / "cases.json").write_text(json.dumps(self.launch.documents()), encoding="utf-8")
            job = self.site.job(
                [self.python, "train.py", self.inside],
                resources={"nodes": self.launch.nodes, "time": "00:20:00", "exclusive": True},
                launcher={"ranks_per_node": 4 // self.launch.nodes},
                env={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"},
            )
            run_dir = self.site.launch(job)["run_dir"]
            for number, case in enumerate(self.launch.cases):
                self._case(run_dir, number, case)
        except Exception:
            # The other launches go on; what is missing of this one is counted.
            traceback.print_exc()
        finally:
            self.site.close()
        return self.rows

    def _case(self, run_dir: str, number: int, case: Case) -> None:
        self._wait(run_dir, f"begun.{number}")
        names = self._nodes(run_dir)
        node = self.launch.node_of(case.ranks[0], names)
        if case.kind == "link":
            self.lab.faults.slow(node, "eth0", "8kbit")
            (self.shared / f"go.{number}").touch()
        elif case.kind == "gone":
            self.lab.faults.link_down(node, "eth0")
            self.lab.faults.power_off(node)
            (self.shared / f"go.{number}").touch()
        time.sleep(SETTLING)
        verdict: dict[str, Any] = {}
        lines: list[str] = []
        for _look in range(LOOKS):
            document, lines = self._look(run_dir)
            slow = (document.get("facts") or document).get("slow") or {}
            if case.kind == "slow" and slow:
                verdict = slow.get("straggler") or {"message": slow["message"]}
                break
            if document.get("stall"):
                verdict = (document.get("facts") or document).get("standstill") or {}
                break
            time.sleep(AGAIN)
        if case.kind == "link":
            self.lab.faults.unslow(node, "eth0")
        (self.shared / f"release.{number}").touch()
        message = str(verdict.get("message", ""))
        ranks = tuple(row["rank"] for row in verdict.get("ranks") or [])
        right = verdict.get("kind") == KINDS[case.kind][1] and (
            node in message if case.kind == "link" else sorted(ranks) == sorted(case.ranks)
        )
        row = {
            "kind": case.kind, "ranks": case.ranks, "node": node, "verdict": verdict.get("kind", "none"),
            "named": ranks, "message": message, "right": right, "lines": len(lines), "launch": self.number,
            "screen": lines,
        }  # fmt: skip
        self.rows.append(row)
        print(
            f"[hangs] {self.number}.{number} {case.kind} {case.ranks} {node}: {'right' if right else 'WRONG'}: "
            f"{row['verdict']} {message}",
            file=sys.stderr, flush=True,
        )  # fmt: skip

    def _wait(self, run_dir: str, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (self.shared / name).exists():
            if time.monotonic() > deadline or (self.site.host_path(run_dir) / "outcome.json").exists():
                logs = self.site.host_path(run_dir).glob("logs/**/*.log")
                text = "\n".join(path.read_text(errors="replace")[-600:] for path in logs)
                raise RuntimeError(f"launch {self.number}: {name} did not appear\n{text}")
            time.sleep(0.2)

    def _nodes(self, run_dir: str) -> list[str]:
        nodes = json.loads((self.site.host_path(run_dir) / "started.json").read_text(encoding="utf-8"))["nodes"]
        return [str(name) for name in nodes]

    def _look(self, run_dir: str) -> tuple[dict[str, Any], list[str]]:
        done = self.lab.head(
            ["/usr/bin/python3", f"{self.lab.shared_inside}/hangs/look.py", run_dir], check=False,
            env={"PYTHONPATH": f"{self.lab.shared_inside}/hangs"}, timeout=120,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the diagnosis failed: {done.stderr[-1500:]}")
        result = json.loads(done.stdout)
        return result["diagnosis"], result["lines"]


def environment_of(given: str) -> str:
    """The python of an environment with torch: the one that was given, or one made for the benchmark."""
    if given:
        return str(Path(given).absolute() / "bin" / "python")
    place = ROOT / ".cache" / "benchmarks" / "hangs"
    if not (place / "bin" / "python").exists():
        subprocess.run(["uv", "venv", "--python", "/usr/bin/python3", str(place)], check=True)
    command = [
        "uv",
        "pip",
        "install",
        "--python",
        str(place / "bin" / "python"),
        "--torch-backend",
        "cpu",
        "torch",
        "numpy",
    ]
    subprocess.run(command, check=True)
    return str(place / "bin" / "python")


def tables(rows: list[dict[str, Any]], planned: int) -> str:
    counted: Counter[str] = Counter(row["kind"] for row in rows)
    right: Counter[str] = Counter(row["kind"] for row in rows if row["right"])
    most = {kind: max(row["lines"] for row in rows if row["kind"] == kind) for kind in counted}
    summary = [[KINDS[kind][0], counted[kind], right[kind], most[kind]] for kind in KINDS if counted[kind]]
    summary.append(["all", len(rows), sum(right.values()), max(most.values(), default=0)])
    head = table.markdown(["what was provoked", "cases", "right", "most lines"], summary)
    each = [
        [KINDS[row["kind"]][0], ", ".join(map(str, row["ranks"])), row["node"], "right" if row["right"] else "wrong",
         row["lines"], f"{row['verdict']}: {row['message']}"]
        for row in rows
    ]  # fmt: skip
    body = table.markdown(["what was provoked", "ranks", "node", "verdict", "lines", "what it said"], each)
    return f"{len(rows)} of {planned} cases were played.\n\n{head}\n\n{body}\n"


def main_of_calm(given: str, together: int) -> int:
    """Play calm runs, and count what the wait says of them."""
    first, _dash, last = given.partition("-")
    numbers = list(range(int(first), int(last or first) + 1))
    lab = lab_of("hangs", nodes=2 * together, cpus=2, memory=6000, gpus=0, accounting="none", internet=False)
    with booted(lab) as there, tempfile.TemporaryDirectory(prefix="rankzero-calm-") as scratch:
        rows = calm.play(there, numbers, together, Path(scratch))
    alarms = [f"{row['number']}: {line}" for row in rows for line in row["alarms"]]
    text = "\n".join([f"{len(rows)} of {len(numbers)} calm runs were played, {len(alarms)} alarms.", *alarms]) + "\n"
    results.save("hangs-calm", text, {"date": datetime.date.today().isoformat(), "rows": rows})
    print(text)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run hangs", description=__doc__)
    parser.add_argument("--environment", default="", help="a virtual environment with torch; made with uv by default")
    parser.add_argument("--launches", default="", help="numbers of the launches to play, from 0 (all)")
    parser.add_argument("--calm", default="", help="only calm runs: their numbers, from 0, such as 0-19")
    parser.add_argument("--together", type=int, default=3, help="launches at a time (3)")
    options = parser.parse_args()
    if options.calm:
        return main_of_calm(options.calm, options.together)
    python = environment_of(options.environment)
    chosen = [int(word) for word in options.launches.split(",") if word] or list(range(len(LAUNCHES)))
    nodes = sum(LAUNCHES[number].nodes for number in chosen)
    began = time.monotonic()
    lab = lab_of(
        "hangs", nodes=nodes, cpus=4, memory=8000, gpus=0, accounting="none", internet=False,
        binds=[str(Path(python).parent.parent)],
    )  # fmt: skip
    with booted(lab) as there, tempfile.TemporaryDirectory(prefix="rankzero-hangs-") as scratch:
        place = Path(there.shared) / "hangs"
        shutil.copytree(ROOT / "plugins", place / "ansible_collections" / "rankzero" / "slurm" / "plugins")
        shutil.copy(HERE / "look.py", place / "look.py")
        played = [Played(there, LAUNCHES[number], number, python, Path(scratch) / str(number)) for number in chosen]
        with ThreadPoolExecutor(options.together) as pool:
            rows = [row for part in pool.map(Played.play, played) for row in part]
    planned = sum(len(LAUNCHES[number].cases) for number in chosen)
    text = tables(rows, planned) + f"\n{time.monotonic() - began:.0f} s, load at the end {os.getloadavg()[0]:.1f}.\n"
    results.save("hangs", text, {"date": datetime.date.today().isoformat(), "rows": rows})
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
