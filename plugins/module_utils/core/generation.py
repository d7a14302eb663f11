# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generation of a launch in rendered text. Pure.

A file of its own because the cluster's half of a launch needs this and nothing else of the plan: what it imports is
packed, sent and compiled in every launch.
"""

from __future__ import annotations


def with_generation(text: str, token: str, generation: int) -> str:
    """Rendered text for one generation: `token` (Plan.token) stands where its number belongs."""
    return text.replace(token, str(generation))
