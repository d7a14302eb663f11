# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs of a launch: fetch what is new, show new lines while it runs, merge the lines of its ranks."""

from __future__ import annotations

import time

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import LOGS_SPEC
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetching import Fetching, Options, Transfer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import holdings, left_out
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.merged_logs import Tail, merge

# Following: seconds between two fetches, growing while nothing new arrives; and how often Slurm is asked for the end.
FOLLOW_MIN, FOLLOW_MAX = 1.0, 10.0
ASK_SECONDS = 60.0


class FetchLogs(Fetching):
    """Fetches the logs of a launch."""

    MODULE = "rankzero.slurm.job_logs"
    SUBJECT = "logs"
    SPEC = LOGS_SPEC

    def _fetch(self, options: Options) -> ModuleResult:
        transfer = self._opened(options)
        self._rounds(options, transfer)
        if options.follow and not self.check_mode:
            self._follow(options, transfer)
        merged = {"merged": merge(transfer.dest)} if options.merge and not self.check_mode else {}
        omitted = left_out(holdings(transfer.place))
        if omitted:
            self.screen.display(f"{self.host}: {omitted}")
        return {**transfer.result(), **merged, "omitted": omitted}

    def _follow(self, options: Options, transfer: Transfer) -> None:
        """Fetch repeatedly and show new lines, until the launch is over or the time is up."""

        def show(lines: list[str]) -> None:
            for line in lines:
                self.screen.display(f"{self.host}: {line}")

        tail = Tail(transfer.dest)
        show(tail.begin())
        began = asked = time.monotonic()
        pause = FOLLOW_MIN
        while not transfer.over:
            if options.follow_timeout and time.monotonic() - began >= options.follow_timeout:
                break
            time.sleep(pause)
            ask = time.monotonic() - asked >= ASK_SECONDS
            asked = time.monotonic() if ask else asked
            before = len(transfer.files)
            self._rounds(options, transfer, ask=ask)
            grown = {part.path: part.restart for part in transfer.files[before:]}
            show(tail.news(grown))
            pause = FOLLOW_MIN if grown else min(pause * 1.5, FOLLOW_MAX)
        show(tail.rest())
