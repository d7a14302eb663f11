# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site has written into files of its own on this host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable


def read_present(paths: Iterable[str]) -> dict[str, str]:
    """{path: text} of those files (`~` is the user's home) that are there and may be read."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError), open(os.path.expanduser(path), encoding="utf-8", errors="replace") as stream:
            found[path] = stream.read()
    return found
