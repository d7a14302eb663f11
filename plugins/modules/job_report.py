#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_report
short_description: Show what became of a launch
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Shows the result card of a launch, with job, state, nodes, wall time, the artifact's values and where the logs are,
    and fails unless the result is proven.
  - From the fetched logs the card says how many ranks started and with which world size, over which network NCCL went,
    and the last losses.
  - Where the job has failed, its O(diagnosis) is shown too, or without one the end of the fetched log that says why.
  - Runs on the controller only.
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Never changes anything.
  diff_mode:
    support: none
options:
  launch:
    description: What M(rankzero.slurm.job) returned.
    type: dict
    required: true
  result:
    description: What M(rankzero.slurm.job_wait) returned.
    type: dict
    required: true
  logs:
    description: What M(rankzero.slurm.job_logs) returned.
    type: dict
    default: {}
  diagnosis:
    description:
      - What M(rankzero.slurm.job_diagnosis) returned. Of a launch that has failed its lines are shown, in place of the
        end of a log.
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
verdict:
  description: V(succeeded), V(failed) or V(not finished).
  returned: always
  type: str
card:
  description: The lines that were shown.
  returned: always
  type: list
  elements: str
"""
