# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs that come with the last look at a launch (module_utils/logs/final.py): ask for them, and store them."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.final import MOST_BYTES
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest, Round
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import TAIL_BYTES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import (
    holdings,
    launch_place,
    left_out,
    mark,
    place_of,
    unpack,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.messages import Screen


@dataclass(frozen=True)
class _Packed:
    """The archive of the logs in a module's answer, as base64."""

    data: str


class FinalLogs:
    """The logs of one launch below the folder `dest`. `screen`: shows what was left out."""

    def __init__(self, dest: str, run_dir: str, screen: Screen) -> None:
        self._screen = screen
        self.launch = launch_place(dest, run_dir)
        self.place = place_of(self.launch)
        # What is here already is read again for each request, and sent.
        self.none_here = not holdings(self.place)

    def request(self) -> JsonObject:
        """What the module is asked for: what is new in small logs."""
        return FetchRequest(have=holdings(self.place), tail_bytes=TAIL_BYTES, budget=MOST_BYTES).arguments()

    def taken(self, given: JsonObject | None) -> ModuleResult | None:
        """Store the logs of a module's answer. Returns a result as action `job_logs` has it; None if that must fetch
        them, or the rest of them.
        """
        if given is None:
            return None
        data = base64.b64decode(record_of(_Packed, given).data)
        answer = Round.of(given)
        fetched = answer.fetched
        if place_of(self.launch, answer.origin) != self.place:
            # Another launch's logs are there, and what is new was decided by those.
            return None
        count = 0
        try:
            if fetched.parts:
                mark(self.place, answer.origin)
                count = unpack(io.BytesIO(data), fetched.parts, self.place)
        except (RankzeroError, OSError):
            return None
        if fetched.more:
            return None
        for note in fetched.notes:
            self._screen.warning(note)
        omitted = left_out(holdings(self.place))
        if omitted:
            self._screen.display(omitted)
        return {
            "changed": count > 0,
            "dest": self.place.path,
            "choice": None,
            "run_dir": answer.run_dir,
            "job_id": answer.job_id,
            "over": True,
            "files": [vars(part) for part in fetched.parts],
            "bytes": count,
            "archive_bytes": fetched.archive_bytes,
            "rounds": int(bool(fetched.parts)),
            "omitted": omitted,
        }
