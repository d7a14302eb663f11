# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job's texts reach the log of a CI system, whose runner obeys commands in it: masks, stops, annotations."""

from __future__ import annotations

import re

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import printable
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Screen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.layout import Layout
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import BAD, NOTE, Row

#: What GitHub's runner and Azure's agent take for a command: `##[` anywhere in a line, `::name::` at its beginning.
RUNNERS = re.compile(r"##\[|##vso\[|^\s*::[\w-]+(?: .*)?::", re.MULTILINE)
COMMANDS = (
    "lost the disk ##[add-mask]production", "##vso[task.setvariable variable=a]b", "::stop-commands::now",
    " \t::group::x",
    "::error file=a.py,line=1::text", "first line\n::add-mask::production", "##[group]a ##[endgroup]", "::a::\n::b::",
)  # fmt: skip


@pytest.mark.parametrize("text", COMMANDS)
def test_no_runner_of_a_ci_system_finds_a_command_in_a_text(text: str) -> None:
    assert RUNNERS.search(text)
    shown = printable.printable_result({"msg": text, "evidence": [{"text": text, "line": 3}], "what": text})
    for told in (
        printable.printable(text),
        printable.printable_lines(text),
        *map(str, (shown["msg"], shown["what"], shown)),
    ):
        assert not RUNNERS.search(told)
        # What passes here twice, on the node and on the controller, is not changed again.
        assert printable.printable_lines(told) == told


def test_what_only_looks_like_a_command_is_kept() -> None:
    for text in ("::1", "std::vector::size", "## [x]", "# ## heading", "a::b"):
        assert printable.printable(text) == text


@pytest.mark.parametrize("text", COMMANDS)
def test_no_row_of_our_screen_has_a_command(text: str) -> None:
    for row in (Row("", NOTE, text=text), Row("lab", BAD, name="job", detail=text, text=text)):
        for hosts in (0, 8):
            lines = Layout(None, False, hosts).lines(row)
            assert lines and not RUNNERS.search("\n".join(lines))


@pytest.mark.parametrize("text", COMMANDS)
def test_no_line_through_ansibles_own_display_has_a_command(text: str) -> None:
    class Terminal:
        def __init__(self) -> None:
            self.shown: list[str] = []

        def display(self, text: str, **_options: object) -> None:
            self.shown.append(text)

        warning = display

    terminal = Terminal()
    screen = Screen(terminal)
    screen.display(text)
    screen.warning(text)
    screen.progress(text)
    assert len(terminal.shown) == 3 and not any(RUNNERS.search(shown) for shown in terminal.shown)
    screen.command("::error title=a::b")
    assert terminal.shown[-1] == "::error title=a::b"
