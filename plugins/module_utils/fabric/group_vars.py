# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The measured choice as a group_vars file for review: what was measured, when, and how much better it is. Pure.

The second line contains a digest of the rest, so that a file that somebody has changed is recognised.
"""

from __future__ import annotations

import hashlib
import json

from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.documents import (
    Candidate,
    Judged,
    Suggested,
    SweepResult,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.report import candidate, day, title
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.words import shown_size, shown_speed

VARIABLE, FABRIC = "nccl_measured", "measured"
MARK = "# Written by rankzero.slurm.fabric, sha256 "


def render(result: SweepResult, judged: Judged, suggested: Suggested) -> str:
    """The text of the file."""
    chosen = candidate(result, result["chosen"])
    sizes = result["plan"]["sizes"]
    body = [
        f"# {title(result)}; sizes {shown_size(sizes[0])} to {shown_size(sizes[-1])}.",
        *(f"# {_one_line(finding)}" for finding in judged["findings"]),
        f"# {suggested['looks_like'][0].upper()}{suggested['looks_like'][1:]}.",
        *(f"# Fabric {fabric['fabric']} fits: {_one_line(fabric['reason'])}." for fabric in suggested["fabrics"]),
        "#",
        "# For review. Nothing uses it until the cluster's own settings name it, which have the last word:",
        "#   launch_cluster:",
        f"#     fabric: {FABRIC}",
        f'#     fabrics: "{{{{ {VARIABLE} }}}}"',
        *_settings(result, chosen),
    ]
    text = "\n".join(body) + "\n"
    return f"---\n{MARK}{_digest(text)}\n{text}"


def measured(result: SweepResult) -> dict[str, dict[str, str]]:
    """The variables of the best candidate, each with value and reason.

    This includes variables of the current fabric, because a cluster that is switched to the new fabric loses those of
    the old one.
    """
    chosen = candidate(result, result["chosen"])
    reason = f"measured {day(result)}: {_why(result, chosen)}"
    return {name: {"value": value, "reason": reason} for name, value in sorted(chosen["variables"].items())}


def _why(result: SweepResult, chosen: Candidate) -> str:
    """For example: ib1 612 MB/s, 6.2 times current (98 MB/s)"""
    current, *others = result["candidates"]
    if chosen is current:
        best = f", better than {', '.join(candidate['name'] for candidate in others)} or as good" if others else ""
        return f"{current['name']} {shown_speed(current['median'])}{best}"
    times = f"{chosen['median'] / current['median']:.2g} times " if current["median"] else "against "
    over = f" over {current['interface']}" if result["backend"] != "nccl" else ""
    return (
        f"{chosen['name']} {shown_speed(chosen['median'])}, {times}{current['name']} "
        f"({shown_speed(current['median'])}{over})"
    )


def _settings(result: SweepResult, chosen: Candidate) -> list[str]:
    count = len(result["nodes"])
    compared = [
        f"    # {other['name']}: {shown_speed(other['median'])}, median of the best pairs of {count} nodes"
        for other in result["candidates"]
    ]
    settings = measured(result)
    lines = [f"{VARIABLE}:", f"  {FABRIC}:", *compared]
    if chosen is result["candidates"][0]:
        lines.append(f"    # What a job gets now ({_over(result, chosen)}) was the best.")
    if not settings:
        return [*lines, "    {}"]
    for name, setting in settings.items():
        lines += [
            f"    # {setting['reason']}",
            f"    {name}:",
            f"      value: {json.dumps(setting['value'])}",
            f"      reason: {json.dumps(setting['reason'])}",
        ]
    return lines


def _over(result: SweepResult, chosen: Candidate) -> str:
    return "as NCCL chooses" if result["backend"] == "nccl" else f"over {chosen['interface']}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def is_ours(text: str) -> bool:
    """Whether a file is unchanged since it was written here, and so may be overwritten."""
    head, _newline, rest = text.partition("\n")
    mark, _newline, body = rest.partition("\n")
    return head == "---" and mark == MARK + _digest(body)
