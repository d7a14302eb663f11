# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a site's own configuration files on this host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import text_of


def read_present(paths: Iterable[str]) -> dict[str, str]:
    """Return {path: text} for the files (`~` is the user's home) that exist and can be read."""
    texts = {}
    for path in paths:
        with contextlib.suppress(OSError):
            texts[path] = text_of(os.path.expanduser(path), errors="replace")
    return texts
