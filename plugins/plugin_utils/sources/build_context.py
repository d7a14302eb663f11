# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Containerfile and its context on the controller: the files that the build may read, and no others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.image.containerfile import BASE, Needs, needs, select
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest, read_entry, walk
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot

# The engines use the first of these files that exists (containerignore(5)).
_IGNORE = (".containerignore", ".dockerignore")


@dataclass(frozen=True)
class BuildInput:
    """`text` of the Containerfile, `context` with the files that it may read (None if it reads none), and the images
    that it starts from.
    """

    text: str
    context: Snapshot | None
    bases: tuple[str, ...] = ()

    def listed(self) -> list[tuple[str, str]]:
        """The path of each file, with its kind and sha256."""
        return [(entry.path, f"{entry.kind} {entry.sha256}") for entry in self.context.files] if self.context else []


def read_build(
    containerfile: str,
    context: str | None,
    build_args: Mapping[str, str],
    target: str | None = None,
    roots: Roots = ANYWHERE,
) -> BuildInput:
    """Read a Containerfile and the files of its context that it needs. The default context is its own folder.

    Raises RankzeroError.
    """
    path = os.path.abspath(os.path.expanduser(containerfile))
    if os.path.isdir(path):
        names = [name for name in ("Containerfile", "Dockerfile") if os.path.isfile(os.path.join(path, name))]
        if not names:
            raise RankzeroError(f"containerfile: {path} is a folder without Containerfile and Dockerfile")
        path = os.path.join(path, names[0])
    roots.check("containerfile", path)
    text = _read(path)
    if text is None:
        raise RankzeroError(f"containerfile: {path} does not exist on the controller")
    folder = os.path.abspath(os.path.expanduser(context)) if context else os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RankzeroError(f"context: {folder} is not a folder on the controller")
    roots.check("context", folder)
    wanted = needs(text, build_args, target)
    files = _files(folder, wanted, roots) if wanted.whole or wanted.sources else None
    return BuildInput(text, files, tuple(name for name in wanted.bases if name != BASE))


def _files(folder: str, wanted: Needs, roots: Roots) -> Snapshot:
    for name in _IGNORE:
        roots.check("context", os.path.join(folder, name))
    ignore = next((text for name in _IGNORE if (text := _read(os.path.join(folder, name))) is not None), "")
    paths = select(wanted, walk(folder, lambda path: path.rpartition("/")[2] == ".git"), ignore.splitlines())
    try:
        entries = tuple(entry for path in paths if (entry := read_entry(folder, path)) is not None)
    except OSError as error:
        raise RankzeroError(f"context: {error.filename} cannot be read: {error.strerror}") from error
    return Snapshot(folder, digest(entries), entries)


def _read(path: str) -> str | None:
    try:
        return named_text(path, "containerfile", errors="surrogateescape")
    except FileNotFoundError:
        return None
