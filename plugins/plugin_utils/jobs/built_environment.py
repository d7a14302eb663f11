# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job's environment is built from. Loaded only for jobs that build one."""

from __future__ import annotations

import os

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.package_set import SetInputs
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.outbound import EnvironmentSource
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import project_source


def environment_source(job: Job) -> EnvironmentSource:
    """The key and the files of the environment that the job builds. Raises RankzeroError."""
    wanted = job.spec.environment
    if wanted.mode == "conda":
        from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import conda_recipe

        file = os.path.join(job.project, str(wanted.file))
        job.roots.check("environment.file", file)
        return EnvironmentSource(conda_recipe(file).key, (str(wanted.file),))
    on_nodes = wanted.mode in ON_NODES
    recipe, files = project_source(job.project, {**vars(wanted), **({"mode": "venv"} if on_nodes else {})}, job.roots)
    return EnvironmentSource(SetInputs(recipe, wanted.mode, wanted.platform).key if on_nodes else recipe.key, files)
