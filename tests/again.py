# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a whole run: what failed runs once more, alone, on a machine that does nothing else.

What fails again is red. What passes now is unsteady: it is listed, and the run is green, unless more than MOST failed.
contributing/development.md keeps the names with what was found. Called by scripts/test with the exit code of the run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: A change that breaks something usually breaks more tests than this.
MOST = 3
TESTS_FAILED = 1  # pytest's exit code


def failed(cache: Path) -> list[str]:
    """The node ids of what failed in the last run, as pytest's cache has them."""
    record = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(record.read_text(encoding="utf-8"))) if record.is_file() else []


def main(status: int, cache: Path = Path(".pytest_cache")) -> int:
    """The exit code of the run, in which at most MOST tests were unlucky."""
    names = failed(cache)
    if status != TESTS_FAILED or not names:
        return status
    if len(names) > MOST:
        print(f"{len(names)} tests failed: more than {MOST} are not run again")
        return status
    print(f"running again what failed, alone: {' '.join(names)}", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", *names], stdin=subprocess.DEVNULL, check=False).returncode
    if again == 0:
        print("UNSTEADY, passed when run again (contributing/development.md keeps what was found):")
        print("".join(f"  {name}\n" for name in names), end="", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
