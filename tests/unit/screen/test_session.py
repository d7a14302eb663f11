# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a screen: its thread is woken, and does not wait for the next tick."""

from __future__ import annotations

import os
import select
import threading
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live import session
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import OK, Row


def test_the_end_wakes_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tick that would last for ever: every playbook would wait for it at its end."""
    waits: list[float | None] = []

    def without_ticks(reading: Any, writing: Any, wrong: Any, seconds: float | None = None) -> Any:
        waits.append(seconds)
        return select.select(reading, writing, wrong)

    class Select:
        select = staticmethod(without_ticks)

    monkeypatch.setattr(session, "select", Select)
    before = set(os.listdir("/proc/self/fd"))
    screen = session.Session({"TERM": "dumb"})
    thread = screen._thread
    screen.close()
    assert waits and not thread.is_alive(), "it still waits in select"
    assert len(os.listdir("/proc/self/fd")) <= len(before), "the pipes are closed"
    screen.close()


def test_lines_may_go_to_a_function_in_place_of_the_output(capfd: pytest.CaptureFixture[str]) -> None:
    """Of a program with other threads: each line comes from the thread that adds the row."""
    threads, lines = threading.active_count(), list[tuple[int, str]]()
    screen = session.Session({}, write=lambda text: lines.append((threading.get_ident(), text)))
    assert threading.active_count() == threads
    screen.add(Row("", OK, text="one"))
    screen.close()
    assert lines == [(threading.get_ident(), " ok one\n")] and capfd.readouterr() == ("", "")
