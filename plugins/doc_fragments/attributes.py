# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The attributes that every module of the collection states: what check mode and diff mode do, and its action group.

A module extends ``rankzero.slurm.attributes`` and ``rankzero.slurm.attributes.actiongroup_slurm`` and fills in
``support`` (and ``details``) for ``check_mode`` and ``diff_mode`` itself: those are facts about that one module.
One that only looks extends ``rankzero.slurm.attributes.looks`` instead of the first.
"""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible's documentation loader: one class attribute is one fragment."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying anything.
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
"""

    LOOKS = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying anything.
    support: full
    details:
      - Never changes anything.
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
    support: none
"""

    ACTIONGROUP_SLURM = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/rankzero.slurm.slurm) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - rankzero.slurm.slurm
"""
