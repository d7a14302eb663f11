# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypothesis under the other Pythons, where no conftest is read: a plugin of those runs of pytest."""

from __future__ import annotations

from hypothesis import settings

# The search goes on in the main session. Here a few examples show that the code runs under that Python, and, as there,
# none of them has a time limit: the default of 200 ms fails on a busy machine.
settings.register_profile("library", deadline=None, max_examples=25)
settings.load_profile("library")
