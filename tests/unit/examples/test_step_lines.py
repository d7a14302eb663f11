# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the examples print a time with each step, so that the result card can divide the hours."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import parse_metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import time_in

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# What writes the time before a line: the variable `now`, or the function `say` of first_run.
STAMP = "2026-11-25 10:12:13"


def printed(path: Path) -> Iterator[str]:
    """The f-strings of a program with a step in them as it prints them, with 7 for each value that is no time."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    says = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "say"), None)
    for call in calls:
        if not call.args or not isinstance(call.args[0], ast.JoinedStr):
            continue
        line = "".join(
            str(part.value) if isinstance(part, ast.Constant) else _value(part) for part in call.args[0].values
        )
        metrics = parse_metrics(line)
        if metrics is not None and metrics.step is not None:
            stamped = ast.unparse(call.func) == "say" and says is not None and "datetime.now()" in ast.unparse(says)
            yield f"{STAMP} {line}" if stamped else line


def _value(part: ast.expr) -> str:
    return STAMP if "{now}" in ast.unparse(part) else "7"


def test_each_step_has_a_time() -> None:
    lines = {path: list(printed(path)) for path in EXAMPLES.rglob("*.py")}
    assert EXAMPLES / "first_run" / "train.py" in {path for path, shown in lines.items() if shown}
    untimed = {str(path): line for path, shown in lines.items() for line in shown if time_in(line) is None}
    assert untimed == {}
