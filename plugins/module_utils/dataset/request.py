# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller's half of module `dataset` tells the host: written and read here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, files_of, rows_of

# Path, sha256 and size of a file, and the offset and length of what a piece has of it.
Entry = tuple[str, str, int, int, int]


@dataclass(frozen=True)
class DatasetRequest:
    """`files` and `said` (their source in words) where the controller has the files, `complete` once it has sent all.

    `entries`: the parts of files that lie in the file `piece` on this host. `follow`: after how many seconds it wants
    to hear how far the rest is; `again`: it has asked that before.
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
        """From the module's argument. Raises RankzeroError, also for a name that leads elsewhere."""
        files = given.get("files")
        return made_of(cls, given if files is None else {**given, "files": files_of(files)})

    def arguments(self) -> JsonObject:
        """As it is sent to the module."""
        sent = {field.name: getattr(self, field.name) for field in fields(self)}
        sent = {field.name: sent[field.name] for field in fields(self) if sent[field.name] != field.default}
        if self.files is not None:
            sent["files"] = rows_of(self.files)
        return sent
