# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exercise of a class: files that the controller sends in one archive, and only those that differ.

A file that the controller does not name stays, such as a note of the teacher.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import untar
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import read_entry

#: Folder of the exercise below the course folder.
FOLDER = "exercise"


@dataclass(frozen=True)
class ExerciseRequest:
    """The files of the exercise as rows of kind, sha256 and path, or the archive on the host that contains some."""

    files: Sequence[tuple[str, str, str]] = ()
    archive: str | None = None

    @classmethod
    def of(cls, given: JsonObject) -> ExerciseRequest:
        """Build the request from the module's argument. Raises RankzeroError."""
        return made_of(cls, given)

    def arguments(self) -> JsonObject:
        """Return the request as it is sent to the module."""
        return asdict(self)


def lacking(root: str, files: Sequence[tuple[str, str, str]]) -> list[int]:
    """Indices of the files that the exercise of the class at `root` does not contain, or contains in another form."""
    numbers = []
    for number, (kind, sha256, path) in enumerate(files):
        try:
            there = read_entry(os.path.join(root, FOLDER), path)
        except OSError:
            there = None
        if there is None or (there.kind, there.sha256) != (kind, sha256):
            numbers.append(number)
    return numbers


def hand_out(root: str, archive: str) -> list[str]:
    """Put the files of the archive into the exercise, each complete or not at all. Returns their paths.

    Raises RankzeroError.
    """
    folder = os.path.join(root, FOLDER)
    paths = []
    try:
        # In the same file system, so that a student who reads a file meanwhile sees the old one or the new one.
        with tempfile.TemporaryDirectory(prefix=f".{FOLDER}-", dir=root) as unpacked:
            for entry in untar(archive, unpacked):
                target = os.path.join(folder, entry.path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(os.path.join(unpacked, entry.path), target)
                paths.append(target)
    except OSError as error:
        raise RankzeroError(f"exercise: {error.filename or folder} cannot be written: {error.strerror}") from error
    return paths
