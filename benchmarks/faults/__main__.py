# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test that launches run exactly once under faults: benchmarks/run faults. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, layout, release
from benchmarks import results
from benchmarks.faults import at_random
from benchmarks.faults.matrix import FAULTS
from benchmarks.faults.run import STOP, Run, run_matrix
from benchmarks.launch import table

#: Differences from the lab's usual options. A lab without accounting forgets its jobs soon, as on such sites.
LABS: dict[str, dict[str, object]] = {
    "friendly": {},
    "site": {"profile": "site", "nodes": 3, "cpus": 0, "partitions": []},
    "bare": {"accounting": "none", "slurm_conf": ["MinJobAge=20"]},
}


#: The disk of a lab's /shared, its own so that a fault may fill it: room for programs and logs, and soon full.
DISK = "400M"
#: With random faults, several nodes may be off at the same time.
NODES_AT_RANDOM = 5


@contextmanager
def booted(name: str, slurm: str, **more: object) -> Iterator[layout.Lab]:
    """A separate lab with that release of Slurm, removed at the end."""
    usual: dict[str, object] = {
        "name": f"faults-{name}", "directory": "", "way": "auto", "nodes": 4, "cpus": 16, "memory": 64000, "gpus": 0,
        "accounting": "slurmdbd", "job_comments": False, "internet": False,
        "partitions": [{"name": "batch", "default": True}], "slurm_conf": [], "binds": [], "slurm": slurm,
        "profile": "friendly", "gpu_type": "", "gres": [],
    }  # fmt: skip
    lab = layout.from_options({**usual, **LABS[name], **more})
    cluster.apply(lab, "absent")
    if lab.realistic:
        # Only root can do that.
        Path(lab.shared).mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "rankzero-faults", lab.shared], check=True)
    try:
        cluster.apply(lab, "present")
        yield lab
    finally:
        if lab.realistic:
            subprocess.run(["umount", "--lazy", lab.shared], check=False)
        cluster.apply(lab, "absent")


def report(runs: Sequence[Run], labs: Sequence[str], seconds: float) -> str:
    """The matrix: one row per fault, with the runs on each lab, and how many launches were lost or doubled."""
    rows: list[Sequence[object]] = []
    for fault in FAULTS:
        of = [run for run in runs if run.fault == fault.name]
        verdicts = [run.verdict for run in of if run.verdict]
        counts = [sum(run.lab == lab for run in of) or None for lab in labs]
        times = table.spread([verdict.seconds for verdict in verdicts], 1)
        lost, doubled = sum(v.lost for v in verdicts), sum(v.doubled for v in verdicts)
        rows.append([fault.name, *counts, lost, doubled, len(of) - len(verdicts) or None, times])
    verdicts = [run.verdict for run in runs if run.verdict]
    total = [sum(run.lab == lab for run in runs) for lab in labs]
    lost, doubled = sum(v.lost for v in verdicts), sum(v.doubled for v in verdicts)
    rows.append(["**all**", *total, f"**{lost}**", f"**{doubled}**", len(runs) - len(verdicts) or None, None])
    head = ["fault", *labs, "lost", "doubled", "not run", "seconds until it is proven"]
    return f"{len(runs)} runs in {seconds / 60:.0f} min.\n\n{table.markdown(head, rows)}"


def main() -> int:
    options, labs = _options()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    begun = time.monotonic()
    out = results.folder()
    if options.table:
        print(at_random.report(at_random.saved(out / "faults-random", labs), labs))
        return 0
    kind = ("faults-random" if options.random else "faults") + ("" if options.slurm == "host" else f"-{options.slurm}")
    with tempfile.TemporaryDirectory(prefix="rankzero-faults-") as scratch:
        each = [options.count // len(labs) + (number < options.count % len(labs)) for number in range(len(labs))]

        def matrix(name: str, count: int) -> list[Run]:
            with booted(name, options.slurm) as lab:
                return run_matrix(lab, name, Path(scratch), count, workers=options.workers)

        def at_instants(name: str, count: int) -> list[at_random.Row]:
            with booted(name, options.slurm, nodes=NODES_AT_RANDOM) as lab:
                return at_random.run_at_random(
                    lab, name, Path(scratch), count, seed=str(options.seed), out=out / kind, minutes=options.minutes
                )

        # Most of a run is waiting, so the labs run at the same time.
        with ThreadPoolExecutor(len(labs)) as pool:
            if options.random:
                rows = [row for lab_rows in pool.map(at_instants, labs, each) for row in lab_rows]
                text = f"Seed {options.seed}: {at_random.report(rows, labs)}"
                entries, good = [asdict(row) for row in rows], at_random.good(rows)
            else:
                runs = [run for lab_runs in pool.map(matrix, labs, each) for run in lab_runs]
                text = report(runs, labs, time.monotonic() - begun)
                entries, good = [asdict(run) for run in runs], all(run.good for run in runs)
    text = f"{datetime.date.today().isoformat()}. {text}"
    results.save(kind, text, entries)
    print(text)
    return 0 if good and not STOP.is_set() else 1


def _options() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="benchmarks/run faults", description=__doc__)
    parser.add_argument(
        "--count", type=int, default=300, help="runs, all labs together; each fault at least once (300)"
    )
    parser.add_argument(
        "--random", action="store_true", help="instead of the matrix: so many injections at any instant"
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="with --random: begin no batch later than that (0: no limit)"
    )
    parser.add_argument("--seed", type=int, default=1, help="which instants --random takes (1)")
    parser.add_argument(
        "--table", action="store_true", help="no run: the table of what the last --random on each lab has left"
    )
    parser.add_argument("--labs", default=",".join(LABS), help=f"which of {', '.join(LABS)} (all)")
    parser.add_argument("--workers", type=int, default=4, help="faults under way at once on each lab (4)")
    parser.add_argument("--slurm", default="host", choices=["host", *release.RELEASES], help="release of Slurm (host)")
    options = parser.parse_args()
    labs = options.labs.split(",")
    if not set(labs) <= set(LABS):
        parser.error(f"--labs: {options.labs} is not among {', '.join(LABS)}")
    if "site" in labs and os.getuid() != 0:
        parser.error("--labs: a lab of profile site needs root; leave it out: --labs friendly,bare")
    if options.slurm != "host" and os.getuid() != 0:
        parser.error("--slurm: another Slurm than the host's needs root")
    return options, labs


if __name__ == "__main__":
    sys.exit(main())
