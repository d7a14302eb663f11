# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is missing on the cluster for a launch, and what the module that makes it needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE, ENVIRONMENT, IMAGE, PACKAGES
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import image_formats
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import patterns_of


def described(ref: Ref, prepared: Prepared, job: Job) -> JsonObject:
    """A missing input with the options of the module that makes it, for the role that calls that module."""
    return {**ref.record(), **(_OPTIONS[ref.kind](prepared, job) if ref.kind in _OPTIONS else {})}


def _code(prepared: Prepared, job: Job) -> JsonObject:
    return {
        "src": prepared.snapshot.src,
        "exclude": list(patterns_of(prepared.snapshot, job.spec.code.exclude)),
    }


def _environment(_prepared: Prepared, job: Job) -> JsonObject:
    environment = job.spec.environment
    return {
        "project": job.project,
        "extras": list(environment.extras),
        "python": environment.python,
        "torch": environment.torch,
        "mode": environment.mode,
        "compression": environment.compression,
        "interpreter": environment.interpreter,
        "file": environment.file,
    }


def _packages(_prepared: Prepared, job: Job) -> JsonObject:
    environment = job.spec.environment
    return {
        "project": job.project,
        "extras": list(environment.extras),
        "python": environment.python,
        "platform": environment.platform,
        "torch": environment.torch,
        "kind_of_set": environment.mode,
    }


def _image(_prepared: Prepared, job: Job) -> JsonObject:
    build = job.spec.container.build
    return {
        **(asdict(build) if build else {}),
        "name": job.spec.name,
        "containerfile": job.containerfile,
        "context": job.context,
        "formats": image_formats(job.spec.container.runtime),
    }


_OPTIONS: dict[str, Callable[[Prepared, Job], JsonObject]] = {
    CODE.name: _code,
    ENVIRONMENT.name: _environment,
    PACKAGES.name: _packages,
    IMAGE.name: _image,
}
