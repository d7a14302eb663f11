# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of the image that a job builds. Loaded only for jobs that build one."""

from __future__ import annotations

from dataclasses import asdict

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import inputs, key_of, recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.allowances import refused_images
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.outbound import Outbound
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.build_context import read_build


def image_key(job: Job, leaving: Outbound) -> str | None:
    """The key of the image that the job builds, or None if it builds none. Its inputs are added to `leaving`.

    Raises RankzeroError.
    """
    build = job.spec.container.build
    if build is None:
        return None
    try:
        read = None
        if job.containerfile:
            read = read_build(job.containerfile, job.context, build.build_args, build.target, job.roots)
            bases = [("containerfile: FROM", name) for name in read.bases]
            for problem in refused_images(bases, job.settings.images_from):
                raise RankzeroError(problem)
            leaving.build(job.containerfile, read)
        elif job.context:
            raise RankzeroError("context: requires containerfile; omit it, or give containerfile")
        wanted = recipe(asdict(build), read.text if read else None, read.listed() if read else ())
        if wanted.local_path:
            raise RankzeroError(
                f"reference: {wanted.reference} is on the cluster, so its key cannot be computed on the "
                "controller. Build the image with the role or the module image, and name its file with container.image."
            )
    except RankzeroError as error:
        raise RankzeroError(f"container.build.{error.message}") from error
    return key_of(inputs(wanted))
