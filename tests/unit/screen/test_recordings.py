# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screens that the pages show have the form of today's rows: each row is compared with what the code makes of it.

`python -m tests.cluster.record_screens` records those of docs/screen.md anew.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import LaunchResult
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import results
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import (
    NOTHING_KNOWN,
    Ending,
    Launched,
    Proof,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.launch_rows import (
    Waiting,
    head,
    launched,
    looked_at,
    numbers,
    steps,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import OK, RUNNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import report
from tests.blocks import blocks

TIME = r"(?:\d+\.\d s|\d+ s|\d+ min \d\d s|\d+ h \d\d min)"
NODES = r"[\w\[\],-]+(?: [\w-]+)*"
KEY = r"[0-9a-f]{12}"
# A row that remains, perhaps after its host: mark, step, text, and the time at the right edge.
ROW = re.compile(rf"(?:\w+ +)? (?:ok|!!) (code|env|job \d+|preflight|step)(?= ) +(.+?)(?: {{2,}}({TIME}))?")
HEAD = re.compile(r"(?:\w+ {2})?([\w-]+ {2}[0-9a-f]{8} {2}\d+ nodes? x .*?) {2,}[\w.]+")
LEDGER = re.compile(r"[\d.]+ node-(?:minutes|hours): .*")
PROVEN = re.compile(r"(?:\w+ +)?(Proven in .*)")


def form(text: str, **holes: tuple[str, str]) -> str:
    """A pattern: this text, with another pattern in the place of each of its examples."""
    pattern = re.escape(text)
    for example, hole in holes.values():
        assert re.escape(example) in pattern, (example, text)
        pattern = pattern.replace(re.escape(example), hole)
    return pattern


def waited(attached: bool, queue: str) -> list[Row]:
    rows: list[Row] = []
    waiting = Waiting(rows.append, "lab", "1", lambda: 5.0, attached=attached)
    waiting.begin()
    waiting.events([Event("queued", "", nodes=(queue,)), Event("started", "", nodes=("n1", "n2"))])
    watch = Watch("/s/runs/gpt/72ee2a7000000000/1", "1", launched=2)
    waiting.update(watch)
    waiting.end(True, "the artifact is proven")
    return rows


def test_the_row_of_a_job_is_closed_when_another_one_of_its_launch_runs() -> None:
    rows: list[Row] = []
    waiting = Waiting(rows.append, "lab", "1", lambda: 5.0)
    waiting.begin()
    waiting.events([Event("followed", "job 2 owns this launch, not job 1: following it")])
    waiting.job_id = "2"
    waiting.events([Event("started", "", nodes=("n1",))])
    states = [(row.name, row.state) for row in rows if row.name.startswith("job")]
    assert states == [("job 1", RUNNING), ("job 1", OK), ("job 2", OK)]


MADE = {"name": "gpt", "key": "k", "generation": 1, "run_dir": "/r", "changed": True, "job_id": "1"}


def texts_of(**result: Any) -> list[str]:
    facts = {"code": "5 files", "environment": "a37d4b0bb4d9"}
    return [row.text for row in launched("lab", LaunchResult(**{**MADE, **result}), facts, ())]


def step_forms(name: str, action: str, result: dict[str, Any], *holes: tuple[str, str]) -> str:
    (row,) = results.done("lab", f"rankzero.slurm.{action}", "", result, 1.0)
    assert row.name == name
    return form(row.text, **{str(number): hole for number, hole in enumerate(holes)})


def forms() -> dict[str, list[str]]:
    """Step -> the patterns of its texts."""
    digits, key = r"\d+", ("a37d4b0bb4d9", KEY)
    size = ("25 kB", r"[\d.]+ (?:[kMG]?B|bytes)")
    cached, environment = texts_of(submission="submitted")[:2]
    seen = [
        texts_of(submission="unchanged", standing="succeeded")[0],
        texts_of(submission="absent", changed=True)[0],
    ]
    pinned = {"packages": {"torch": "2.13.0+cpu", "numpy": "2.4.6"}}
    queued, at_once = waited(False, "n1 n2"), waited(True, "n1 n2")
    (ended,) = {row.text for row in queued if row.name == "step" and row.state == "ok"}
    metrics, step, loss = Metrics(60, 70, 2.5, 51000.0), ("60/70", r"\d+/\d+"), ("2.5", r"[\d.e-]+")
    names = ("torch 2.13.0+cpu, numpy 2.4.6, ", ".*")
    return {
        "code": [
            form(cached, count=("5", digits)).replace("files", "files?"),
            step_forms("code", "code_snapshot", {"ref": {"key": "a37d4b0bb4d9"}, "sent": 25_000}, key, size),
            step_forms("code", "code_snapshot", {"ref": {"key": "a37d4b0bb4d9"}}, key),
        ],
        "env": [
            form(environment, key=key),
            step_forms("env", "uv_environment", {"ref": {"key": "a37d4b0bb4d9"}}, key),
            step_forms("env", "uv_environment", {"environment": pinned}, names, ("2 packages", r"\d+ packages?")),
        ],
        "job": [
            *(form(row.text, nodes=("n1 n2", NODES), time=("0 s", TIME)) for row in queued if "->" in row.text),
            *(form(row.text, nodes=("n1 n2", NODES)) for row in at_once if row.text == "n1 n2"),
            *map(re.escape, seen),
        ],
        "preflight": [form(looked_at(3, 7), done=("3", digits), all=("7", digits)), form(looked_at(1, 1))],
        "step": [
            re.escape(ended),
            form(f"{steps(metrics)}  {numbers(metrics)}", step=step, loss=loss, rate=("51k", r"[\d.]+[kMG]?")),
            form(f"{steps(metrics)}  {numbers(Metrics(60, 70, 2.5, None))}", step=step, loss=loss),
            form(numbers(Metrics(None, None, 2.5, None)), loss=loss),
        ],
    }  # fmt: skip


def head_form() -> str:
    shape = SimpleNamespace(ranks_per_node=7)
    resources = SimpleNamespace(partition="", time="00:20:00")
    spec = SimpleNamespace(script=None, resources=resources, launcher=SimpleNamespace(inside_job=None))
    job = SimpleNamespace(nodes=3)
    plan: Any = SimpleNamespace(topology=shape, job=job, roles=(), spec=spec, name="gpt", key="deadbeef")
    text = head("lab", plan).text
    holes = {"name": ("gpt", r"[\w-]+"), "key": ("deadbeef", "[0-9a-f]{8}"), "time": ("20 min", r"(?:\w+, )?[\w ]+")}
    return form(text, **holes, nodes=("3 nodes", r"\d+ nodes?"), ranks=("7 ranks", r"\d+ ranks?"))


def proven_form() -> str:
    launch = Launched("gpt", "/s", proof=Proof("result.json", {"loss": {"lt": 3}}))
    outcome: Outcome = {"artifact": {"scalars": {"loss": 0.25}}}
    end = replace(NOTHING_KNOWN, standing="succeeded", wall_time=29.0, outcome=outcome)
    text = report({}, Ending(launch, end))[0].text
    assert text == "Proven in 29 s: loss 0.25 (< 3)"
    value = r"[\w.+-]+ [\w.+-]+(?: \([<>=!]{1,2} [\w.+-]+\))?"
    # A narrow terminal breaks the line between words; a job may have no values.
    return rf"Proven in {TIME}(?:: (?:{value},? ?)+(?:and \d+ more|[\w.+-]+)?)?(?: {{2,}}\S+)?"


def wrong(text: str) -> str:
    """What is wrong with a line of a recording; empty if it is no row, or one that the code prints."""
    if row := ROW.fullmatch(text):
        step = row[1].split()[0]
        if not any(re.fullmatch(pattern, row[2]) for pattern in forms()[step]):
            return f"the text of a row `{step}` looks different now: {row[2]}"
    elif line := HEAD.fullmatch(text):
        if not re.fullmatch(head_form(), line[1]):
            return f"the first row looks different now: {line[1]}"
    elif (end := PROVEN.fullmatch(text)) and not re.fullmatch(proven_form(), end[1]):
        return f"the last row looks different now: {end[1]}"
    return ""


def test_rows_in_the_pages_are_those_of_today() -> None:
    lines = [(block.place, line) for block in blocks() for line in block.text.splitlines()]
    rows = [(place, line) for place, line in lines if ROW.fullmatch(line) or HEAD.fullmatch(line)]
    assert len(rows) > 60, "the recordings were not found: this test would pass on anything"
    assert {ROW.fullmatch(line)[1].split()[0] for _place, line in rows if ROW.fullmatch(line)} == set(forms())  # type: ignore[index]
    stale = [f"{place}: {line}: {why}" for place, line in lines if (why := wrong(line))]
    assert not stale, "record them again (see the top of this file):\n" + "\n".join(stale)


def test_a_recorded_launch_ends_with_what_its_hours_went_to() -> None:
    """The line before that of the logs. Just after a job's end, as among several clusters, it may not be known yet."""
    without, seen = [], 0
    for recording in blocks():
        lines = recording.text.splitlines()
        for number, line in enumerate(lines):
            if re.fullmatch(r"logs runs/\S+", line):
                seen += 1
                if not LEDGER.fullmatch(lines[number - 1]):
                    without.append(f"{recording.place}: {line}")
    assert seen > 5 and not without, without


@pytest.mark.parametrize(
    "line",
    [
        " ok job 6     queued 3 s, on node01 node02",
        " ok code      4 files",
        " ok env       a37d4b0b (cached)",
        " ok preflight 2/2 nodes                                                3.0 s",
        " ok step      loss=2.1",
        "first-run  04a1a331  4 nodes x 2 ranks for 20 min      lab",
        "Proven in 29 s, loss 0.25",
    ],
)
def test_a_row_of_another_form_is_noticed(line: str) -> None:
    assert wrong(line), line
