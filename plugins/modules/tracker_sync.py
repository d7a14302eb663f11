#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tracker_sync
short_description: Upload what launches have logged offline
version_added: 0.1.0
author: []
description:
  - Uploads what Weights & Biases has written in the run directories of launches whose nodes reach no network, with
    C(wandb sync) on the host of the task, such as the login node. All attempts of a launch become one run.
  - What is uploaded already is left out, so a second task changes nothing. The newest folder of a launch that has not
    ended is left for later.
  - Other users' launches are left out.
extends_documentation_fragment:
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - In check mode nothing is uploaded, and the folders that would be have the state V(pending).
  diff_mode:
    support: none
options:
  launches:
    description:
      - The launches, each a job id, C(NAME), C(NAME/KEY), C(NAME/KEY/GENERATION) or a run directory. A name is its
        newest launch. By default all launches that are recorded under O(state_root).
    type: list
    elements: str
    default: []
  wandb:
    description:
      - The program C(wandb) on the host. By default that of the environment of the launch, or else the one in C(PATH).
    type: path
  api_key_file:
    description:
      - A file on the host with the API key. Without it C(wandb) uses what C(wandb login) has stored there.
    type: path
  timeout:
    description: How long the upload of one folder may take, in seconds.
    type: int
    default: 600
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.report_page
"""

EXAMPLES = r"""
- name: Upload the newest launch of a job
  rankzero.slurm.tracker_sync:
    launches: [gpt-small]

- name: Upload all launches, with the key in a file of the login node
  rankzero.slurm.tracker_sync:
    api_key_file: ~/.wandb-key
"""

RETURN = r"""
folders:
  description: What each attempt has written offline, in the order of their start.
  returned: success
  type: list
  elements: dict
  contains:
    run_dir:
      description: The run directory of the launch.
      type: str
    folder:
      description: The folder.
      type: str
    state:
      description:
        - V(uploaded) by this task, V(synced) before it, V(pending) in check mode, V(open) while the launch has not
          ended, V(empty) if the attempt was killed before anything was written, V(failed).
      type: str
    message:
      description: Details, or why it has failed.
      type: str
lines:
  description: The same for people.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.trackers.sync import ARGUMENTS, sync


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {**sync(slurm, module.params, check_mode=module.check_mode), "warnings": slurm.notes}


def main() -> None:
    run_module(ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
