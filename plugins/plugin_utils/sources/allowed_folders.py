# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of the controller from which files may be sent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.git import MARKER, find


@dataclass(frozen=True)
class Roots:
    """Real paths of permitted folders; None permits every folder."""

    folders: tuple[str, ...] | None = None

    @classmethod
    def of(cls, given: Sequence[str] | None, cwd: str) -> Roots:
        """The roots that a setting names; relative paths start at `cwd`."""
        if given is None:
            return cls()
        return cls(tuple(os.path.realpath(os.path.join(cwd, os.path.expanduser(path))) for path in given))

    def problem(self, option: str, path: str) -> str | None:
        """Why a file or folder may not be sent, or None. Links are resolved first; git's own files are never sent."""
        if self.folders is None:
            return None
        real = os.path.realpath(path)
        inside = [os.path.relpath(real, folder) for folder in self.folders if _holds(folder, real)]
        if inside and not any(MARKER in place.split(os.sep) for place in inside):
            return None
        leads = f"{path} (which is {real})" if real != os.path.normpath(path) else path
        if inside:
            return f"{option}: {leads} belongs to git and may contain credentials. Name another file"
        return (
            f"{option}: {leads} is outside of the folders from which this controller may send files: "
            f"{', '.join(self.folders) or '(none)'}; move it there, or add its folder to launch_cluster.code_roots"
        )

    def check(self, option: str, path: str) -> None:
        """Raise RankzeroError if a file or folder may not be sent."""
        problem = self.problem(option, path)
        if problem:
            raise RankzeroError(problem)


ANYWHERE = Roots()


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def repository_root(folder: str, cwd: str) -> str:
    """The default root for a folder of job files: its git work tree.

    Without git, it is the working directory if that contains the folder, or else the folder itself. It is never / or a
    complete home directory.
    """
    real = os.path.realpath(os.path.join(cwd, os.path.expanduser(folder)))
    here = os.path.realpath(cwd)
    tree = find(real)
    candidates = [tree.top] if tree else []
    candidates += [here] if _holds(here, real) else []
    too_wide = {os.sep, os.path.realpath(os.path.expanduser("~"))}
    return next((place for place in candidates if place not in too_wide), real)
