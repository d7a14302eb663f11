# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node reports to the preflight: the versions that its Python has, and how a gap was filled later.
Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os

from core import children
from core.files import names_in, publish, read_all
from core.log_names import node_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# What all tasks of the preflight's step said, which srun writes to one file; the kind of text that is a report.
TOGETHER, KIND = "_tasks.log", "report"


def versions(python: str, imports: list[str]) -> tuple[dict[str, str], bool, str | None]:
    """(versions of Python and of each import, whether there is torch, None) as the job's own interpreter sees them.

    Where it does not: ({}, False, why). An import `?NAME:LAUNCHER` is only looked for: LAUNCHER needs the package NAME.
    """
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "imports.py"), encoding="utf-8") as stream:
        program = stream.read()
    try:
        done = children.run([python, "-c", program, *imports], os.environ, children.WORK_SECONDS)
    except OSError as error:
        leads = os.path.realpath(python)
        where = f" (it leads to {leads}, which every node must have)" if os.path.islink(python) else ""
        return {}, False, f"{python}: {error.strerror}{where}"
    if done.returncode != 0:
        return {}, False, done.complaint
    columns, torch, absent, prefix = json.loads(done.stdout.strip().splitlines()[-1])
    if absent:
        return {}, False, required(absent, prefix)
    return columns, torch, None


def required(absent: Sequence[str], prefix: str) -> str:
    """A sentence on the packages that a launcher needs and the Python at `prefix` lacks. `absent`: ?NAME:LAUNCHER."""
    names = ", ".join(word[1:].partition(":")[0] for word in absent)
    kind = absent[0].partition(":")[2]
    return (
        f"{prefix} has no Python package {names}, which launcher.kind {kind} needs: add {names} to the dependencies of "
        "the environment, or name an environment or image that has it"
    )


def reports_of(folder: str, names: list[str]) -> dict[str, Any]:
    """{node: its report, or None}: the amended one, which is a file (`amend`), else what it has printed. What is no map
    is none: the conductor reads this, and anything may have been printed there.
    """
    own = read_all(folder, [f"{name}.json" for name in names])
    reports = {name: own[f"{name}.json"] for name in names}
    silent = {name for name in names if reports[name] is None}
    if silent and TOGETHER in names_in(folder):
        with open(os.path.join(folder, TOGETHER), "rb") as stream:
            for _kind, name, text in node_texts(stream, [KIND], silent):
                with contextlib.suppress(ValueError, RecursionError):
                    reports[name] = json.loads(text)
    return {name: report if isinstance(report, dict) else None for name, report in reports.items()}


def amend(
    folder: str,
    name: str,
    kind: str,
    problem: str | None = None,
    columns: dict[str, str] | None = None,
    torch: bool = False,
) -> None:
    """Settle in a node's report what it lacked: it has the columns now, or there is another problem in its place."""
    path = os.path.join(folder, name + ".json")
    report = reports_of(folder, [name])[name]
    old = report["lacks"].pop(kind, None)
    report["problems"] = [kept for kept in report["problems"] if kept != old] + ([problem] if problem else [])
    report["columns"].update(columns or {})
    report["torch"] = torch or bool(report.get("torch"))
    publish(path, report)
