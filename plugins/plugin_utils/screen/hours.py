# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hours of a launch went to, from its fetched logs. The result is kept next to them, as JSON and CSV."""

from __future__ import annotations

import contextlib
import json

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import json_object
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place

NAME = "ledger"


def hours(result: Parameters, logs_dir: str) -> ModuleResult | None:
    """The ledger of a launch that has ended. `result`: that of module job_wait; `logs_dir`: its fetched logs.

    A launch that had ended before the wait is not read again: its kept ledger counts, if there is one.
    """
    place, end = Place.of_launch(logs_dir), [result.get("attempt"), result.get("finished_at")]
    with contextlib.suppress(OSError), place.opened(create=False) as folder:
        kept = json_object(folder.read(f"{NAME}.json") or "")
        ledger = kept.get("ledger") if kept and kept.get("end") == end else None
        if isinstance(ledger, dict):
            return dict(ledger)
    if not result.get("polls") or not result.get("spans"):
        return None
    from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import ledger_of_result
    from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import COLUMNS
    from ansible_collections.rankzero.slurm.plugins.module_utils.usage.tables import csv_text

    with Place.of_logs(logs_dir).files() as logs:
        made = ledger_of_result(result, logs)
    answer = made.as_dict()
    files = {".json": json.dumps({"end": end, "ledger": answer}), ".csv": csv_text(COLUMNS, answer.get("parts", ()))}
    with contextlib.suppress(OSError), place.opened(create=False) as folder:
        for ending, text in files.items():
            folder.write(NAME + ending, text)
    return answer
