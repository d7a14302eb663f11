# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names for what enters and leaves the typed code: Ansible's options and results, and JSON. A signature that has one is
at that edge; between the rooms goes nothing of which not even the fields are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The options of a module or an action, as Ansible has checked them against its argument spec.
Parameters = Mapping[str, Any]
# What a module or an action returns, or a part of it.
ModuleResult = dict[str, Any]
# An object as it was read from JSON or YAML, before its fields are checked, or as it will be written.
JsonObject = dict[str, Any]
# Ansible's variables of a task, by name.
TaskVariables = dict[str, Any]
