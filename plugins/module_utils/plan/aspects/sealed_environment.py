# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job's settings for its sealed environment, and why it is copied or not. Pure; the runtime does the work."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.node_copies import archives

# Policy -> what each node does with the file, in words. With each policy a node reads the file once completely, for its
# digest.
COPIES = {
    "auto": "each node checks the file and mounts it; copied first where the store is a network file system and a disk "
    "of the node has room: later reads then ask no server",
    "always": "each node copies the file to its own disk, checks it and mounts the copy",
    "never": "each node checks the file and mounts it from the store",
}
# The variables for mounting it, which an interactive session needs as well.
VARIABLES = ("RANKZERO_SEALED_COPY", "RANKZERO_SEALED_BUDGET", "RANKZERO_LOCAL_DIR", "RANKZERO_ARCHIVES")
# Files of the job's runtime that mount the environment for an interactive session.
PROGRAMS = (
    *("core/__init__.py", "core/children.py", "core/clearing.py", "core/extraction.py", "core/files.py"),
    *("core/ownership.py", "core/processes.py", "node/__init__.py", "node/disk.py", "node/job_end.py"),
    *("node/sealed.py", "node/sealed_file.py", "node/sealed_mount.py", "start/python.sh"),
)


class SealedEnvironment(Aspect):
    """An environment that is one read-only file (`environment.mode: sealed`)."""

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield whether a node copies the file to its own disk, the time limit for that in seconds, and where the file
        is.
        """
        spec, settings = context.spec, context.site.settings
        if all(program.environment.mode != "sealed" for program in spec.programs.values()):
            return
        if spec.environment.mode == "sealed":
            yield "RANKZERO_SEALED_COPY", spec.environment.local_copy
        yield "RANKZERO_SEALED_BUDGET", str(spec.preflight.stage_budget)
        if settings.local_dir:
            yield "RANKZERO_LOCAL_DIR", settings.local_dir
        if not settings.store_shared:
            yield "RANKZERO_ARCHIVES", archives(context.site.state_root)
