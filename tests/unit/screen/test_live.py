# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch on the screen, event by event: recorded rows drawn by the real painter, the screens compared whole.

A terminal is imitated as far as the painter uses one: text, ends of lines, the cursor up, and wiping below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import LaunchResult
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import results
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.launch_rows import Waiting, launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.painter import Painter
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import (
    FAILED,
    HEAD,
    NOTE,
    OK,
    RUNNING,
    WARNING,
    Board,
    Row,
    settings,
)

ANSI = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class Terminal:
    """What a terminal of some width shows of what is written to it."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines = [""]
        self.row = 0
        self.home = False
        self.written = ""

    def write(self, text: str) -> None:
        self.written += text
        for part in re.split(r"(\x1b\[[0-9;]*[A-Za-z]|\r|\n)", text):
            code = ANSI.fullmatch(part)
            if code and code[2] == "A":
                self.row -= int(code[1])
            elif code and code[2] == "J":
                self.lines[self.row :] = [""]
            elif part == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif part == "\r":
                self.home = True
            elif part and not code:
                assert not self.home or self.lines[self.row] == "", "nothing is written over what stands there"
                rest, self.home = self.lines[self.row] + part, False
                while len(rest) > self.width:
                    self.lines[self.row] = rest[: self.width]
                    self.lines.append("")
                    self.row, rest = self.row + 1, rest[self.width :]
                self.lines[self.row] = rest

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")


class Screen:
    def __init__(self, width: int = 80, *, live: bool = True, colour: bool = False, height: int = 24) -> None:
        self.now = 100.0
        self.size = width, height
        self.terminal = Terminal(width if live else 10_000)
        self.painter = Painter(self.terminal.write, lambda: self.now, lambda: self.size, live=live, colour=colour)
        self.waiting = Waiting(self.painter.add, "login.ux", "2", lambda: self.now, wall=lambda: self.now + 1e9)
        self.watch = Watch("/s/runs/myproj/72ee2a7000000000/1", "2")

    def passes(self, seconds: float) -> None:
        for _half in range(round(seconds * 2)):
            self.now += 0.5
            self.painter.tick()

    def submitted(self) -> None:
        head = "myproj  72ee2a70  2 nodes x 2 ranks, batch, 10 min"
        self.painter.add(Row("login.ux", HEAD, text=head, right="login.ux"))
        done = LaunchResult("myproj", "72ee2a70", 1, "/r", "submitted", True, "2")
        missing = replace(done, submission="missing", changed=False, job_id=None, missing=[Ref("code", "k", "/c")])
        facts = {"code": "4 files", "environment": "6b3d016ae24e"}
        for row in launched("login.ux", missing, facts, ()):
            self.painter.add(row)
        action = "rankzero.slurm.code_snapshot"
        self.painter.begin_task(results.running("login.ux", action, "Publish the code"))
        self.passes(1)
        seconds = self.painter.end_task("login.ux")
        for row in results.done("login.ux", action, "", {"ref": {"key": "1e1c97e98cb9"}, "sent": 4200}, seconds):
            self.painter.add(row)
        for row in launched("login.ux", done, facts, ()):
            self.painter.add(row)

    def started(self) -> None:
        self.waiting.begin()
        self.passes(2)
        self.waiting.events([Event("queued", "running on node[01-02], setting up", nodes=("node[01-02]",))])
        self.passes(3)
        self.waiting.events([Event("started", "started on 2 nodes", nodes=("node01", "node02"))])
        self.launched(2)

    def launched(self, nodes: int) -> None:
        """The preflight has ended, and the ranks start."""
        self.watch.launched = nodes
        self.waiting.update(self.watch)

    def steps(self, count: int, seconds: float = 1.0) -> None:
        begin = self.watch.metrics.step or 0 if self.watch.metrics else 0
        for step in range(begin + 1, begin + 1 + count):
            self.passes(seconds)
            self.watch.metrics = Metrics(step, 200, 3.0 - step / 100, 51234.0)
            self.watch.fraction = step / 200
            self.watch.pace.heard = self.now
            self.watch.pace.step(step, 200, self.now)
            self.waiting.update(self.watch)

    def limited(self, seconds: float) -> None:
        """Slurm knows when the time limit will end the job."""
        self.watch.record = JobRecord("2", "gpt", "RUNNING", limit=self.now + 1e9 + seconds)

    def stands(self, seconds: float) -> None:
        for _second in range(round(seconds)):
            self.passes(1)
            self.watch.stands = self.watch.pace.stands(self.now)
            self.waiting.update(self.watch)


HEAD_LINES = """\
myproj  72ee2a70  2 nodes x 2 ranks, batch, 10 min                     login.ux
 ok env       6b3d016ae24e (cached)
 ok code      1e1c97e98cb9  4 kB sent                                     1.0 s
 ok job 2     queued 2 s -> node[01-02]
 ok preflight 2 of 2 nodes                                                3.0 s"""


PIPE = """\
myproj  72ee2a70  2 nodes x 2 ranks, batch, 10 min                     login.ux
 ok env       6b3d016ae24e (cached)
 ok code      1e1c97e98cb9  4 kB sent                                     1.0 s
 >  job 2     submitted
 ok job 2     queued 2 s -> node[01-02]
 >  preflight setting up  0:02
 ok preflight 2 of 2 nodes                                                3.0 s
 >  step      1/200 ..........  loss 2.99  51k tok/s  0:02, last line 1 s ago
 >  step      11/200 #.........  loss 2.89  51k tok/s  0:12, about 3 min 08 s left, last line 1 s ago
 >  step      21/200 #.........  loss 2.79  51k tok/s  0:22, about 2 min 58 s left, last line 1 s ago
 ok step      25/200  loss 2.75  51k tok/s                                 25 s"""


def shown(screen: Screen) -> list[str]:
    return screen.terminal.text.split("\n")


@pytest.mark.parametrize(
    ("width", "step"),
    [
        (160, " >  step      60/200 ###.......  loss 2.4  51k tok/s  1:03, about 2 min 17 s left, last line 3 s ago"),
        (100, " >  step      60/200  loss 2.4  51k tok/s  1:03, about 2 min 17 s left, last line 3 s ago"),
        (80, " >  step      60/200  loss 2.4  51k tok/s  1:03, about 2 min 17 s left"),
        (50, " >  step      60/200  loss 2.4  51k tok/s  1:03"),
        (30, " >  step      60/200  1:03"),
        (22, " >  step      60/2..."),
    ],
)
def test_what_does_not_fit_goes_the_least_important_first(width: int, step: str) -> None:
    screen = Screen(width)
    screen.submitted()
    screen.started()
    screen.steps(60)
    screen.passes(3)
    assert shown(screen)[-1] == step
    assert max(map(len, shown(screen)[-1:])) < width


def test_a_terminal_shows_the_rows_that_run_below_the_others() -> None:
    screen = Screen(80)
    screen.submitted()
    screen.waiting.begin()
    screen.passes(2)
    assert shown(screen)[-1] == " >  job 2     queued  0:02"
    screen.passes(0)
    screen.waiting.events([Event("queued", "", nodes=("node[01-02]",))])
    screen.passes(3)
    assert shown(screen)[-1] == " >  preflight setting up  0:03"
    screen.waiting.events([Event("started", "", nodes=("node01", "node02"))])
    assert shown(screen)[-1] == " >  preflight setting up  0:03", "the preflight has not ended"
    screen.launched(2)
    assert shown(screen) == [*HEAD_LINES.split("\n"), " >  step      waiting for the first step"]
    screen.steps(30)
    screen.waiting.end(True, "COMPLETED")
    screen.painter.close("")
    assert (
        screen.terminal.text
        == f"{HEAD_LINES}\n ok step      30/200  loss 2.7  51k tok/s                                  30 s"
    )


def test_a_job_that_continues_after_the_wait_has_not_failed() -> None:
    screen = Screen(80)
    screen.submitted()
    screen.started()
    screen.waiting.end(None, "started; not waiting for its end")
    screen.painter.close("")
    assert shown(screen)[-1].startswith(" !  step      waiting for the first step  no longer watched")


def test_a_slow_task_leaves_no_row_that_runs() -> None:
    board = Board()
    task = Row("h", RUNNING, text="Read the status of launches")
    board.begin_task(task, 0.0)
    assert [running.row for running in board.due(12.0)] == [task]
    assert board.end_task("h", 13.0) == 13.0
    assert board.due(90.0) == [] and board.rest() == []


def test_a_pipe_gets_each_line_once_and_steps_now_and_then() -> None:
    screen = Screen(live=False)
    screen.submitted()
    screen.started()
    screen.steps(25)
    screen.waiting.end(True, "COMPLETED")
    screen.painter.close("")
    assert screen.terminal.text == PIPE
    assert "\x1b" not in screen.terminal.written and "\r" not in screen.terminal.written


def test_a_late_step_has_no_estimate_of_the_end() -> None:
    screen = Screen(160)
    screen.submitted()
    screen.started()
    screen.steps(12)
    screen.limited(600)
    screen.stands(5)
    assert ", about 3 min 03 s left, last line 5 s ago" in shown(screen)[-1]
    screen.stands(20)
    assert shown(screen)[-1].endswith("0:37, limit in 9 min 35 s, last line 25 s ago")


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_row_keeps_the_age_of_what_stands(width: int) -> None:
    screen = Screen(width)
    screen.submitted()
    screen.started()
    screen.limited(600)
    screen.steps(12)
    screen.stands(75)
    assert "last step 1 min 15 s ago" in shown(screen)[-1] and ("stands still" in shown(screen)[-1] or width < 80)


def test_a_hanging_job_says_so_and_tells_the_times() -> None:
    """No step for longer than ten usual ones and a minute: the row says so, and so does a line in a pipe."""
    screen = Screen(160)
    screen.submitted()
    screen.started()
    screen.limited(600)
    screen.waiting.update(screen.watch)
    assert shown(screen)[-1] == " >  step      waiting for the first step  limit in 10 min 00 s"
    screen.steps(12)
    screen.stands(75)
    assert shown(screen)[-1] == (
        " >  step      12/200 #.........  loss 2.88  51k tok/s  stands still"
        "  1:27, limit in 8 min 33 s, last step 1 min 15 s ago"
    )
    pipe = Screen(live=False)
    pipe.submitted()
    pipe.started()
    pipe.steps(12)
    pipe.stands(150)
    assert shown(pipe)[-2:] == [
        " >  step      12/200 #.........  loss 2.88  51k tok/s  stands still  1:12, last step 1 min 00 s ago",
        " >  step      12/200 #.........  loss 2.88  51k tok/s  stands still  2:12, last step 2 min 00 s ago",
    ]


def test_several_hosts_have_their_names_before_their_rows() -> None:
    screen = Screen(80)
    screen.painter.hosts = len("login.ux")
    for host in ("login.ux", "lab"):
        screen.painter.add(Row(host, HEAD, text="gpt  72ee2a70", right=host))
        screen.painter.add(Row(host, RUNNING, "job 2", "queued"))
    screen.painter.add(Row("lab", OK, "job 2", "queued 2 s -> node01", timed=False))
    assert shown(screen) == [
        "login.ux  gpt  72ee2a70                                                login.ux",
        "lab       gpt  72ee2a70                                                     lab",
        "lab        ok job 2     queued 2 s -> node01",
        "login.ux   >  job 2     queued",
    ]


def test_a_terminal_that_became_narrower_is_wiped_whole() -> None:
    screen = Screen(100)
    screen.painter.add(Row("h", NOTE, text="above"))
    screen.painter.add(Row("h", RUNNING, "step", "x" * 70))
    # The terminal breaks what stands there.
    screen.size = (50, 24)
    line = screen.terminal.lines.pop()
    screen.terminal.lines += [line[:50], line[50:]]
    screen.terminal.width, screen.terminal.row = 50, 2
    screen.painter.add(Row("h", OK, "step", "done"))
    assert screen.terminal.text == "above\n ok step      done                          0.0 s"


def test_a_long_line_goes_on_below_its_text() -> None:
    screen = Screen(40)
    screen.painter.add(Row("h", NOTE, text="    ValueError: shape [56, 64, 3] is invalid for input of size 688128"))
    screen.painter.add(Row("h", NOTE, text="a remark that is longer than the terminal is wide"))
    assert shown(screen) == [
        "    ValueError: shape [56, 64, 3] is",
        "        invalid for input of size",
        "        688128",
        "a remark that is longer than the",
        "terminal is wide",
    ]


def test_each_item_of_a_loop_has_its_own_time() -> None:
    screen = Screen(80)
    screen.painter.begin_task(Row("h", RUNNING, "code", "publishing"))
    screen.passes(2)
    assert screen.painter.end_item("h") == 2.0
    screen.passes(3)
    assert screen.painter.end_item("h") == 3.0


def test_more_rows_than_the_terminal_has_lines() -> None:
    screen = Screen(80, height=6)
    for number in range(9):
        screen.painter.add(Row(f"host{number}", RUNNING, "job 1", "queued"))
    assert shown(screen) == [*[" >  job 1     queued"] * 3, "    and 6 more"]


def test_others_write_above_the_rows() -> None:
    screen = Screen(80)
    screen.painter.add(Row("h", RUNNING, "step", "1/2"))
    screen.painter.above("[WARNING]: something\n", screen.terminal.write)
    screen.painter.tick()
    assert shown(screen) == ["[WARNING]: something", " >  step      1/2"]
    screen.painter.above("Password: ", screen.terminal.write)
    screen.passes(2)
    assert shown(screen) == ["[WARNING]: something", "Password:"], "nothing is drawn while somebody is asked"


def test_an_interrupted_screen_leaves_plain_lines_and_the_cursor() -> None:
    screen = Screen(80)
    screen.submitted()
    screen.started()
    screen.painter.close("no longer watched")
    assert shown(screen)[-1] == " !  step      waiting for the first step  no longer watched"
    assert screen.terminal.text.startswith(HEAD_LINES)
    assert "\x1b[?25l" not in screen.terminal.written


def test_colours_are_only_where_they_are_wanted() -> None:
    for colour in (True, False):
        screen = Screen(80, colour=colour)
        screen.painter.add(Row("h", OK, "code", "4 files"))
        screen.painter.add(Row("h", FAILED, "env", "no"))
        assert ("\x1b[3" in screen.terminal.written) is colour
        assert shown(screen) == [" ok code      4 files", " !! env       no"]


def test_what_others_wrote_into_a_row_does_nothing_to_the_terminal() -> None:
    screen = Screen(80, live=False)
    screen.painter.add(Row("h", WARNING, "a\x1b[2J", "loss \x1b]52;c;x\x07\r\x1b[31mred", right="\x9b1A", detail="\n"))
    assert screen.terminal.text == " !  a         loss \\x1b]52;c;x\\x07 red                                   \\x9b1A"


@pytest.mark.parametrize(
    ("environment", "terminal", "expected"),
    [
        ({"TERM": "xterm"}, True, (True, True)),
        ({"TERM": "xterm"}, False, (False, False)),
        ({"TERM": "dumb"}, True, (False, False)),
        ({}, True, (False, False)),
        ({"TERM": "xterm", "CI": "true"}, True, (False, True)),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, (True, False)),
    ],
)
def test_when_rows_change_in_place_and_have_colours(
    environment: dict[str, str], terminal: bool, expected: Sequence[bool]
) -> None:
    assert settings(environment, terminal) == expected
