# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what launches cost with budget.json: seconds as ratios to an empty play, and the number of Slurm commands.

benchmarks/run budget [--rounds 7] [--specs 30] [--against REF] [--report-only]. squeue, sbatch and the others are
stand-ins, so that only the collection and Ansible are measured: no cluster is needed. In each round every way runs
once, next to an empty play and, with --against, next to the same way of another commit. The exit code is 1 if a budget
is exceeded; with another number of specs, reconcile has none.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.launch.table import markdown
from benchmarks.releases import collections_of

BUDGET = Path(__file__).with_name("budget.json")
SPECS = 30
WAYS = ("empty play", "warm launch", "unchanged launch, with the wait and its logs", "check mode")
#: What people type -> its words. "edited": a line of the program is, before it. A wrong file is refused, with code 2.
TYPED = {
    "rankzero ls": ("ls",),
    "rankzero plan, a wrong file": ("plan",),
    "rankzero plan": ("plan",),
    "rankzero run -d": ("run", "-d"),
    "rankzero run, proven already": ("run",),
    "rankzero run -d, code edited": ("run", "-d"),
}
COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "sinfo", "sacctmgr", "scancel")
PARTITION = ("batch", "batch*", "up", "infinite", "1:00:00", "1-infinite", "8", "16", "64000", "(null)", "idle", "x")
# What a stand-in does: it logs its name. sbatch counts its jobs, sinfo knows one partition, scontrol answers a ping.
STAND_IN = """#!/bin/sh
name=${{0##*/}}
echo "$name" >> {log}
case $name in
sbatch)
    case "$*" in *--test-only*) exit 0 ;; esac
    echo x >> {log}.jobs; echo $((1000 + $(wc -l < {log}.jobs))) ;;
sinfo) printf '{partition}' ;;
scontrol)
    case "$*" in ping) echo "Slurmctld(primary) at head is UP" ;; esac ;;
esac
"""
JOB = """name: {name}
resources: {{nodes: 1, cpus_per_rank: 1, time: "00:05:00"}}
command: [train.py, --seed, {seed}]
code: {{src: {src}}}
"""


class Ground:
    """A project, stand-ins for Slurm and an inventory of this machine, for one version of the collection."""

    def __init__(self, folder: Path, collections_path: str) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.log = folder / "commands"
        (self.project / "code").mkdir(parents=True)
        (self.project / "code" / "train.py").write_text("print('trained')\n")
        python = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
        (folder / "inventory").write_text(f"[slurm_login]\nlogin {python}\n")
        roots = {"state_root": str(folder / "state"), "store_root": str(folder / "store")}
        host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "launch_cluster": roots}
        (folder / "plain.json").write_text(json.dumps({"slurm_login": {"hosts": {"login": host}}}))
        (folder / "empty.yml").write_text("- hosts: slurm_login\n  gather_facts: false\n  tasks: []\n")
        commands = folder / "bin"
        commands.mkdir()
        partition = "\\037".join(PARTITION) + "\\036\\n"
        for name in COMMANDS:
            (commands / name).write_text(STAND_IN.format(log=self.log, partition=partition))
            (commands / name).chmod(0o755)
        path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {
            "PATH": path,
            "HOME": str(folder),
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_COLLECTIONS_PATH": collections_path,
            # Where it is set, every command compiles all that it imports: what is measured is Python's compiler.
            "PYTHONDONTWRITEBYTECODE": "",
        }
        self.environment = {**os.environ, **own}
        # A setting that only a playbook reads would make the command run one.
        self.typing = {
            name: value for name, value in self.environment.items() if name not in ("ANSIBLE_PIPELINING", "CI")
        }
        self.typing["PYTHONPATH"] = f"{collections_path}/ansible_collections/rankzero/slurm/python"
        self.count = 0

    def play(self, playbook: str, *options: str, **variables: Any) -> tuple[float, collections.Counter[str]]:
        """Run a playbook, which must end with 0. Returns its seconds and the Slurm commands."""
        self.log.write_text("")
        roots = {"state_root": str(self.folder / "state"), "store_root": str(self.folder / "store")}
        given = {"launch_cluster": roots, **variables} if variables else {}
        argv = ["ansible-playbook", "-i", str(self.folder / "inventory"), playbook, *options, "-e", json.dumps(given)]
        return self.timed(argv, self.environment)

    def typed(self, *words: str, code: int = 0) -> tuple[float, collections.Counter[str]]:
        """As `play`, of the command `rankzero` with a plain inventory. `code`: its exit code."""
        self.log.write_text("")
        argv = [sys.executable, "-m", "rankzero", *words, "-i", str(self.folder / "plain.json")]
        return self.timed(argv, self.typing, code)

    def timed(
        self, argv: list[str], environment: Mapping[str, str], code: int = 0
    ) -> tuple[float, collections.Counter[str]]:
        """Run a program, which must end with that code. Returns its seconds and the Slurm commands."""
        began = time.monotonic()
        quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run(argv, check=False, cwd=self.project, env=environment, **quiet)
        seconds = time.monotonic() - began
        if done.returncode != code:
            raise SystemExit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
        return seconds, collections.Counter(self.log.read_text().split())

    def job(self, name: str, folder: str = "", src: str = "code") -> str:
        """Write a new job file. Returns its path in the project."""
        self.count += 1
        path = self.project / folder / f"{name}.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(JOB.format(name=name, seed=self.count, src=src))
        return str(path.relative_to(self.project))

    def prove(self) -> None:
        """End the only launch of the name `proven` as its job does."""
        (run,) = (self.folder / "state" / "runs" / "proven").glob("*/1")
        (run / "logs" / "0").mkdir(parents=True, exist_ok=True)
        (run / "logs" / "0" / "rank-0000.log").write_text("step 1\n")
        job_id = json.loads((run / "journal.jsonl").read_text().splitlines()[-1])["job_id"]
        (run / "claim").write_text(f"1 cluster {job_id}\n")
        now = time.time()
        shared = {"attempt": 0, "job_id": job_id}
        (run / "started.json").write_text(json.dumps({"time": now - 60, "nodes": ["n1"], "world_size": 1, **shared}))
        ended = {"time": now - 30, "started": now - 60, "ended_by": "program", "success": True, "exit_code": 0}
        (run / "outcome.json").write_text(json.dumps({**shared, **ended, "message": "proven", "artifact": None}))

    def warm_up(self) -> None:
        """Launch once, so that code and job runtime are there, and prove a launch that is then only looked up."""
        self.play("rankzero.slurm.train", job=self.job("proven"), launch_wait=False)
        self.prove()
        self.play("rankzero.slurm.train", job="proven.yml", launch_wait=True)
        self.typed("run", "proven.yml")

    def measure(self, way: str, number: int, specs: int) -> tuple[float, collections.Counter[str]]:
        """Run one way once."""
        if way == "empty play":
            return self.play(str(self.folder / "empty.yml"))
        if way in TYPED:
            job = "proven.yml" if "proven" in way else self.job(f"typed-{self.count}")
            if way == "rankzero ls":
                return self.typed(*TYPED[way])
            if "wrong" in way:
                with (self.project / job).open("a", encoding="utf-8") as stream:
                    stream.write("resorces: {nodes: 2}\n")
                return self.typed(*TYPED[way], job, code=2)
            if "edited" in way:
                (self.project / "code" / "train.py").write_text(f"print('trained {self.count}')\n")
            try:
                return self.typed(TYPED[way][0], job, *TYPED[way][1:])
            finally:
                (self.project / "code" / "train.py").write_text("print('trained')\n")
        if way == "warm launch":
            return self.play("rankzero.slurm.train", job=self.job(f"warm-{number}"), launch_wait=False)
        if way == "check mode":
            return self.play("rankzero.slurm.train", "--check", job=self.job(f"check-{number}"), launch_wait=False)
        if way.startswith("unchanged"):
            return self.play("rankzero.slurm.train", job="proven.yml", launch_wait=True)
        if way.endswith("new specs"):
            shutil.rmtree(self.project / "jobs", ignore_errors=True)
            for each in range(specs):
                self.job(f"spec-{number}-{each}", "jobs", "../code")
        return self.play("rankzero.slurm.reconcile", jobs="jobs")


Measured = dict[str, list[tuple[float, collections.Counter[str]]]]


def exceeded(budget: Mapping[str, Mapping[str, float]], figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return one sentence for each figure above its budget."""
    return [
        f"{way}: {kind} {figures[kind][way]:.2f}, and its budget is {most}"
        for kind, ways in budget.items()
        for way, most in ways.items()
        if way in figures[kind] and figures[kind][way] > most
    ]


def figures_of(measured: Measured) -> dict[str, dict[str, float]]:
    """Return the figures that the budget bounds: medians of ratios within a round, and the most commands."""
    empty = [seconds for seconds, _commands in measured["empty play"]]
    figures: dict[str, dict[str, float]] = {
        "ratio to the empty play": {},
        "Slurm commands besides sbatch": {},
        "sbatch": {},
    }
    for way, rows in measured.items():
        ratios = [seconds / base for (seconds, _commands), base in zip(rows, empty)]
        figures["ratio to the empty play"][way] = statistics.median(ratios)
        figures["sbatch"][way] = max(commands["sbatch"] for _seconds, commands in rows)
        others = (commands.total() - commands["sbatch"] for _seconds, commands in rows)
        figures["Slurm commands besides sbatch"][way] = max(others)
    return figures


def table(versions: Mapping[str, Measured]) -> str:
    """Medians of all versions, and the ratios within a round."""
    head = ["", *(f"{what}, {name}" for name in versions for what in ("seconds", "x empty play", "sbatch", "others"))]
    rows = []
    for way in next(iter(versions.values())):
        row: list[object] = [way]
        for measured in versions.values():
            figures = figures_of(measured)
            row.append(f"{statistics.median(seconds for seconds, _commands in measured[way]):.2f}")
            row += [f"{figures['ratio to the empty play'][way]:.2f}", figures["sbatch"][way]]
            row.append(figures["Slurm commands besides sbatch"][way])
        rows.append(row)
    return markdown(head, rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run budget", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="how often each way is run (7)")
    parser.add_argument("--specs", type=int, default=SPECS, help=f"how many job files reconcile gets ({SPECS})")
    parser.add_argument("--against", default="", metavar="REF", help="measure the collection at this commit as well")
    parser.add_argument("--report-only", action="store_true", help="exit with 0 even if a budget is exceeded")
    options = parser.parse_args()
    out = results.folder()
    with tempfile.TemporaryDirectory() as name:
        grounds = {"now": Ground(Path(name) / "now", os.environ["ANSIBLE_COLLECTIONS_PATH"])}
        if options.against:
            old = collections_of(options.against, Path(name) / "collections")
            grounds[options.against] = Ground(Path(name) / "old", old)
        ways = (*WAYS, *TYPED, f"reconcile, {options.specs} new specs", f"reconcile, {options.specs} specs again")
        measured: dict[str, Measured] = {version: {way: [] for way in ways} for version in grounds}
        for ground in grounds.values():
            ground.warm_up()
        for number in range(options.rounds):
            for way in ways:
                for version, ground in grounds.items():
                    measured[version][way].append(ground.measure(way, number, options.specs))
    text = table(measured)
    problems = exceeded(json.loads(BUDGET.read_text()), figures_of(measured["now"]))
    text += "\n" + "\n".join(problems or ["All figures are within benchmarks/budget/budget.json."])
    (out / "budget.md").write_text(text + "\n", encoding="utf-8")
    (out / "budget.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(text)
    return 1 if problems and not options.report_only else 0


if __name__ == "__main__":
    sys.exit(main())
