# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provoked logs kept with their labels (tests/diagnosis/recorded), and the score of the diagnosis on them.

usage: python -m benchmarks.diagnosis.provoke.kept [FOLDER]     the score, and a confusion table
"""

from __future__ import annotations

import collections
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import find_cause
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.scan import scan
from benchmarks.diagnosis.provoke.case import HEALTHY

FOLDER = Path(__file__).resolve().parents[3] / "tests" / "diagnosis" / "recorded"
LABELS = "labels.jsonl"
#: Exceptions that belong to no specific family.
UNKNOWN = {"exception", "python_exception", "python_exception_other"}


@dataclass(frozen=True)
class Kept:
    """One provoked failure: its logs, the accepted families, and the root lines (`log:number`)."""

    id: str
    family: str
    also: tuple[str, ...]
    roots: tuple[str, ...]
    logs: tuple[Path, ...]
    batch: int = 1

    def accepts(self, family: str) -> bool:
        right = {self.family, *self.also}
        return family in right or (bool(right & UNKNOWN) and family in UNKNOWN)


@dataclass
class Score:
    """Correct results for `cases` failures, and `alarms` in `healthy` logs. (label, diagnosis) -> differences."""

    cases: int = 0
    families: int = 0
    roots: int = 0
    healthy: int = 0
    alarms: int = 0
    confusion: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)


def kept(folder: Path = FOLDER) -> Iterator[Kept]:
    for line in (folder / LABELS).read_text(encoding="utf-8").splitlines():
        label: dict[str, Any] = json.loads(line)
        roots = tuple(filter(None, [label.get("root"), *label.get("alike", ())]))
        logs = tuple(folder / name for name in label["logs"])
        yield Kept(label["id"], label["family"], tuple(label.get("also", ())), roots, logs, label.get("batch", 1))


def diagnosed(case: Kept) -> tuple[str, str | None, str]:
    """(family, root as `log:number`, its text) of a case's logs, diagnosed together."""
    cause = find_cause(scan([str(path) for path in case.logs]).logs)
    root = cause.root
    return cause.family, f"{os.path.basename(root.file)}:{root.line}" if root else None, root.text if root else ""


def score(cases: Iterator[Kept]) -> Score:
    total = Score()
    for case in cases:
        family, root, text = diagnosed(case)
        if case.family == HEALTHY:
            total.healthy += 1
            total.alarms += root is not None
            if root is not None:
                total.wrong.append(f"{case.id}: {family} at {root}: {text[:80]}")
            continue
        right, same = case.accepts(family), root in case.roots
        total.cases += 1
        total.families += right
        total.roots += same
        if not right:
            total.confusion[case.family, family] += 1
        if not (right and same):
            total.wrong.append(f"{case.id}: {case.family} -> {family}; {case.roots[:1]} -> {root}: {text[:80]}")
    return total


def store(raw: Path, batches: dict[str, int], folder: Path = FOLDER) -> int:
    """Store the driver's results from `raw` (one folder per case, with its label.json). Returns their number."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = []
    for path in sorted(raw.glob("*/label.json")):
        label = json.loads(path.read_text(encoding="utf-8"))
        names = sorted(
            (file.name for file in path.parent.iterdir() if file != path), key=lambda n: (n[:5] != "rank-", n)
        )
        single = len(names) == 1
        label["logs"] = [f"{label['id']}.log" if single else f"{label['id']}/{name}" for name in names]
        for name, target in zip(names, label["logs"]):
            (folder / target).parent.mkdir(exist_ok=True)
            (folder / target).write_bytes((path.parent / name).read_bytes())
            if single:
                renamed = {key: label[key] for key in ("root", "alike")}
                renamed["root"] = renamed["root"] and renamed["root"].replace(name, f"{label['id']}.log")
                renamed["alike"] = [text.replace(name, f"{label['id']}.log") for text in renamed["alike"]]
                label.update(renamed)
        label["batch"] = batches[label["id"]]
        labels.append(json.dumps(label, sort_keys=True))
    (folder / LABELS).write_text("\n".join(labels) + "\n", encoding="utf-8")
    return len(labels)


def table(score: Score) -> str:
    """The score as text."""
    lines = [*score.wrong, ""]
    lines += [f"{label} taken for {family}: {count}" for (label, family), count in score.confusion.most_common()]
    share = score.cases or 1
    lines.append(
        f"family {score.families}/{score.cases} ({score.families / share:.1%}), root line {score.roots}/{score.cases} "
        f"({score.roots / share:.1%}), false alarms {score.alarms}/{score.healthy}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    cases = list(kept(place))
    for number in sorted({case.batch for case in cases}):
        print(f"== batch {number}\n{table(score(case for case in cases if case.batch == number))}")
