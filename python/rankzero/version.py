# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of this installation, which is the collection's."""

from __future__ import annotations

import os
import re


def version() -> str:
    """From the package's metadata, or from galaxy.yml in a checkout."""
    galaxy = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "galaxy.yml")
    if os.path.isfile(galaxy):
        with open(galaxy, encoding="utf-8") as stream:
            match = re.search(r"^version: (\S+)$", stream.read(), re.M)
        if match:
            return match[1]
    from importlib.metadata import version as installed

    return installed("rankzero")
