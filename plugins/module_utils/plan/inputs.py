# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of a launch and their locations on the cluster, known before the plan is made. Data only."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import digest_token
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import (
    ENVIRONMENT,
    KINDS,
    LISTED,
    PACKED,
    STORED,
    InputKind,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import built_file
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.batch_script import body_digest
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import digest_of, starter
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_formats import OwnFormat
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import Environment


def mounted(refs: Iterable[Ref]) -> list[str]:
    """Return the paths that are mounted in the container. The image is left out, because it is the container itself."""
    return [ref.path for ref in refs if ref.declared.mounted]


@dataclass(frozen=True)
class Upstream:
    """A launch that must succeed first: its name, key and result path (which contains that launch's own token)."""

    name: str
    key: str
    path: str

    @property
    def variable(self) -> str:
        """The variable in which the ranks find `path`."""
        return "RANKZERO_AFTER_" + re.sub(r"[^A-Za-z0-9]", "_", self.name).upper()


@dataclass(frozen=True)
class Standing:
    """An environment that the site has: its part of the launch key, and whether it is a conda environment."""

    key: str
    conda: bool


@dataclass(frozen=True)
class Inputs:
    """Digests that are known before anything is built, and the launches that this one follows.

    `environment`: digest of an environment to be built. `of_roles`: of those that roles have instead. `packages`: of
    the packages from which each node builds its own environment. `adopted`: what is at each `environment.path`.
    `image`: digest of an image to be built. `commit`: the git commit of the code, for trackers only.
    """

    code: str
    runtime: str
    environment: str | None = None
    of_roles: Mapping[Environment, str] = field(default_factory=dict)
    packages: str | None = None
    adopted: Mapping[str, Standing] = field(default_factory=dict)
    image: str | None = None
    after: tuple[Upstream, ...] = ()
    commit: str | None = None

    def key_of(self, kind: InputKind, spec: LaunchSpec) -> str | None:
        """Return the key of the input of a kind: a digest from here, or the text of the option that names it."""
        if not kind.option:
            return cast("str | None", getattr(self, kind.name))
        value: object = functools.reduce(getattr, kind.option.split("."), spec)
        return value if isinstance(value, str) else None

    def keyed(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the inputs that are part of the launch key, by name."""
        made = {kind.keyed: key for kind in KINDS if kind.keyed and (key := self.key_of(kind, spec))}
        return {
            **made,
            **_of_programs(spec, self._of_program),
            **({"script": body_digest(spec.script)} if spec.script else {}),
            **{f"after.{upstream.name}": upstream.key for upstream in self.after},
        }

    def _of_program(self, spec: LaunchSpec) -> dict[str, str]:
        standing = self.adopted.get(spec.environment.path or "")
        environment = standing.key if standing else self.of_roles.get(spec.environment)
        return {
            **({ENVIRONMENT.keyed: environment} if environment else {}),
            **{f"data.{name}": dataset.key for name, dataset in spec.data.items()},
        }

    def conda(self, spec: LaunchSpec) -> bool:
        """Return whether the environment of a program is a conda environment."""
        standing = self.adopted.get(spec.environment.path or "")
        return spec.environment.mode == "conda" or (standing is not None and standing.conda)


def _of_programs(spec: LaunchSpec, keyed: Callable[[LaunchSpec], dict[str, str]]) -> dict[str, str]:
    """Return what is keyed of the launch, and of each role what is not the same as that."""
    _first, *others = spec.programs.items()
    known = keyed(spec)
    of_roles = [(option, name, own) for option, program in others for name, own in keyed(program).items()]
    return {**known, **{option + name: own for option, name, own in of_roles if known.get(name) != own}}


@dataclass(frozen=True)
class Site:
    """Where a cluster stores files, as absolute paths.

    The job runtime is stored next to the runs, because a node that does not see the store must start as well. The roots
    in `settings` are not used: they may still begin with ~ or $NAME. `caches` is launch_cluster.caches.
    `used`: the hours that count against this month's budget, by unit; {} if the cluster has none.
    """

    state_root: str
    store_root: str
    settings: ClusterSettings = field(default_factory=ClusterSettings)
    caches: str | None = None
    used: Mapping[str, float] = field(default_factory=dict)

    def refs(self, inputs: Inputs, spec: LaunchSpec) -> tuple[Ref, ...]:
        """Return the refs of the inputs that are in the store once they are built."""
        sealed = spec.environment.mode == "sealed"
        file = built_file(spec.container.runtime, self.settings.containers) if inputs.image else ""
        folder = f"{self.store_root}/{ENVIRONMENT.folder}"
        # Two sections may say the same in other words.
        others = {key: section for section, key in inputs.of_roles.items() if key != inputs.environment}
        of_roles = [
            Ref(ENVIRONMENT.name, key, f"{folder}/{key}", "", digest_token(key) if section.mode == "sealed" else "")
            for key, section in others.items()
        ]
        return (*self._refs(inputs, spec, file, sealed), *of_roles)

    def _refs(self, inputs: Inputs, spec: LaunchSpec, image: str, sealed: bool) -> tuple[Ref, ...]:
        return tuple(
            Ref(
                kind.name,
                key,
                f"{self.store_root}/{kind.folder}/{key}",
                "" if kind.mounted else image,
                digest_token(key) if kind.compared == LISTED or (kind.compared == PACKED and sealed) else "",
            )
            for kind in STORED
            if (key := inputs.key_of(kind, spec))
        )

    def keyed(self, spec: LaunchSpec) -> dict[str, str]:
        """Return what the cluster declares of the launch that is part of the launch key, by name."""
        return _of_programs(spec, self._keyed)

    def _keyed(self, spec: LaunchSpec) -> dict[str, str]:
        runtime = self.settings.containers.get(spec.container.runtime)
        keyed = starter(spec.launcher.kind, self.settings.launchers).keyed()
        judge = self.judge(spec)
        keyed.update(judge.keyed() if judge else {})
        return {**keyed, **({"container": digest_of(dict(runtime.record))} if runtime and runtime.record else {})}

    def judge(self, spec: LaunchSpec) -> OwnFormat | None:
        """Return the cluster's record of the artifact's format; None for one of ours."""
        return self.settings.artifact_formats.get(spec.artifact.format) if spec.artifact else None

    def environments_inside(self, packages: str, image: str) -> str:
        """Return the folder of the environments that jobs make of these packages (a key) inside this image.

        Each version of the image has a folder below, because a file may change under its name.
        """
        text = json.dumps({"packages": packages, "image": image}, sort_keys=True)
        return f"{self.state_root}/environments/{hashlib.sha256(text.encode()).hexdigest()[:32]}"
