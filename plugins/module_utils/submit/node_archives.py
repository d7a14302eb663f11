# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack code and environment into state_root for nodes that do not see the store. The job runtime does the packing."""

from __future__ import annotations

import contextlib
import os
import sys

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import described, is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import runtime_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request


def keep(request: Request) -> None:
    """Pack the archives that do not exist yet. Raises `RankzeroError`."""
    for wanted in request.archives:
        with contextlib.suppress(OSError):  # if nothing can be written, packing reports it
            uses.use(wanted["archive"])
        if os.path.lexists(wanted["archive"]) and not is_own(wanted["archive"]):
            raise RankzeroError(
                f"state_root: {wanted['archive']} can be written by others ({described(wanted['archive'])}), and the "
                "nodes would run its content: remove it, and it is packed again"
            )
        packer = os.path.join(runtime_of(request.refs).path, "node", "pack.py")
        command = [sys.executable, "-I", packer, "keep", wanted["folder"], wanted["archive"]]
        done = children.run(command, child_environment(os.environ))
        if done.returncode != 0:
            raise RankzeroError(
                f"state_root: {done.stderr.strip()}. Code and environment are kept there for nodes that see no "
                "store (launch_cluster.store_shared: false)."
            )
