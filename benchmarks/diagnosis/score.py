#!/usr/bin/env python3
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How good is the diagnosis on a labelled folder? Accuracy, a confusion table, false alarms, confidence, by group.

usage: score.py LABELS.jsonl LOGS_DIR [PREDICTIONS.jsonl]        without predictions: predict.py is run first

A label: {"id", "class", "also_acceptable", "root_lineno", "also_lines", "group"}, one JSON object per line; class
`healthy` has no root line. Class `unknown` is the verdict that these logs show no cause: never a false alarm, and right
for a failure whose label allows it. The root line is correct if it is one of the labelled ones or has the same text
except for prefixes, digits and spaces, because other ranks print the same error. A group is a set of logs of the same
origin: the scores by group show whether the patterns were only fitted to known logs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Any

HEALTHY = "healthy"
UNKNOWN = "unknown"
CONFIDENCES = ("high", "medium", "low")
_PREFIX = re.compile(r"^(?:\s*\[?(?:[\w.\-]+|\d+)\]?:\s*)?(?:\s*\[(?:rank|default)\d+\]:\s*)*")


def folded(line: str) -> str:
    """A line without the parts that differ between ranks."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line.split("\r")[-1])
    return " ".join(re.sub(r"\d+", "#", _PREFIX.sub("", line)).split())[:160]


def same_line(lines: list[str], number: int | None, wanted: int) -> bool:
    """Whether line `number` is line `wanted` (both from 1), or has the same text."""
    if not number or not 0 < number <= len(lines) or not 0 < wanted <= len(lines):
        return False
    return number == wanted or folded(lines[number - 1]) == folded(lines[wanted - 1])


def score(labels: list[dict[str, Any]], predictions: dict[str, dict[str, Any]], folder: str) -> dict[str, Any]:
    """Counts, the same by group, the confusion table, and the misses as text.

    Counts: cases, class, line, called_healthy, no_cause, healthy, false_alarm, and for each confidence `named` and
    `right`: the causes that were named, and those of the right class.
    """
    count: Counter[str] = Counter()
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    confusion: Counter[tuple[str, str]] = Counter()
    misses = []
    for label in labels:
        got = predictions.get(label["id"], {"class": "missing", "root_lineno": None})
        group = groups[str(label.get("group", "all"))]
        named = got["class"] not in (HEALTHY, UNKNOWN)
        confidence = got.get("confidence", "")
        if label["class"] == HEALTHY:
            alarm = int(named)
            for counts in (count, group):
                counts.update({"healthy": 1, "false_alarm": alarm, f"{confidence} named": alarm})
            if alarm:
                misses.append(f"{label['id']}: false alarm {got['class']}, line {got['root_lineno']}")
            confusion[HEALTHY, got["class"]] += 1
            continue
        with open(os.path.join(folder, f"{label['id']}.log"), errors="replace", newline="\n", encoding="utf-8") as log:
            lines = log.read().split("\n")
        right = got["class"] in [label["class"], *(label.get("also_acceptable") or [])]
        roots = [root for root in (label["root_lineno"], *(label.get("also_lines") or [])) if root]
        line = any(same_line(lines, got["root_lineno"], root) for root in roots)
        confusion[label["class"], label["class"] if right else got["class"]] += 1
        for counts in (count, group):
            counts.update({"cases": 1, "class": int(right), "line": int(line)})
            counts.update(called_healthy=int(got["class"] == HEALTHY), no_cause=int(got["class"] == UNKNOWN))
            counts.update({f"{confidence} named": int(named), f"{confidence} right": int(named and right)})
        if not (right and (line or not named)):
            wanted = f"{label['class']} line {label['root_lineno']}"
            misses.append(f"{label['id']}: {wanted}, said {got['class']} line {got['root_lineno']}")
    return {"count": count, "groups": groups, "confusion": confusion, "misses": misses}


def table(confusion: Counter[tuple[str, str]]) -> list[str]:
    """One row per class: the number of cases, how many were correct, and what the others were diagnosed as."""
    classes = sorted({wanted for wanted, _said in confusion})
    wide = max(map(len, classes), default=0)
    rows = [f"{'class':<{wide}}  cases  right  taken for"]
    for wanted in classes:
        counts = {other: number for (label, other), number in confusion.items() if label == wanted}
        wrong = ", ".join(f"{other} {number}" for other, number in sorted(counts.items()) if other != wanted)
        rows.append(f"{wanted:<{wide}}  {sum(counts.values()):5d}  {counts.get(wanted, 0):5d}  {wrong}".rstrip())
    return rows


def summary(name: str, count: Counter[str]) -> str:
    cases, healthy = count["cases"], count["healthy"]
    parts = []
    if cases:
        parts.append(f"class {count['class']}/{cases} ({count['class'] / cases:.0%})")
        parts.append(f"root line {count['line']}/{cases} ({count['line'] / cases:.0%})")
        parts.append(f"called healthy {count['called_healthy']}, without a cause {count['no_cause']}")
    if healthy:
        parts.append(f"false alarms {count['false_alarm']}/{healthy} ({count['false_alarm'] / healthy:.0%})")
    shares = (f"{level} {count[f'{level} right']}/{count[f'{level} named']}" for level in CONFIDENCES)
    return f"{name}: {'; '.join(parts)}; right at confidence {', '.join(shares)}"


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    labels_file, folder = sys.argv[1:3]
    if len(sys.argv) == 4:
        with open(sys.argv[3], encoding="utf-8") as stream:
            output = stream.read()
    else:
        predict = os.path.join(os.path.dirname(os.path.abspath(__file__)), "predict.py")
        output = subprocess.run([sys.executable, predict, folder], stdout=subprocess.PIPE, check=True, text=True).stdout
    with open(labels_file, encoding="utf-8") as stream:
        labels = [json.loads(line) for line in stream if line.strip()]
    result = score(
        labels, {prediction["id"]: prediction for prediction in map(json.loads, output.splitlines())}, folder
    )
    print("\n".join([*result["misses"], "", *table(result["confusion"]), ""]))
    for name, count in sorted(result["groups"].items()):
        print(summary(f"group {name}", count))
    print(summary("all", result["count"]))


if __name__ == "__main__":
    main()
