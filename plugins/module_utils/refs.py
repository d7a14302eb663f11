# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what a launch refers to is on the cluster, each kind asked the way that its producer answers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present


def is_present(ref: Mapping[str, str]) -> bool:
    """An environment must be whole and its Python still be there; the others got their name when they were whole."""
    if ref["kind"] == "environment":
        return present(ref["path"]) is not None
    return os.path.isdir(ref["path"])
