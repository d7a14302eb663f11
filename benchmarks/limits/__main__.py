# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of every command, and of the job runtime, with the largest input that a program can make.

benchmarks/run limits [--fraction 1] [--only line,files]. Real launches by an ordinary user on a lab: a log of 5 GB in
one line, a million files in the working directory, a JSON artifact of 1 GB, 20,000 hard links, 100,000 lines of metrics
a second from each of four ranks, into a log for each rank, into one for each node (`collected`), and while two commands
follow them (`followed`). Ends with 1 if a process had more memory than its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.limits.inputs import inputs
from benchmarks.limits.measuring import RuntimeMemory, peak_of
from tests.cluster.attack import VICTIM, AttackLab, add_accounts
from tests.cluster.conftest import booted, instance_name, lab_of
from tests.repository import BIN, ROOT

#: Those that the command rankzero does not have.
PLAYBOOKS = ("prune",)
#: MB of any process of a command, on the controller or on the login node; and of one of the job runtime on a node.
COMMAND_MB, RUNTIME_MB = 200, 64
#: Of these inputs, everything is fetched. The bytes go through a command's output, in archives of one size.
PULLED = ("files", "artifact", "links")
#: This one is submitted, and then followed to its end by two commands at a time.
FOLLOWED = ("followed",)
#: The commands about one launch ({}), and those about all launches.
OF_A_LAUNCH = {
    "ls": ("ls", "{}"),
    "why": ("why", "{}"),
    "logs": ("logs", "{}"),
    "logs, merged": ("logs", "{}", "-e", "merge=true"),
    "report": ("report", "{}"),
}
OF_ALL = {
    "ls": ("ls",),
    "usage": ("usage",),
    "report": ("report",),
    "notify": ("notify",),
    "prune": ("prune", "-e", "older_than=0", "--check"),
}


@dataclass
class Measured:
    """`rows`: (input, command or program) -> MB. `codes`: the exit codes that were not 0."""

    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)

    def over(self) -> list[str]:
        """The rows that pass their limit."""
        return [
            f"{what} with {name}: {size} MB, and {limit(what)} MB are allowed"
            for name, sizes in self.rows.items()
            for what, size in sizes.items()
            if size > limit(what)
        ]


def limit(what: str) -> int:
    """The limit of a row, in MB."""
    return RUNTIME_MB if what.endswith((".py", ".sh")) else COMMAND_MB


class User:
    """An ordinary user of a lab, who types commands in a folder of his own."""

    def __init__(self, there: AttackLab, measured: Measured) -> None:
        self.site, self.measured = there.site, measured
        self.cluster = there.cluster_of(VICTIM)
        #: The names of the launches.
        self.launches: list[str] = []
        own = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "/usr/bin/python3",
            "launch_cluster": self.cluster,
            **there.connection(VICTIM),
        }
        (self.site.folder / "inventory").mkdir()
        hosts = {"slurm_login": {"hosts": {"login": own}}}
        (self.site.folder / "inventory" / "hosts.json").write_text(json.dumps(hosts), encoding="utf-8")

    def types(self, name: str, what: str, *words: str) -> None:
        """Run a command, and add its memory to the rows of this input."""
        environment = {key: value for key, value in os.environ.items() if key != "CI"}
        environment["PYTHONPATH"] = str(ROOT / "python")
        output = self.site.folder / f"output-{words[0]}"
        argv = [sys.executable, "-m", "rankzero", *words]
        if words[0] in PLAYBOOKS:
            argv = [str(BIN / "ansible-playbook"), "-i", "inventory", f"rankzero.slurm.{words[0]}", *words[1:]]
        code, size = peak_of(argv, self.site.folder, environment, output)
        row = self.measured.rows.setdefault(name, {})
        row[what] = max(size, row.get(what, 0))
        said = output.read_text(encoding="utf-8", errors="replace")[-3000:]
        print(f"[limits] {name}: {what}: {size} MB, exit code {code}", file=sys.stderr, flush=True)
        if code:
            self.measured.codes[f"{name}: {what}"] = code
            print(said, file=sys.stderr, flush=True)

    def walks(self, name: str, program: str, spec: dict[str, Any]) -> None:
        """Launch a program, then run every command about its launch."""
        job = self.site.job(["python3", "-c", program], name, **{"resources": {"time": "00:30:00"}, **spec})
        path = self.site.write(job, f"jobs/{name}.yml")
        self.launches.append(job["name"])
        with RuntimeMemory(self.cluster["state_root"]) as memory:
            if name in FOLLOWED:
                self.follows(name, path, job["name"])
            else:
                self.types(name, "run", "run", path)
        self.measured.rows[name].update(sorted(memory.peaks.items()))
        for what, words in OF_A_LAUNCH.items():
            self.types(name, what, *(word.replace("{}", job["name"]) for word in words))
        if name in PULLED:
            self.types(name, "pull", "pull", job["name"], ".")
        shutil.rmtree(self.site.folder / "runs", ignore_errors=True)

    def follows(self, name: str, path: str, launch: str) -> None:
        """Submit a job, and follow it to its end: its state, and its lines."""
        self.types(name, "run", "run", "-d", path)
        lines = threading.Thread(
            target=self.types, args=(name, "logs, followed", "logs", "-f", "--dest", "lines", launch)
        )
        lines.start()
        self.types(name, "attach", "attach", launch)
        lines.join()


def table(measured: Measured) -> str:
    """A row for each command and program, a column for each input."""
    whats = list(dict.fromkeys(what for sizes in measured.rows.values() for what in sizes))
    lines = ["| MB | " + " | ".join(measured.rows) + " | limit |", "| --- |" + " --- |" * (len(measured.rows) + 1)]
    for what in whats:
        cells = [str(sizes.get(what, "-")) for sizes in measured.rows.values()]
        lines.append(f"| {what} | {' | '.join(cells)} | {limit(what)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run limits", description=__doc__)
    parser.add_argument("--fraction", type=float, default=1.0, help="of the size of each input")
    parser.add_argument("--only", default="", help="names of inputs, with commas")
    options = parser.parse_args()
    chosen = inputs(options.fraction)
    names = options.only.split(",") if options.only else list(chosen)
    measured = Measured()
    size = {"nodes": 2, "cpus": 4, "memory": 4000, "gpus": 0, "partitions": [{"name": "batch", "default": True}]}
    lab_options = lab_of(instance_name("limits"), internet=False, **size)
    with booted(lab_options) as lab, tempfile.TemporaryDirectory(prefix="limits-") as folder:
        add_accounts(lab)
        there = AttackLab(lab, Path(folder), "limits")
        try:
            user = User(there, measured)
            for name in names:
                user.walks(name, *chosen[name])
            for what, words in OF_ALL.items():
                user.types("all", what, *words)
            if len(names) > 1:
                user.types("all", "compare", "compare", *user.launches[-2:])
        finally:
            there.close()
    text = table(measured)
    print(text)
    results.save("limits", text, measured.rows)
    for line in measured.over():
        print(line, file=sys.stderr)
    return 1 if measured.over() else 0


if __name__ == "__main__":
    sys.exit(main())
