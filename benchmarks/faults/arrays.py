# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A case that is a sweep: one job array. Each of its tasks is a launch with a ledger and generations of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.sweep import prepare_sweep
from benchmarks.faults.ground import Case, Ground
from benchmarks.faults.parts import Part


class Array(Case):
    """One case with `count` elements."""

    def __init__(
        self, ground: Ground, name: str, program: Callable[[str], Sequence[str]], spec: dict[str, Any], count: int
    ) -> None:
        values = [str(number) for number in range(count)]
        super().__init__(
            ground,
            name,
            # The element is the first argument of the shell that is the program.
            lambda ledger: [*program(f"{ledger}/$1"), "element", "{element}"],
            {**spec, "sweep": {"parameters": {"element": values}}},
        )
        for value in values:
            (self.ledger / value).mkdir()
            (self.ledger / value).chmod(0o777)

    def _prepared(self, job: Job, **options: Any) -> tuple[Prepared, dict[str, Any]]:
        sweep = prepare_sweep(job, options["site"].state_root, lambda one, all_: prepare(one, elements=all_, **options))
        return sweep.first, sweep.sent()

    def parts(self) -> list[Part]:
        runs: Path = self.runs.parent
        numbered = {str(element["number"]): element["key"][:16] for element in self.sent["elements"]}
        return [Part(self.ledger / number, runs / key) for number, key in numbered.items()]
