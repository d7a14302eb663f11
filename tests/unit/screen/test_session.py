# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a screen: its thread is woken, and does not wait for the next tick."""

from __future__ import annotations

import os
import select
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live import session


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
