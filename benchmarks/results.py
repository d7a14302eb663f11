# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the benchmarks write their tables."""

from __future__ import annotations

import json
import os
from pathlib import Path

#: Names a folder to use instead of build/benchmarks, for runs whose figures are not needed.
VARIABLE = "RANKZERO_BENCHMARK_RESULTS"


def folder() -> Path:
    """The folder of the results, created if it is missing."""
    path = Path(os.environ.get(VARIABLE) or Path(__file__).resolve().parents[1] / "build" / "benchmarks")
    path.mkdir(parents=True, exist_ok=True)
    return path


def save(name: str, text: str, data: object) -> None:
    """Write a table as `name`.md, and the numbers that it was made of as `name`.json."""
    (folder() / f"{name}.md").write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    (folder() / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
