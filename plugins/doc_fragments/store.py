# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where launches lie on the cluster, and the options that name one."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible's documentation loader: one class attribute is one fragment."""

    TRUSTED = r"""
options:
  stores:
    description:
      - Stores of trusted owners, as C(launch_cluster.stores). What one of them has is taken from there, and nothing is
        made. They are never written.
      - A thing counts there only if it and all that is in it belong to one of the owners or to root, nobody else can
        write it, and its links lead to nothing that others can write. What does not count is passed over, with a
        warning.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The store, an absolute path.
        type: str
        required: true
      owners:
        description: Names or numbers of the users whose files count there.
        type: list
        elements: str
        required: true
"""

    STORES = r"""
options:
  store_group_writable:
    description:
      - As C(launch_cluster.store_group_writable). O(store_root) is shared by the members of its group, who can all
        write it. Each of them can then run code as any other.
      - Without it, a O(store_root) of another user is refused. Folders of the user's own that others can write are
        closed to them.
    type: bool
    default: false
"""

    ROOTS = r"""
options:
  code_roots:
    description:
      - Folders on the controller that files may be taken from, as C(launch_cluster.code_roots). A link counts as what
        it leads to, and what is git's own is not taken. Without it files may come from anywhere.
    type: list
    elements: str
"""

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
