# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of what launches: what to do about inputs that are not on the cluster, and where results will be fetched."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible's documentation loader: one class attribute is one fragment."""

    DOCUMENTATION = r"""
options:
  missing:
    description:
      - What to do if something that a job needs is not on the cluster yet.
      - V(build) sends the code, which takes seconds, and goes on. If an environment, packages or an image are missing,
        it fails and names them, because they take minutes and often a network. The role P(rankzero.slurm.launch#role)
        builds them, and so do M(rankzero.slurm.uv_environment) and M(rankzero.slurm.image).
      - V(fail) fails for code as well.
      - V(report) does not fail and submits nothing that lacks something. RV(missing) lists what to build.
      - In check mode nothing is built and nothing fails. RV(missing) lists what would be built first.
    type: str
    choices: [build, fail, report]
    default: build
"""

    RESULTS = r"""
options:
  logs_dest:
    description:
      - Folder on the controller into which a later task fetches logs or results. Nothing is fetched by this module.
      - If nothing may be written there because git tracks the folder, or a link leads elsewhere, the task fails before
        anything is submitted.
    type: path
"""
