# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch sends from the controller: as its plan shows it, and as the modules that make its inputs are told."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE, ENVIRONMENT, IMAGE, PACKAGES
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import image_formats
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.allowances import images_of, secrets_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot, patterns_of

if TYPE_CHECKING:
    # Imported only if a job builds an image.
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.build_context import BuildInput


@dataclass(frozen=True)
class EnvironmentSource:
    """What a job's environment is built from: its key, and the files of the project."""

    key: str
    files: tuple[str, ...]


@dataclass
class Outbound:
    """What a launch sends from the controller: files by their folder, secrets and images by name."""

    files: dict[str, list[str]] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)

    def build(self, containerfile: str, read: BuildInput) -> None:
        """Record what an image is built from."""
        self.images += read.bases
        folder, name = os.path.split(containerfile)
        self._add(*((containerfile, "Containerfile") if os.path.isdir(containerfile) else (folder, name)))
        if read.context:
            self._add(read.context.src, f"{_size(read.context)} of the build's context")

    def job(self, job: Job, snapshot: Snapshot, built: EnvironmentSource | None) -> None:
        """Record everything else that a job sends. `built`: what its environment is built from."""
        if snapshot.files:
            self._add(snapshot.src, f"{_size(snapshot)} of code")
        if built:
            self.project(job.project, built)
        for option, kind, name in secrets_of(job.spec):
            self.secrets.append(f"{option.rpartition('.')[2]} ({kind} {name})")
        self.images += [image for _option, image in images_of(job.spec)]

    def project(self, folder: str, built: EnvironmentSource) -> None:
        """Record what an environment is built from."""
        for name in built.files:
            self._add(folder, name)

    def _add(self, folder: str, what: str) -> None:
        named = self.files.setdefault(folder, [])
        if what not in named:
            named.append(what)

    def lines(self) -> list[str]:
        """One line for each folder, and one each for secrets and images."""
        lines = [f"takes from {folder}: {', '.join(named)}" for folder, named in self.files.items()]
        lines += [f"takes secrets: {', '.join(self.secrets)}"] if self.secrets else []
        return lines + ([f"takes images: {', '.join(self.images)}"] if self.images else [])

    def facts(self) -> dict[str, object]:
        """The same, for a task's result."""
        return {"files": self.files, "secrets": self.secrets, "images": self.images}


def _size(snapshot: Snapshot) -> str:
    count = len(snapshot.files)
    return f"{count} {'file' if count == 1 else 'files'} ({amount(snapshot.size)})"


def described(ref: Ref, snapshot: Snapshot, job: Job) -> JsonObject:
    """A missing input with the options of the module that makes it, for the role that calls that module."""
    return {**ref.record(), **(_OPTIONS[ref.kind](snapshot, job) if ref.kind in _OPTIONS else {})}


def _code(snapshot: Snapshot, job: Job) -> JsonObject:
    return {
        "src": snapshot.src,
        "exclude": list(patterns_of(snapshot, job.excluded)),
    }


def _environment(_snapshot: Snapshot, job: Job) -> JsonObject:
    environment = job.spec.environment
    return {
        "project": job.project,
        "extras": list(environment.extras),
        "python": environment.python,
        "platform": environment.platform,
        "torch": environment.torch,
        "mode": environment.mode,
        "compression": environment.compression,
        "interpreter": environment.interpreter,
        "file": environment.file,
        "requirements": environment.requirements,
        "build_on_controller": job.settings.build_on_controller,
    }


def _image(_snapshot: Snapshot, job: Job) -> JsonObject:
    build = job.spec.container.build
    return {
        **(asdict(build) if build else {}),
        "name": job.spec.name,
        "containerfile": job.containerfile,
        "context": job.context,
        "formats": image_formats(job.spec.container.runtime, job.settings.containers),
    }


_OPTIONS: dict[str, Callable[[Snapshot, Job], JsonObject]] = {
    CODE.name: _code,
    ENVIRONMENT.name: _environment,
    PACKAGES.name: _environment,
    IMAGE.name: _image,
}
