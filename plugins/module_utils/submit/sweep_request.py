# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request for a sweep from the controller. Data only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import Element


@dataclass(frozen=True)
class SweepRequest:
    """A sweep as the controller rendered it.

    `array`: the request of its array; its script contains `tasks_token` in place of the array's tasks. `spec`: the spec
    into which the elements' values are inserted. `manifest`: the other fields of their launch.json.
    """

    array: Request
    elements: Sequence[Element]
    tasks_token: str
    spec: Mapping[str, Any]
    manifest: Mapping[str, Any]
    contract: str
    record: Mapping[str, Any]
    parallel: int | None = None
    only: Sequence[str] = ()

    @classmethod
    def of(cls, given: JsonObject, submitter: str, secrets_file: str | None) -> SweepRequest:
        """Build a request from the module's arguments."""
        array = Request.of(given["array"], submitter, secrets_file)
        rest = {name: value for name, value in given.items() if name not in ("array", "elements")}
        return cls(array=array, elements=[Element(**element) for element in given["elements"]], **rest)

    @property
    def runs(self) -> str:
        """The folder of all runs of this name."""
        return os.path.dirname(self.array.runs_dir)
