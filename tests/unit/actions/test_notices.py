# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a wait calls the module that sends messages, and what it says of those that were not delivered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.notices import AGAIN, PREFIX, Notices

A, B = "/state/runs/gpt/0123456789abcdef/1", "/state/runs/gpt/0123456789abcdef/2"
STARTED, LINE, STALLED = (
    Event("started", "on node01"),
    Event("metrics", "step 1"),
    Event("stalled", "no step for 1 min"),
)


def watch(run_dir: str, step: int | None = None) -> Watch:
    return Watch(run_dir, "7", metrics=None if step is None else Metrics(step=step))


class Bench:
    """`answers`: the results of the next calls; without one, nothing was due."""

    def __init__(self, *run_dirs: str) -> None:
        self.calls: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.answers: list[Any] = []
        environ = {f"{PREFIX}SLACK": "https://example.org/s3cr3t", "AWS_SECRET_ACCESS_KEY": "no"}
        self.notices = Notices(
            run_dirs or (A,), self.call, self.lines.append, environ, failing=(AnsibleConnectionFailure,)
        )

    def call(self, options: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(dict(options))
        answer = self.answers.pop(0) if self.answers else {"messages": []}
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


def message(state: str, event: str = "started", run_dir: str = A) -> dict[str, Any]:
    reason = "the receiver answered 503" if state == "failed" else ""
    return {"run_dir": run_dir, "event": event, "receiver": "~/slack", "state": state, "reason": reason}


def test_only_what_is_news_calls_the_module() -> None:
    bench = Bench(A)
    bench.notices.send(0.0)
    for event, step in ((Event("pending", "x"), None), (LINE, None), (STARTED, None), (LINE, 1), (LINE, 2)):
        bench.notices.see(watch(A, step), event)
        bench.notices.send(1.0)
    bench.notices.see(watch(B), STARTED)
    bench.notices.send(2.0)
    assert [call["run_dirs"] for call in bench.calls] == [[A], [A]], "the start, and the first step"
    assert bench.calls[0]["urls"] == {f"{PREFIX}SLACK": "https://example.org/s3cr3t"}, "no other variable leaves"
    bench.notices.end(3.0)
    assert len(bench.calls) == 3


def test_one_call_for_many_launches() -> None:
    bench = Bench(A, B)
    bench.notices.see(watch(A), STARTED)
    bench.notices.see(watch(B, 7), STALLED)
    bench.notices.send(0.0)
    assert [(call["run_dirs"], call["x_stalled"]) for call in bench.calls] == [([A, B], {B: "no step for 1 min"})]


def test_what_was_not_delivered_is_tried_again_and_told_once() -> None:
    bench = Bench(A)
    bench.answers = [{"messages": [message("failed", "stalled")]}, {"messages": [message("failed", "stalled")]}, {}]
    bench.notices.see(watch(A, 7), STALLED)
    for now in (0.0, AGAIN - 1, AGAIN, 2 * AGAIN, 3 * AGAIN):
        bench.notices.send(now)
    assert [call["x_stalled"] for call in bench.calls] == [{A: "no step for 1 min"}] * 3
    assert bench.lines == ["notify: ~/slack was not told `stalled`: the receiver answered 503"]


def test_a_call_that_fails_never_fails_the_wait() -> None:
    bench = Bench(A)
    bench.answers = [AnsibleConnectionFailure("gone"), {"failed": True, "msg": "no"}]
    for _number in range(2):
        bench.notices.see(watch(A), STARTED)
        bench.notices.send(0.0)
    assert bench.lines == ["notify: the messages could not be sent: gone"]
