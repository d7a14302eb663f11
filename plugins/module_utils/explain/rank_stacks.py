# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dumps of the flight recorder that torch wrote at a timeout of a collective."""

from __future__ import annotations

import contextlib
import os
import re

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import flight_recorder
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.flight_recorder import (
    Group,
    Refused,
    collectives_of,
    plain,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

# The bytes that are read of all dumps together.
ALL_BYTES = 64_000_000
# As rank.sh names them.
_DUMP = re.compile(r"trace-(\d{1,7})")


def dumps(run: RunDirectory, attempt: int) -> dict[int, tuple[Group, ...]]:
    """Rank -> its newest collectives, from the dumps that torch wrote at a timeout. What cannot be read is left out."""
    folder, read = run.shown(os.path.join("stacks", str(attempt))), 0
    newest: dict[int, tuple[Group, ...]] = {}
    for name in [] if run.foreign else folder.names(""):
        match = _DUMP.fullmatch(name)
        if match and read <= ALL_BYTES:
            with contextlib.suppress(OSError, Refused), folder.at(os.path.join(folder.path, name)) as stream:
                content = stream.read(flight_recorder.MOST_BYTES + 1)
                read += len(content)
                newest[int(match[1])] = collectives_of(plain(content))
    return newest
