# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of a command, taken once, so that the plan, the transfer and the submission use the same code.

A playbook plans, builds what is missing, which may take minutes, and submits. If an editor or a log changed a file in
between, the launch would get another key. So the planned snapshot is kept in the command's own temporary folder.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, parsed_json
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import provenance
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import (
    PROGRAM,
    Chosen,
    Folder,
    Snapshot,
    patterns_of,
    read,
    snapshot_of,
)

#: The variable in which our role and playbooks pass the snapshots' file from task to task.
VARIABLE = "rankzero_snapshots"


@dataclass(frozen=True)
class _Row:
    """A snapshot in the file: what it is of, and what is known about its repository."""

    of: Sequence[str]
    snapshot: Snapshot
    origin: str | None
    diff: str


class Snapshots:
    """Snapshots by folder and chosen files. `path`: the file of an earlier task of the same command, or None."""

    def __init__(self, path: str | None = None) -> None:
        self.kept: dict[tuple[str, ...], Snapshot] = {}
        self.path = path
        # Each folder is read once for all launches: git is asked about it by several commands.
        self._folders: dict[tuple[str, ...], Folder] = {}
        self._known: dict[tuple[str, str, tuple[str, ...]], tuple[str | None, str]] = {}
        if path:
            try:
                documents: Any = parsed_json(path, MOST_LIST_BYTES)
            except OSError as error:
                raise RankzeroError(
                    f"{VARIABLE}: {path} cannot be read ({error.strerror}); run the same command again"
                ) from error
            for document in documents:
                row = record_of(_Row, document, snapshot=_read)
                self.kept[tuple(row.of)] = row.snapshot
                self._known[_state(row.snapshot)] = (row.origin, row.diff)

    def snapshot_of(self, src: str, chosen: Chosen = PROGRAM) -> Snapshot:
        """The snapshot of a folder when this command first read it. Raises RankzeroError as code.take_snapshot does."""
        root = os.path.abspath(os.path.expanduser(src))
        name = _name(root, chosen)
        if name not in self.kept:
            self.kept[name] = snapshot = snapshot_of(self._folder(src, chosen.exclude), chosen)
            # Another task sends what is missing on the cluster. It gets a pattern for each file that is left out.
            self.kept[_name(root, Chosen.everything(patterns_of(snapshot, chosen.exclude)))] = snapshot
        return self.kept[name]

    def _folder(self, src: str, exclude: tuple[str, ...]) -> Folder:
        name = (os.path.abspath(os.path.expanduser(src)), *exclude)
        if name not in self._folders:
            self._folders[name] = read(src, exclude)
        return self._folders[name]

    def known(self, snapshot: Snapshot) -> tuple[str | None, str]:
        """The address of a snapshot's repository and its uncommitted changes, as provenance says them."""
        state = _state(snapshot)
        if state not in self._known:
            self._known[state] = (provenance.origin(snapshot.checkout), provenance.diff(snapshot))
        return self._known[state]

    def save(self, folder: str) -> str:
        """Write them to a new file in `folder`, which is removed when the command ends. Returns its path."""
        documents = []
        for name, snapshot in self.kept.items():
            origin, diff = self.known(snapshot)
            documents.append(asdict(_Row(name, replace(snapshot, checkout=None), origin, diff)))
        descriptor, path = tempfile.mkstemp(prefix="rankzero-snapshots-", suffix=".json", dir=folder)
        with open(descriptor, "w", encoding="utf-8") as stream:
            json.dump(documents, stream)
        return path


def _name(root: str, chosen: Chosen) -> tuple[str, ...]:
    return (root, *chosen.exclude, "", *chosen.include, "", *chosen.words)


def _state(snapshot: Snapshot) -> tuple[str, str, tuple[str, ...]]:
    return snapshot.src, snapshot.digest, snapshot.changed


def _read(document: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        **{
            **document,
            "files": tuple(Entry(**entry) for entry in document.get("files", ())),
            **{name: tuple(document[name]) for name in ("changed", "left_out", "left_out_changed", "written")},
        }
    )
