#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: extra_variables
short_description: Refuse misspelt extra variables
version_added: 0.1.0
author: []
description:
  - Fails if the command line sets an extra variable (C(-e NAME=VALUE)) that the playbook does not take and nothing else
    defines. Ansible itself accepts any name, so a misspelt one would have no effect.
  - Each playbook of this collection begins with it. The modules that launch jobs check the same in a play of your own.
  - A variable that the inventory, the play, a role or an earlier task defines may be set, and a variable that
    O(playbook)'s job names with C(from_var). List others in the variable C(launch_variables).
  - Runs on the controller only.
extends_documentation_fragment:
  - rankzero.slurm.attributes.looks
options:
  playbook:
    description:
      - Name of a playbook of this collection whose variables are accepted, such as V(train).
      - By default the variables of the role rankzero.slurm.launch and the short names of the job spec are accepted.
    type: str
"""

EXAMPLES = r"""
- name: Refuse misspelt variables before anything else happens
  rankzero.slurm.extra_variables:
  vars:
    launch_variables: [learning_rate]
"""

RETURN = r"""
ansible_facts:
  description: The fact C(rankzero_variables_checked), so that the modules that launch jobs do not check again.
  returned: success
  type: dict
"""
