# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of a wait before the ranks start: the preflight, and what is copied to the nodes."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Staging
from tests.unit.screen.test_live import Screen, shown


def test_a_preflight_that_refuses_its_nodes_is_not_ok() -> None:
    screen = Screen(120)
    screen.waiting.begin()
    screen.waiting.events([Event("queued", "", nodes=("node[01-02]",))])
    screen.waiting.events([Event("started", "started on 2 nodes", nodes=("node01", "node02"))])
    screen.watch.record, screen.watch.preflight = JobRecord("2", "gpt", "RUNNING", nodes=2), 2
    screen.waiting.update(screen.watch)
    assert shown(screen)[-1].startswith(" >  preflight 2 of 2 nodes")
    refused = "FAILED after 3 s: preflight: node01: environment: No module named 'einops'; node02: the same"
    screen.waiting.end(False, refused)
    screen.painter.close("")
    (row,) = [line for line in shown(screen) if " preflight " in line]
    assert " ok " not in row and "node01: environment: No module named 'einops'" in row


def test_a_preflight_that_goes_back_into_the_queue_is_the_row_that_ended() -> None:
    screen = Screen(120)
    screen.waiting.begin()
    screen.waiting.events([Event("queued", "", nodes=("node[01-02]",)), Event("requeued", "requeued without node02")])
    assert any("preflight the attempt ended" in line for line in shown(screen))
    assert not any(" step " in line for line in shown(screen))


def test_copies_to_nodes_have_rows_of_their_own() -> None:
    screen = Screen(100)
    screen.submitted()
    screen.waiting.begin()
    screen.waiting.events([Event("queued", "", nodes=("node[01-03]",))])
    screen.watch.record = JobRecord("2", "gpt", "RUNNING", nodes=3)
    for staging, seconds in (
        (Staging("code", 0, 2, 4200), 2),
        (Staging("environment", 0, 2, 1_200_000_000), 10),
        (Staging("environment", 1, 2, 1_200_000_000), 5),
    ):
        screen.watch.staging, screen.watch.preflight = staging, 3
        screen.waiting.update(screen.watch)
        screen.passes(seconds)
    assert shown(screen)[-1] == " >  copy env  1 of 2 nodes #####.....  1.2 GB each  0:15"
    screen.waiting.events([Event("started", "", nodes=("node01", "node02", "node03"))])
    screen.launched(3)
    assert [" ".join(line.split()) for line in shown(screen) if " copy " in line or "preflight" in line] == [
        "ok copy code 2 of 2 nodes 4 kB each 2.0 s",
        "ok copy env 2 of 2 nodes 1.2 GB each 15 s",
        "ok preflight 3 of 3 nodes 17 s",
    ]
