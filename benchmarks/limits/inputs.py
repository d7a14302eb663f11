# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs whose logs and files are as large as a program of a user can make them. They run with any Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The whole size of each input. A fraction of them is made.
LINE_BYTES, FILES, ARTIFACT_BYTES, LINKS, LINES_A_SECOND, SECONDS = 5 * 10**9, 10**6, 10**9, 20_000, 100_000, 30

_RESULT = "open('result.json', 'w').write('{\"loss\": 1.5}')\n"
_LINE = """
block = b'x' * 1_000_000
import sys
for _ in range({count}):
    sys.stdout.buffer.write(block)
sys.stdout.flush()
sys.exit(1)
"""
_FILES = """
import os
os.makedirs('deep')
for number in range({count}):
    os.close(os.open(f'{{"deep/" if number % 2 else ""}}sample-{{number:08d}}.bin', os.O_WRONLY | os.O_CREAT, 0o644))
"""
_ARTIFACT = """
block = 'x' * 1_000_000
with open('result.json', 'w') as stream:
    stream.write('{{"loss": 1.5, "weights": "')
    for _ in range({count}):
        stream.write(block)
    stream.write('"}}')
"""
_LINKS = """
import os
os.makedirs('links')
open('links/0', 'w').close()
for number in range(1, {count}):
    os.link('links/0', f'links/{{number}}')
"""
# Each rank prints at this rate, and the first one writes the same to a file of metrics.
_METRICS = """
import json, os, sys, time
rank, begun = int(os.environ['RANK']), time.monotonic()
metrics = open('metrics.jsonl', 'w') if rank == 0 else None
for second in range({seconds}):
    for number in range({rate}):
        step = second * {rate} + number
        sys.stdout.write(f'step {{step}} loss {{1 + 1 / (step + 1):.6f}} tokens/s 19000\\n')
        if metrics:
            metrics.write(json.dumps({{'step': step, 'loss': 1 + 1 / (step + 1)}}) + '\\n')
    sys.stdout.flush()
    time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
"""


def inputs(fraction: float) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> (program, the rest of the job spec), at a fraction of the whole size."""

    def part(whole: float) -> int:
        return max(1, round(whole * fraction))

    texts: dict[str, Callable[[], str]] = {
        "line": lambda: _LINE.format(count=part(LINE_BYTES / 10**6)),
        "files": lambda: _FILES.format(count=part(FILES)) + _RESULT,
        "artifact": lambda: _ARTIFACT.format(count=part(ARTIFACT_BYTES / 10**6)),
        "links": lambda: _LINKS.format(count=part(LINKS)) + _RESULT,
        "metrics": lambda: (
            _METRICS.format(rate=part(LINES_A_SECOND), seconds=SECONDS) + f"if rank == 0:\n    {_RESULT}"
        ),
    }
    texts["collected"] = texts["followed"] = texts["metrics"]
    ranks = {"resources": {"time": "00:30:00", "nodes": 2}, "launcher": {"ranks_per_node": 2}}
    specs: dict[str, dict[str, Any]] = {
        "metrics": ranks,
        "collected": {**ranks, "logs": {"per": "node"}},
        "followed": ranks,
        "artifact": {"artifact": {"path": "result.json", "format": "json"}},
    }
    return {name: (text(), specs.get(name, {})) for name, text in texts.items()}
