# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `dataset`: show the host's progress, and send the controller's files in pieces."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import answer_of, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.request import DatasetRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.select import check
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter, Reading
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.transfer import event
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import dataset

#: If a piece takes longer than this (seconds), the next one is not larger.
PIECE_SECONDS = 5.0
# Reading more bytes than this takes so long that it is reported.
_LARGE = 1_000_000_000

Result = dict[str, Any]


class ActionModule(Producer):
    MODULE = "rankzero.slurm.dataset"
    OPTIONS = DATASET

    def produce(self, options: Result) -> Result:
        check(options)
        given = record_of(dataset.Options, options)
        self.subject = f"dataset {given.name}"
        if given.state == "absent" or given.source != "controller":
            return self.follow(options, DatasetRequest().arguments())
        return self._from_here(given, options)

    def _from_here(self, given: dataset.Options, options: Result) -> Result:
        self.roots.check("src", given.src)
        what = dataset.read(given, Meter())
        size = sum(file.size for file in what.files)
        if size > _LARGE:
            self.shown.show_line(f"read {amount(size)} in {len(what.files)} files of {what.label}")
        result = self.follow(options, what.request.arguments())
        lacking = answer_of(result).lacking
        if lacking is None:
            return result
        pieces = dataset.Pieces(what, lacking)
        sent = total = pieces.left
        if total:
            self._send(options, pieces, total)
        return {**self.follow(options, replace(what.request, complete=True).arguments()), "moved": sent}

    def _send(self, options: Result, pieces: dataset.Pieces, total: int) -> None:
        """Send all pieces. Raises ModuleFailed."""
        began, files = time.monotonic(), 0
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            piece = os.path.join(folder, "piece")
            while entries := pieces.write(piece):
                start = time.monotonic()
                remote = self._connection._shell.join_path(self.send([piece]), "piece")
                self.call(**options, x_request=DatasetRequest(piece=remote, entries=entries).arguments())
                now = time.monotonic()
                if now - start < PIECE_SECONDS:
                    pieces.size = min(pieces.size * 2, dataset.LARGEST)
                done = total - pieces.left
                files += len(entries)
                self.shown.events([event(Reading("sent", total, done, done, 0, 0, now - began))])
        self.shown.flush()
