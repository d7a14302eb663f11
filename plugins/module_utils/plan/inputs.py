# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch is made from, and where the cluster keeps it: known before anything is decided. Data only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import ClusterSettings, LaunchSpec


@dataclass(frozen=True)
class Ref:
    """Something a launch needs on the cluster: `kind` code, environment, packages, image or dataset, `key` of its
    inputs, `path` once there.
    """

    kind: str
    key: str
    path: str


def mounted(refs: Iterable[Ref]) -> list[str]:
    """The paths that a container shows; its image is around it."""
    return [ref.path for ref in refs if ref.kind != "image"]


@dataclass(frozen=True)
class Upstream:
    """A launch that must have succeeded before: its name, its key, and where its results lie (with its own token)."""

    name: str
    key: str
    path: str

    @property
    def variable(self) -> str:
        """The name under which the ranks find `path`."""
        return "RANKZERO_AFTER_" + re.sub(r"[^A-Za-z0-9]", "_", self.name).upper()


@dataclass(frozen=True)
class Inputs:
    """Digests that are known before anything is built, and the launches that this one follows.

    `environment` is that of an environment to be built, `packages` that of the packages from which each node makes its
    own, `adopted` that of the one at `environment.path`; `conda`: whether it is a conda environment. `image` is that of
    an image to be built.
    """

    code: str
    runtime: str
    environment: str | None = None
    packages: str | None = None
    adopted: str | None = None
    conda: bool = False
    image: str | None = None
    after: tuple[Upstream, ...] = ()

    def keyed(self, spec: LaunchSpec) -> dict[str, str]:
        """What of it is part of the launch key, by name."""
        environment = self.adopted or self.packages or self.environment
        return {
            "code": self.code,
            **({"environment": environment} if environment else {}),
            **({"image": self.image} if self.image else {}),
            **{f"after.{upstream.name}": upstream.key for upstream in self.after},
            **{f"data.{name}": dataset.key for name, dataset in spec.data.items()},
        }


@dataclass(frozen=True)
class Site:
    """Where a cluster keeps things, as absolute paths. The roots in `settings` are not looked at: they may still begin
    with ~ or $NAME. `caches` is launch_cluster.caches.
    """

    state_root: str
    store_root: str
    settings: ClusterSettings = field(default_factory=ClusterSettings)
    caches: str | None = None

    def refs(self, inputs: Inputs) -> tuple[Ref, ...]:
        """Where that of a launch lies which is in the store once it is built."""
        kinds = (
            ("code", "code", inputs.code),
            ("environment", "environments", inputs.environment),
            ("packages", "packages", inputs.packages),
            ("image", "images", inputs.image),
        )
        return tuple(Ref(kind, key, f"{self.store_root}/{folder}/{key}") for kind, folder, key in kinds if key)
