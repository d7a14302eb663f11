# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time stamp of a log line, in seconds. Only differences are meaningful, and across hosts only large ones."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_ISO = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
# glog, as PyTorch's C++ and torchrun write it: level, month, day, time; PyTorch omits the month's leading zero.
_GLOG = re.compile(r"(?<![\w.])[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
# glog gives no year, so the year is ignored in all formats: one file may contain both.
_YEAR = 2000
YEAR = 366 * 86400.0


def time_of(text: str) -> float | None:
    """Seconds since a fixed moment, from the first time stamp in the beginning of the line; None without one."""
    head = text[:200]
    match = _ISO.search(head) or _GLOG.search(head)
    if not match:
        return None
    month, day, hour, minute, second, fraction = match.groups()[-6:]
    try:
        moment = datetime(_YEAR, int(month), int(day), int(hour), int(minute), int(second), tzinfo=timezone.utc)
    except ValueError:
        return None
    return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
