# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a reconciliation as Markdown, made from the result of the module."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.lines import PlanLine
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import ACTIONS, Step
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.markdown import MOST_ROWS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.plan import plan_markdown

NEW = PlanLine(
    Step("launch", "gpt-wide", "ab12", "no launch of this content is there", "wide.yml"),
    changes=["command --steps 100 -> 200", "train.py +3 -1"],
    node_hours=16.0,
)
GONE = PlanLine(Step("gone", "old", "cd34", "its spec is gone, and nothing of it is active", job_id="790"))
SAME = PlanLine(Step("unchanged", "small", "ef56", "has succeeded: | [x](javascript:y) @all", "small.yml"))


def result(*lines: PlanLine, **more: Any) -> dict[str, Any]:
    """What the action returns about a plan."""
    origin = {"repository": None, "commit": "3f0c1d2a9b77", "branch": "main", "dirty": False, "folder": "jobs"}
    return {"set": "jobs", "provenance": origin, "steps": [line.result() for line in lines], **more}


def rows(text: str) -> list[list[str]]:
    """The cells of the lines of a table, without its head."""
    return [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| ")][2:]


def test_each_line_says_action_job_values_and_node_hours() -> None:
    text = plan_markdown({"login": result(SAME, GONE, NEW)}, None)
    launch, gone, same = rows(text)
    assert launch == [
        "| launch",
        r"gpt-wide \(wide.yml\)",
        r"command --steps 100 -\> 200, train.py \+3 -1",
        "16 |",
    ], "what is done comes first"
    assert gone[:2] == ["| gone", r"old \(removed, job 790\)"] and gone[-1] == "- |"
    assert same[0] == "| unchanged" and r"\| \[x\]" in text and r"\@all" in text, "text is no Markdown"
    assert "Launches: 1, at most 16 node-hours.\n" in text and "login: jobs at 3f0c1d2a9b\n" in text


def test_what_has_no_limit_and_what_is_not_possible_is_said() -> None:
    free = PlanLine(Step("launch", "a", "1", "new", "a.yml"), error="resources.partition: nowhere")
    text = plan_markdown({"login": result(free, NEW)}, "1 launch was not possible:\n````\n  - a: nowhere")
    assert rows(text)[0][2] == "not possible: resources.partition: nowhere"
    assert "at most 16 node-hours and what the launches without a time limit use." in text
    assert text.endswith("### Not possible\n\n````\n1 launch was not possible:\n''''\n  - a: nowhere\n````\n")
    many = plan_markdown({"login": result(*[NEW] * (MOST_ROWS + 3))}, None)
    assert len(rows(many)) == MOST_ROWS and "And 3 more lines." in many
    assert "### Not possible" in plan_markdown({}, "no route to login")


def test_every_action_has_its_place() -> None:
    lines = [PlanLine(Step(action, action, "1", "why", "a.yml")) for action in ACTIONS]
    shown = [row[0].removeprefix("| ") for row in rows(plan_markdown({"login": result(*lines)}, None))]
    assert sorted(shown) == sorted(ACTIONS) and set(shown[-2:]) == {"adopt", "unchanged"}
