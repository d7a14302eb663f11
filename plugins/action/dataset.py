# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller half of `dataset`: shows how far the host is, and sends what the controller has, in pieces."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.progress import Meter
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.request import DatasetRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.select import check
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.transfer import amount, event, screen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import dataset

#: How long (seconds) a question waits for the answer: a second at first, and longer for what takes longer.
FIRST_WAIT, LONGEST_WAIT = 1, 5
#: Seconds that a piece may take before the next one is no larger.
PIECE_SECONDS = 5.0
# Reading so much here is worth a line.
_LARGE = 1_000_000_000

Result = dict[str, Any]


class ActionModule(Producer):
    MODULE = "rankzero.slurm.dataset"
    OPTIONS = DATASET

    def produce(self, options: Result) -> Result:
        check(options)
        hosts = self._variables.get("ansible_play_hosts_all") or []
        self._screen = screen(self.host(), f"dataset {options['name']}", len(hosts) == 1)
        if options["state"] == "absent" or options["source"] != "controller":
            return self._follow(options, DatasetRequest())
        return self._from_here(options)

    def _from_here(self, options: Result) -> Result:
        self.roots.check("src", options["src"])
        what = dataset.found(options, Meter())
        size = sum(file.size for file in what.files)
        if size > _LARGE:
            self._screen.say(f"read {amount(size)} in {len(what.files)} files of {what.said}")
        result = self._follow(options, what.request)
        if result.get("failed") or "lacking" not in result:
            return result
        pieces = dataset.Pieces(what, result["lacking"])
        sent = total = pieces.left
        if total:
            failed = self._send(options, pieces, total)
            if failed:
                return failed
        last = self._follow(options, replace(what.request, complete=True))
        return last if last.get("failed") else {**last, "moved": sent}

    def _send(self, options: Result, pieces: dataset.Pieces, total: int) -> Result | None:
        """Send all pieces; the failed result of one, or None."""
        began, files = time.monotonic(), 0
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            piece = os.path.join(folder, "piece")
            while entries := pieces.write(piece):
                start = time.monotonic()
                remote = self._connection._shell.join_path(self.send([piece]), "piece")
                taken = self.call(**options, _request=DatasetRequest(piece=remote, entries=entries).arguments())
                if taken.get("failed"):
                    return taken
                now = time.monotonic()
                if now - start < PIECE_SECONDS:
                    pieces.size = min(pieces.size * 2, dataset.LARGEST)
                done = total - pieces.left
                files += len(entries)
                known = {"phase": "sent", "size": total, "bytes": done, "done": done, "files": 0, "files_done": 0}
                self._screen.events([event({**known, "seconds": now - began})])
        self._screen.flush()
        return None

    def _follow(self, options: Result, request: DatasetRequest) -> Result:
        """Ask the host until it is done, and show how far it is meanwhile."""
        if self._task.check_mode or options["state"] == "absent":
            return self.call(**options, _request=request.arguments())
        seconds, told, again = FIRST_WAIT, 0, False
        while True:
            asked = replace(request, follow=seconds, again=again)
            result = self.call(**options, _request=asked.arguments())
            going = result.get("going")
            if going is None or result.get("failed"):
                self._screen.flush()
                for note in result.get("notes", [])[told:]:
                    self._screen.say(note)
                return result
            if going:
                for note in going["notes"][told:]:
                    self._screen.say(note)
                told = len(going["notes"])
                self._screen.events([event(going)])
            seconds, again = min(seconds * 2, LONGEST_WAIT), True
