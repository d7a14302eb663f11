# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a step at the very moment of a signal, without Slurm, any number of times; benchmarks/ends runs it too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: One end of a job's step, with a holder beside it that ends only when the conductor has let go of it.
ONE = """\
import os, subprocess, sys
runtime, folder, *words = sys.argv[1:]
sys.path.insert(0, runtime)
sys.dont_write_bytecode = True
from core import held_steps, traps
from core.state import Job
from rank import step
env = {**os.environ, "RANKZERO_RUN_DIR": folder, "RANKZERO_ATTEMPT": "0", "SLURM_JOB_ID": "1"}
env["SIGNAL"] = str(os.getpid())
job = Job(env=env, runtime=runtime, python=folder + "/watcher")
if words[0] == "--watch":
    env["RANKZERO_ARTIFACT_THEN"] = words.pop(0) and "end"
traps.from_the_start(job)
held_steps.tie(job, ["cat"])
step.run(job, words)
held_steps.release(job)
print(job.step.ended_by, job.step.exit_code)
"""
#: The stand-in of `outcome.py watch`: the signal, and its own end within the same microseconds.
WATCHER = """\
#!/bin/bash
read -r -t 0.0$((RANDOM % 3)) <> <(:)
kill -USR1 "${@: -1}"
"""
#: So many of them one after the other; says how many were killed because they did not end.
ROW = """\
lost=0
for ((i = 0; i < $4; i++)); do
    timeout -s KILL "$3" "${@:6}" 2> /dev/null || lost=$((lost + 1))
    [ "$lost" -lt "$5" ] || break
done
echo "lost $lost"
"""


@dataclass(frozen=True)
class Case:
    """The step, before it --watch where its artifact is watched, and how it may end."""

    step: tuple[str, ...]
    expected: frozenset[str]


CASES: Mapping[str, Case] = {
    "the watcher ends": Case(("--watch", "sleep", "60"), frozenset({"artifact 143"})),
    "the step ends": Case(
        ("/bin/bash", "-c", 'read -r -t 0.0$((RANDOM % 3)) <> <(:); kill -TERM "$SIGNAL"; exit 5'),
        frozenset({"signal 5", "signal 143", "program 5"}),
    ),
}


@dataclass(frozen=True)
class Found:
    """How the ends came that came, and how many did not within the bound."""

    ends: tuple[str, ...]
    lost: int


def run(runtime: str, folder: Path, case: Case, ends: int, rows: int, bound: int, patience: int = 1) -> Found:
    """`rows` rows of `ends` ends at the same time; each row gives up after `patience` lost ones."""
    (folder / "one.py").write_text(ONE, encoding="utf-8")
    (folder / "watcher").write_text(WATCHER, encoding="utf-8")
    (folder / "watcher").chmod(0o755)
    words = ["/bin/bash", "-c", ROW, "row", runtime, str(folder), str(bound), str(ends), str(patience)]
    words += [sys.executable, "-I", "-S", str(folder / "one.py"), runtime, str(folder), *case.step]
    started = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _number in range(rows)
    ]
    lines = [line for process in started for line in process.communicate()[0].splitlines()]
    lost = sum(int(line.split()[1]) for line in lines if line.startswith("lost "))
    return Found(tuple(line for line in lines if not line.startswith(("lost ", "[rankzero] "))), lost)
