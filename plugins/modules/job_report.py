#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_report
short_description: Show the result of a launch
version_added: 0.1.0
author: []
description:
  - Shows the result card of a launch, with job, state, nodes, wall time, the artifact's values and the path of the
    logs, and fails unless the result is valid.
  - From the fetched logs the card shows how many ranks started and with which world size, the network that NCCL
    used, and the last losses.
  - If the job has failed, its O(diagnosis) is shown too, or without one the end of the log that contains the cause.
  - Runs on the controller only.
extends_documentation_fragment:
  - rankzero.slurm.attributes.looks
options:
  launch:
    description: Result of M(rankzero.slurm.job).
    type: dict
    required: true
  result:
    description: Result of M(rankzero.slurm.job_wait).
    type: dict
    required: true
  logs:
    description: Result of M(rankzero.slurm.job_logs).
    type: dict
    default: {}
  diagnosis:
    description:
      - Result of M(rankzero.slurm.job_diagnosis). For a failed launch its lines are shown instead of the end of a log.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Launch
  rankzero.slurm.job:
    job: jobs/gpt.yml
  register: launch

- name: Wait
  rankzero.slurm.job_wait:
    run_dir: "{{ launch.run_dir }}"
  register: result
  failed_when: false

- name: Show the result
  rankzero.slurm.job_report:
    launch: "{{ launch }}"
    result: "{{ result }}"
"""

RETURN = r"""
standing:
  description: What has become of the launch, in the words of M(rankzero.slurm.job_info).
  returned: always
  type: str
ledger:
  description:
    - What the hours of an ended launch went to, as C(diagnosis.ledger) of M(rankzero.slurm.job_diagnosis), from the
      fetched logs. Kept in C(ledger.json) next to them, with C(ledger.csv).
    - Null without logs, and for a launch that had ended before the wait, if no earlier command has kept it.
  returned: always
  type: dict
card:
  description: The lines shown. A failed task does not return them, because Ansible prints its result as JSON again.
  returned: when the launch succeeded
  type: list
  elements: str
"""
