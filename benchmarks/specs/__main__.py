# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render hostile job specs, run each script with bash, and report values that did not arrive exactly as written.

benchmarks/run specs [--count 3000] [--seed 1]. Exits 1 if a spec was not byte-exact or something was executed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.specs.executed import Ground
from benchmarks.specs.hostile import Hostile

#: Number of scripts that share a folder, whose name is hostile as well.
BATCH = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/run specs", description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many specs")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same specs")
    options = parser.parse_args()
    begun, bad, texts = time.monotonic(), 0, 0
    for first in range(0, options.count, BATCH):
        with tempfile.TemporaryDirectory() as name:
            hostile = Hostile(options.seed + first, name)
            ground = Ground(Path(name), "s" + hostile.part())
            for number in range(first, min(first + BATCH, options.count)):
                spec = hostile.spec()
                texts += len(spec.get("command", ["shell"])) + len(spec["env"]) + 3
                problems = ground.run(spec)
                if problems:
                    bad += 1
                    print(f"spec {number}: {json.dumps(spec)}\n  " + "\n  ".join(problems))
    print(f"{options.count} specs with {texts} hostile texts: {bad} not byte-exact or executed; "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
