# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python file that a job runs: it must be in the code, and its absence is said before anything is sent."""

from __future__ import annotations

import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.likeness import suggestion
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot


def program_file(spec: LaunchSpec) -> str:
    """The relative path of the Python file that `command` runs; "" if it runs none."""
    program = spec.command[0] if spec.command else ""
    return "" if not program.endswith(".py") or os.path.isabs(program) else os.path.normpath(program)


def check_program(job: Job, snapshot: Snapshot) -> None:
    """Raise SpecError unless the programs that are Python files are in the code."""
    spec = job.spec
    known = {entry.path for entry in snapshot.files}
    # Below container.workdir the file is the image's.
    absent = {
        option: name
        for option, program in spec.programs.items()
        if (name := program_file(program)) and not program.container.workdir and name not in known
    }
    if absent:
        scripts = sorted(path for path in known if path.endswith(".py"))
        raise SpecError(
            [
                (
                    f"{option}command: the program {name} is not in the code snapshot of {snapshot.src}"
                    f"{suggestion(name, scripts)}{_above(job, name)}; its Python files: "
                    f"{', '.join(scripts[:8]) or '(none)'}"
                )
                for option, name in absent.items()
            ]
        )


def _above(job: Job, name: str) -> str:
    """Say where the program is, if a folder above that of the code has it, of those that may be sent."""
    for levels in (1, 2):
        above = os.path.join(*[os.pardir] * levels)
        place = os.path.join(job.code_src, above, name)
        if job.roots.problem("code.src", place) is None and os.path.isfile(place):
            src = os.path.relpath(os.path.join(job.code_src, above), job.folder)
            return f"; {os.path.join(above, name)} is there: set code.src, as in code: {{src: {src}}}"
    return ""
