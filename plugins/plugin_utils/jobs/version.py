# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's own version, from galaxy.yml in a checkout or MANIFEST.json in an installed collection."""

from __future__ import annotations

import functools
import json
import os

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))


@functools.lru_cache(maxsize=1)
def collection_version() -> str:
    """From MANIFEST.json of an installed collection, or galaxy.yml in a checkout. Raises OSError if neither exists."""
    try:
        with open(os.path.join(ROOT, "MANIFEST.json"), encoding="utf-8") as stream:
            return str(json.load(stream)["collection_info"]["version"])
    except OSError:
        with open(os.path.join(ROOT, "galaxy.yml"), encoding="utf-8") as stream:
            return str(yaml.safe_load(stream)["version"])
