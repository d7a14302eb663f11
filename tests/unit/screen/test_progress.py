# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.progress import Progress


class Screen:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str | None]] = []
        self.now = 0.0
        self.progress = Progress(lambda line, color: self.lines.append((line, color)), "login", lambda: self.now)

    def metrics(self, text: str, now: float) -> None:
        self.now = now
        self.progress.events([Event("metrics", text)])

    @property
    def texts(self) -> list[str]:
        return [line for line, _color in self.lines]


def test_every_line_names_its_host_and_job() -> None:
    screen = Screen()
    screen.progress.show_line("hello")
    screen.progress.job_id = "7"
    screen.progress.events([Event("stuck", "held")])
    assert screen.lines == [("login: hello", None), ("login: job 7: held", "yellow")]


def test_step_lines_come_at_a_readable_pace_and_the_last_one_is_seen() -> None:
    screen = Screen()
    for index in range(10):
        screen.metrics(f"step {index}", index * 0.3)
    assert screen.texts == ["login: step 0", "login: step 4", "login: step 8"]
    screen.progress.flush()
    screen.progress.flush()
    assert screen.texts[-1] == "login: step 9" and len(screen.texts) == 4


def test_a_held_step_line_comes_before_what_followed_it() -> None:
    screen = Screen()
    screen.metrics("step 1", 0.0)
    screen.metrics("step 2", 0.1)
    screen.progress.events([Event("requeued", "back in the queue")])
    assert screen.texts == ["login: step 1", "login: step 2", "login: back in the queue"]


def test_a_held_line_is_shown_by_the_next_quiet_poll() -> None:
    screen = Screen()
    screen.metrics("step 1", 0.0)
    screen.metrics("step 2", 0.5)
    screen.now = 2.0
    screen.progress.events([])
    assert screen.texts == ["login: step 1", "login: step 2"]


def test_steps_of_which_the_end_is_known_are_a_bar_on_a_terminal() -> None:
    drawn: list[str] = []
    lines: list[str] = []
    progress = Progress(lambda line, _color: lines.append(line), "login", lambda: 0.0, bar=drawn.append, width=60)
    progress.job_id = "7"
    progress.events([Event("metrics", "step 5/10 loss 1", 0.5)])
    assert drawn == ["login: job 7: [############............]  50% step 5/10 loss 1"[:59]] and lines == []
    progress.events([Event("requeued", "back in the queue")])
    assert drawn[1:] == [" " * len(drawn[0]), ""], "the bar is wiped before a line is shown"
    assert lines == ["login: job 7: step 5/10 loss 1", "login: job 7: back in the queue"]
    progress.events([Event("metrics", "loss 1")])
    assert lines[-1] == "login: job 7: back in the queue", "held back"
    progress.flush()
    assert lines[-1] == "login: job 7: loss 1"
