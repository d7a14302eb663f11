# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where launches lie on the cluster, and the options that name one."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible's documentation loader: one class attribute is one fragment."""

    RUN = r"""
options:
  run_dir:
    description:
      - The run directory on the cluster, as M(rankzero.slurm.job) returns it.
      - Decides over the other options that name a launch.
    type: path
  name:
    description: Name of the job spec.
    type: str
  key:
    description: Launch key, whole or its beginning; run directories show its first 16 digits.
    type: str
  generation:
    description: Number of the submission under the key.
    type: int
  job_id:
    description: Slurm's job id.
    type: str
  state_root:
    description: Folder on the cluster where launches are recorded. A C(~) is the home directory there.
    type: path
    default: ~/.rankzero/state
"""
