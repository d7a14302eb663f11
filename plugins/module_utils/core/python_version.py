# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The oldest Python that a host may have, and the message for an older one. This file itself needs Python 3.7."""

from __future__ import annotations

import shutil

OLDEST_PYTHON = (3, 9)


def newer_pythons() -> list[str]:
    """Return the Python interpreters on this host's PATH that are new enough, newest first."""
    paths = (shutil.which(f"python3.{minor}") for minor in range(30, OLDEST_PYTHON[1] - 1, -1))
    return [path for path in paths if path]


def python_too_old(host: str, interpreter: str, version: str, newer: list[str]) -> str:
    """Return the message for a host whose Python is too old. `newer`: known newer interpreters on that host."""
    wanted = ".".join(map(str, OLDEST_PYTHON))
    known = f" It has {', '.join(newer)}." if newer else " Install one there if it has none."
    return (
        f"rankzero.slurm needs Python {wanted} or newer on the host, and {interpreter} on {host} is Python {version}. "
        f"Name a newer one in the inventory: ansible_python_interpreter.{known}"
    )
