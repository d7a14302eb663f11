# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where launches lie on the cluster, and the options that name one."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible's documentation loader: one class attribute is one fragment. Each is a plain string, because
    `ansible-test sanity` reads them from the source.
    """

    ROOTS = """
options:
  code_roots:
    description:
      - Folders on the controller from which files may be taken, as C(launch_cluster.code_roots). Links are resolved
        first, and git's own files are never taken. If not set, files may come from anywhere.
    type: list
    elements: str
"""

    TRUSTED = """
options:
  stores:
    description:
      - Stores of trusted owners, as C(launch_cluster.stores). Items found there are used instead of being built.
        These stores are never written.
      - An item there is used only if it and everything in it belong to one of the owners or to root, nobody else can
        write it, and its links lead to nothing that others can write. Other items are skipped, with a warning.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The store, an absolute path.
        type: str
        required: true
      owners:
        description: Names or user ids of the users whose files are used.
        type: list
        elements: str
        required: true
"""

    GROUP_WRITABLE = """
options:
  store_group_writable:
    description:
      - As C(launch_cluster.store_group_writable). O(store_root) is shared by the members of its group, who can all
        write it. Each member can then run code as any other member.
      - Without it, a O(store_root) of another user is refused. Folders of the user's own that others can write are
        closed to them.
    type: bool
    default: false
"""

    RUN = r"""
options:
  run_dir:
    description:
      - The run directory on the cluster, as M(rankzero.slurm.job) returns it.
      - Overrides the other options that select a launch.
    type: path
  name:
    description: Name of the job spec. V(last) is the newest launch of all names, unless one is named so.
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
"""

    STATE = r"""
options:
  state_root:
    description: Folder on the cluster where launches are recorded. A C(~) is the home directory there.
    type: path
    default: ~/.rankzero/state
attributes:
  action_group:
    description: Use C(group/rankzero.slurm.slurm) in C(module_defaults) to set O(state_root) once for all such modules.
    support: full
    membership:
      - rankzero.slurm.slurm
"""
