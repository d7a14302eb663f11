# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of format `csv`: a header and rows. The values are those of the last row, and `rows` is how many."""

from __future__ import annotations

import csv
import io

from artifact.values import checked_numbers, scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def of_csv(content: bytes) -> dict[str, Any]:
    text = content.decode("utf-8-sig")
    if not text.endswith(("\n", "\r")):
        raise ValueError("is incomplete: its last line does not end")
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if len(rows) < 2:
        raise ValueError("has no row below its header")
    header, last = [name.strip() for name in rows[0]], rows[-1]
    if len(last) != len(header):
        raise ValueError(f"is incomplete: its last row has {len(last)} values, and its header {len(header)}")
    document: dict[str, Any] = {"rows": len(rows) - 1}
    document.update(zip(header, (scalar(value.strip()) for value in last)))
    return checked_numbers(document)
