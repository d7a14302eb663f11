# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request that the action of module `dataset` sends from the controller to the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, files_of, rows_of

# Path, sha256 and size of a file, and the offset and length of the piece's part of it.
Entry = tuple[str, str, int, int, int]


@dataclass(frozen=True)
class DatasetRequest:
    """`files` and `said` (their source as text) where the controller has the files; `complete`: all of them are sent.

    `entries`: the parts of files in the file `piece` on this host. `follow`: the seconds after which the controller
    wants a progress report; `again`: it has asked for one before.
    """

    files: tuple[File, ...] | None = None
    said: str | None = None
    complete: bool = False
    piece: str = ""
    entries: Sequence[Entry] = ()
    follow: float | None = None
    again: bool = False

    @classmethod
    def of(cls, given: JsonObject) -> DatasetRequest:
        """The request from the module's argument. Raises RankzeroError, also for unsafe file names."""
        files = given.get("files")
        return made_of(cls, given if files is None else {**given, "files": files_of(files)})

    def arguments(self) -> JsonObject:
        """The request as it is sent to the module."""
        sent = {field.name: getattr(self, field.name) for field in fields(self)}
        sent = {field.name: sent[field.name] for field in fields(self) if sent[field.name] != field.default}
        if self.files is not None:
            sent["files"] = rows_of(self.files)
        return sent
