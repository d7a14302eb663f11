# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait says after a look at the ranks (module job_diagnosis, with x_paces of the wait)."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import looks


def test_an_event_without_words_gets_them_from_a_look_at_the_ranks() -> None:
    culprit = {"message": "rank 1 on node02 sleeps"}
    stall = {"message": "no step yet, and no line in any log for 62 s"}
    quiet, slow = Event("quiet", ""), Event("slow", "", paces=(0.3, 0.5))
    assert looks.why(quiet, {"facts": {"standstill": culprit}, "stall": stall}) == (
        "no step yet, and no line in any log for 62 s: rank 1 on node02 sleeps"
    )
    assert looks.culprit({"facts": {"standstill": culprit}}) == culprit["message"] and looks.culprit(None) == ""
    assert looks.why(quiet, {"facts": {}, "stall": None}) == "", "it computes"
    late = {"message": "steps take 0.5 s; nobody stands out", "straggler": None}
    assert looks.why(slow, {"facts": {"slow": late}}) == "", "a little late, and nobody makes it so"
    assert looks.why(replace(slow, paces=(0.3, 2.5)), {"facts": {"slow": late}}) == late["message"]
    named = {**late, "straggler": {"ranks": [{"rank": 3}]}}
    assert looks.why(slow, {"facts": {"slow": named}}) == late["message"]
    assert looks.why(slow, None) == ""


def test_ranks_that_evaluate_or_save_do_not_stand_still_until_that_takes_long() -> None:
    culprit = {"message": "rank 0 on node01 computes (work/train.py:9, in evaluate)", "at_work": True}
    assert looks.at_work({"facts": {"standstill": culprit}}, 75.0)
    assert not looks.at_work({"facts": {"standstill": culprit}}, 301.0)
    assert not looks.at_work({"facts": {"standstill": {**culprit, "at_work": False}}}, 75.0)
    assert not looks.at_work({"facts": {"standstill": None}}, 75.0), "nothing is known of the ranks"
    assert not looks.at_work(None, 75.0)
    gone_on: dict[str, object] = {"facts": {"standstill": None, "step": 41}}
    assert looks.at_work(gone_on, 75.0, Metrics(40)), "a step came while the ranks were looked at"
    assert not looks.at_work(gone_on, 75.0, Metrics(41)) and not looks.at_work(gone_on, 75.0)
    assert looks.why(Event("quiet", ""), {"facts": {"standstill": culprit}, "stall": None}) == ""
