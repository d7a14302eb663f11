# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line of the card about what the hours went to, from what the wait returned and the fetched logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hours import hours
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import report
from tests.unit.page.runs import stamp
from tests.unit.screen.test_card import END, LAUNCH

BEGAN = 1_700_000_000.0


def waited(**more: Any) -> dict[str, Any]:
    """The result of a wait that has seen the end."""
    span = {"attempt": 0, "began": BEGAN + 1, "ended": BEGAN + 100, "ranks": BEGAN + 10, "proven": BEGAN + 90}
    return {
        **vars(END), "attempt": 0, "finished_at": BEGAN + 100, "polls": 5,
        "journal": [{"event": "intent", "time": BEGAN - 60}],
        "allocations": [{"job_id": "7", "began": BEGAN, "ended": None, "nodes": 2}],
        "spans": [{**span, "job_id": "7", "nodes": 2, "succeeded": True}], **more,
    }  # fmt: skip


def fetched(folder: Path) -> str:
    logs = folder / "logs" / "0"
    logs.mkdir(parents=True)
    lines = [f"{stamp(BEGAN + 20 + step)} step {step} loss 1.5\n" for step in range(1, 61)]
    (logs / "rank-0000.log").write_text("".join(lines))
    return str(logs.parent)


def test_the_end_of_a_launch_that_was_waited_for(tmp_path: Path) -> None:
    logs = fetched(tmp_path)
    ledger = hours(waited(), logs)
    assert ledger is not None
    sentence = "3.3 node-minutes: 69 % steps, 11 % start-up, 10 % set-up, 10 % idle at the end; queue 1 min 00 s"
    assert ledger["sentence"] == sentence and ledger["node_seconds"] == 200 and not ledger["accounted"]
    ending = Ending(LAUNCH, END, hours=sentence)
    assert f"  hours     {sentence}" in card(ending) and sentence in [row.text for row in report({}, ending)]
    table = (tmp_path / "ledger.csv").read_text().splitlines()
    assert table[0] == "part,node_seconds,node_hours,gpu_hours,share" and table[4] == "steps,138,0.0383333,,0.69"


def test_a_launch_that_had_ended_before_is_not_read_again(tmp_path: Path) -> None:
    logs = fetched(tmp_path)
    assert hours(waited(polls=0), logs) is None and not (tmp_path / "ledger.json").exists()
    first = hours(waited(), logs)
    (tmp_path / "logs" / "0" / "rank-0000.log").write_text("")
    assert hours(waited(polls=0), logs) == json.loads(json.dumps(first))
    # Another end of the same launch is not this one.
    assert hours(waited(polls=0, finished_at=BEGAN + 900), logs) is None
    (tmp_path / "ledger.json").write_text("half a li")
    assert hours(waited(polls=0), logs) is None
