# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command `rankzero` adds to the playbook that it runs: `rankzero ls` beside `ansible-playbook`.

benchmarks/run command [--rounds 15]. Both list an empty state root on this machine, in turns. No cluster is needed.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import results

ROOT = Path(__file__).resolve().parents[2]


def measured(argv: list[str], folder: str, environment: dict[str, str]) -> dict[str, float]:
    """How long a command takes, and its CPU time, in seconds. It must end with 0."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def table(pairs: list[dict[str, dict[str, float]]]) -> str:
    """Medians, and what the command adds, pair by pair. CPU time hardly changes when others use the machine."""
    lines = [
        "| median of seconds | playbook | command | added, pair by pair | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for kind in ("wall", "cpu"):
        playbook, command = (statistics.median(pair[name][kind] for pair in pairs) for name in ("playbook", "command"))
        added = sorted(pair["command"][kind] - pair["playbook"][kind] for pair in pairs)
        spread = f"{statistics.median(added):.3f} ({added[0]:.3f} to {added[-1]:.3f})"
        lines.append(f"| {kind} | {playbook:.3f} | {command:.3f} | {spread} | {command / playbook:.3f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run command", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=15, help="how often each is run, after one round that does not count"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "HOME": folder,
            "PYTHONPATH": str(ROOT / "python"),
            "ANSIBLE_STDOUT_CALLBACK": "rankzero.slurm.screen",
        }
        command = [sys.executable, "-m", "rankzero", "ls"]
        playbook = [str(Path(sys.executable).parent / "ansible-playbook"), "rankzero.slurm.status"]
        pairs = []
        for number in range(options.rounds + 1):
            both = {"playbook": playbook, "command": command}
            # The other one first in each round.
            order = sorted(both, reverse=bool(number % 2))
            pairs.append({name: measured(both[name], folder, environment) for name in order})
    pairs = pairs[1:]
    text = table(pairs)
    print(text)
    results.save("command", text, pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
