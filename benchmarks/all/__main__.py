# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of RESULTS.md about commands, each row beside another commit in the same rounds: benchmarks/run all.

benchmarks/run all --against REV [--rounds 5] [--write] [--quick]. squeue, sbatch and the others are stand-ins: no
cluster is needed. In each round every row runs once with this collection and once with that of REV, which takes the
first place in every second round. Each row has a floor in its round: an empty play, or the same with nothing to do.
--write puts the table into RESULTS.md. --quick takes one round and small inputs, to see that all rows run.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import results
from benchmarks.all.rows import QUICK, WHOLE, Beside, grounds_of, rows_of
from benchmarks.all.taken import Measured, measure, table
from benchmarks.releases import ROOT

RESULTS = ROOT / "benchmarks" / "RESULTS.md"
BEGIN, END = "<!-- written by benchmarks/run all --write -->", "<!-- end of benchmarks/run all -->"


def put(text: str, page: str) -> str:
    """The page with the text between its two marks. Raises ValueError where a mark is missing."""
    before, rest = page.split(BEGIN + "\n", 1)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}"


def commit(ref: str) -> str:
    """The short number of a commit. Raises CalledProcessError where there is none of that name."""
    argv = ["git", "rev-parse", "--short=8", "--verify", f"{ref}^{{commit}}"]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def report(measured: Measured, beside: Beside, now: str, rounds: int) -> str:
    """The table, with what it was measured on."""
    loads = [taken.load for versions in measured.values() for takens in versions.values() for taken in takens]
    return (
        f"Measured {datetime.date.today().isoformat()}, commit {now} and, in the same rounds, {beside.ref}: "
        f"{os.cpu_count()} cores, Python {'.'.join(map(str, sys.version_info[:3]))},\nload {min(loads):.1f} to "
        f"{max(loads):.1f}, stand-ins for Slurm, {rounds} round{'s' * (rounds != 1)}. CPU seconds of all processes, in "
        "brackets those of the clock; the ratios are\nmedians of those within a round. The floor of a row is what is "
        f"named beside it.\n\n{table(measured, beside)}"
    ).rstrip("\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run all", description=__doc__)
    parser.add_argument("--against", required=True, metavar="REV", help="the commit to measure in the same rounds")
    parser.add_argument("--rounds", type=int, default=5, help="how often each row is run (5)")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only rows whose name has this text, and their floors"
    )
    parser.add_argument("--quick", action="store_true", help="one round with small inputs")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/RESULTS.md")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("--quick and --write: a table of one round with small inputs is no result; leave one of them out")
    try:
        ref, now = commit(options.against), commit("HEAD")
    except subprocess.CalledProcessError as error:
        parser.error(f"--against {options.against}: no commit of this repository: {error.stderr.strip()}")
    sizes, rounds = (QUICK, 1) if options.quick else (WHOLE, options.rounds)
    with tempfile.TemporaryDirectory() as name:
        grounds = grounds_of(Path(name), ref, sizes)
        rows = rows_of(sizes)
        if options.only:
            floors = {row.floor for row in rows if options.only in row.name}
            rows = [row for row in rows if options.only in row.name or row.name in floors]
        measured = measure(rows, grounds, rounds)
    beside = Beside(ref, {row.name: row.floor for row in rows})
    text = report(measured, beside, now, rounds)
    print(text)
    raw = {
        row: {version: [vars(taken) for taken in takens] for version, takens in of.items()}
        for row, of in measured.items()
    }
    results.save("all", text, raw)
    if options.write:
        RESULTS.write_text(put(text, RESULTS.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
