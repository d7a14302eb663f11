# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one launch leaves: the marks of its programs, and the folders of its generations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Part:
    """A launch. `ledger`: where its programs leave their marks; `runs`: the folder of its generations."""

    ledger: Path
    runs: Path

    def newest(self) -> Path | None:
        numbers = [int(path.name) for path in self.runs.glob("*") if path.name.isdigit()]
        return self.runs / str(max(numbers)) if numbers else None

    def outcome(self) -> dict[str, Any]:
        newest = self.newest()
        return _document(newest / "outcome.json") if newest else {}

    def outcomes(self) -> dict[Path, dict[str, Any]]:
        """What each attempt of each generation came to."""
        return {path: _document(path) for path in sorted(self.runs.glob("*/outcome*.json"))}

    def proofs(self) -> list[float]:
        """When each proof of this launch was written, for all attempts and generations: epoch seconds."""
        return [path.stat().st_mtime for path, said in self.outcomes().items() if said.get("success") is True]


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
