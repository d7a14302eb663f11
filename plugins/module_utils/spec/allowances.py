# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check which secrets and images a cluster's settings allow a job to use: `secrets_from` and `images_from`. Pure."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import KINDS

_TRANSPORTS = ("docker", "oci", "oci-archive", "docker-archive", "dir")


def image_name(reference: str) -> str:
    """Return an image name in one spelling: no transport, no user, `/` after the registry; a path without `..`."""
    transport, colon, rest = reference.partition(":")
    name = rest.lstrip("/") if colon and transport in _TRANSPORTS else reference
    if name.startswith("/"):
        return posixpath.normpath(name)
    head, mark, tail = name.partition("#")
    return f"{head.rpartition('@')[2]}/{tail}" if mark else name


def secrets_of(spec: LaunchSpec) -> list[tuple[str, str, str]]:
    """Return (option, kind of the source, name of the source) for each secret that a job requests."""
    secrets = [(f"secrets.{name}", source.kind, source.name) for name, source in sorted(spec.all_secrets.items())]
    build = spec.container.build
    if build is not None:
        secrets += [
            (f"container.build.secrets.{name}", "from_file", path) for name, path in sorted(build.secrets.items())
        ]
    return secrets


def images_of(spec: LaunchSpec) -> list[tuple[str, str]]:
    """Return (option, image) for each image named in a job's spec. A Containerfile may name more."""
    named = [
        (f"{option}container.image", program.container.image if program.container.runtime != "none" else None)
        for option, program in spec.programs.items()
    ]
    if spec.container.build is not None:
        named.append(("container.build.reference", spec.container.build.reference))
    return [(option, image) for option, image in named if image]


def refused(spec: LaunchSpec, settings: ClusterSettings) -> list[str]:
    """Return what a job requests that the cluster's settings do not allow, one sentence each."""
    return [*_refused_secrets(spec, settings.secrets_from), *refused_images(images_of(spec), settings.images_from)]


def refused_images(images: Iterable[tuple[str, str]], allowed: Sequence[str] | None) -> Iterator[str]:
    """Return the images, given as (option, image), that `allowed` does not permit, one sentence each."""
    for option, image in images:
        if allowed is not None and not _matches(image_name(image), map(image_name, allowed)):
            yield (
                f"{option}: launch_cluster.images_from does not allow the image {t.shown(image)}. Allowed: "
                f"{', '.join(allowed) or '(none)'}. Use one of those, or add it there."
            )


def _refused_secrets(spec: LaunchSpec, allowed: Mapping[str, Sequence[str]] | None) -> Iterator[str]:
    for option, kind, name in secrets_of(spec):
        if allowed is None:
            return
        given = posixpath.normpath(name) if kind == "from_file" else name
        if not _matches(given, allowed.get(kind, ())):
            listed = "; ".join(f"{each}: {', '.join(allowed[each])}" for each in KINDS if allowed.get(each))
            yield (
                f"{option}: launch_cluster.secrets_from does not allow {kind} {name}. Allowed: {listed or '(none)'}. "
                f"Omit it, or add it there: secrets_from: {{{kind}: [{name}]}}."
            )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
