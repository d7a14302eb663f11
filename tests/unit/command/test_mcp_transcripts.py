# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The budget of `rankzero mcp` under calls that are drawn: at the same time, twice, late, lost, with another server.

The cluster is a model that launches once for a word, as `run --planned` does.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rankzero import errors
from rankzero.documents import written
from rankzero.mcp_server.tools import Settings, Tools
from rankzero.parsing import parse

TRANSCRIPTS, BUDGET = 200, 30


class Model:
    """A cluster. Name and minutes of a job are in its file, and no part of its key; a launch may fail at any time."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.lock = draw, threading.Lock()
        #: ((name, key), generation) -> node-minutes of its job, and how often it was submitted.
        self.jobs: dict[tuple[tuple[str, str], int], int] = {}
        self.submitted: list[tuple[tuple[str, str], int]] = []
        self.ended: set[tuple[tuple[str, str], int]] = set()

    def __call__(self, words: Sequence[str]) -> dict[str, Any]:
        with self.lock:
            name, program, minutes = Path(words[1]).read_text(encoding="utf-8").split()
            key = hashlib.sha256(program.encode()).hexdigest()[:16]
            newest = max((number for own, number in self.jobs if own == (name, key)), default=0)
            over = newest and ((name, key), newest) in self.ended
            generation = newest + 1 if over or not newest else newest
            if words[0] == "plan":
                return written("plan", [{"planned": f"{name}/{key}/{generation}/{minutes}"}])
            fate = self.draw.choice(("answer", "answer", "before", "after"))
            if fate == "before":
                raise TimeoutError("killed before it has done anything")
            *own, last, most = words[words.index("--planned") + 1].split("/")
            if own != [name, key] or int(minutes) > int(most):
                return written("run", [], errors.REFUSED, "planned: another launch", "plan_again")
            if generation > newest and generation <= int(last):
                self.jobs[(name, key), generation] = int(minutes)
                self.submitted.append(((name, key), generation))
        if fate == "after":
            raise TimeoutError("the answer is lost")
        time.sleep(0)
        return written("run", [{"submission": "submitted"}])


@pytest.mark.parametrize("seed", range(0, TRANSCRIPTS, 20))
def test_no_order_of_calls_passes_the_budget_or_doubles_a_launch(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    launched = 0
    for number in range(seed, seed + 20):
        draw = random.Random(number)
        folder = tmp_path / str(number)
        folder.mkdir()
        model = Model(draw)
        _transcript(draw, folder, model)
        assert len(model.submitted) == len(set(model.submitted)), number
        assert sum(model.jobs.values()) <= BUDGET, (number, model.jobs)
        launched += len(model.jobs)
    assert launched > 20, "the budget lets something run"


def _transcript(draw: random.Random, folder: Path, model: Model) -> None:
    options = ["mcp", "--jobs", str(folder), "--allow", "run", "--budget", f"node_hours={BUDGET / 60}"]
    words: list[tuple[str, str]] = []
    for letter in "abc":
        (folder / f"{letter}.yml").write_text(f"{letter} same 10", encoding="utf-8")
    for _server in range(3):
        # Another one in the place of the one before: it knows only the file of its budget.
        tools = Tools(Settings.of(parse(options)), model)
        with ThreadPoolExecutor(4) as pool:
            for _step in range(8):
                job = f"{draw.choice('abc')}.yml"
                step = draw.choice(("plan", "plan", "run", "twice", "late", "edit", "end"))
                if step == "plan" or not words:
                    words.append((job, tools.plan(job)["document"]["launches"][0]["planned"]))
                elif step == "edit":
                    content = f"{job[0]} {draw.choice(('same', 'same', 'other'))} {draw.choice((5, 10, 20, 60))}"
                    (folder / job).write_text(content, encoding="utf-8")
                elif step == "end":
                    model.ended |= {each for each in model.jobs if draw.random() < 0.5}
                else:
                    given = words[-1] if step == "run" else draw.choice(words)
                    calls = [pool.submit(tools.run, *given) for _time in range(3 if step == "twice" else 1)]
                    [call.exception() for call in calls]
