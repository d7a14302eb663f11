# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The attributes that every module of the collection states: what check mode and diff mode do.

A module extends ``rankzero.slurm.attributes`` and fills in ``details`` and ``diff_mode``: those are facts about that
one module. One that only looks extends ``rankzero.slurm.attributes.looks`` instead.
"""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible's documentation loader: one class attribute is one fragment. Each is a plain string, because
    `ansible-test sanity` reads them from the source.
    """

    DOCUMENTATION = """
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying anything.
    support: full
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
"""

    LOOKS = """
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
