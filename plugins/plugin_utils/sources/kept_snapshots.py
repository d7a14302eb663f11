# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of a command, taken once: the plan, the transfer and the submission see the same code.

A playbook plans, builds what is missing, which may take minutes, and submits. A file that an editor or a log changes
in between would give the launch another key. So what the plan saw is kept in the command's own temporary folder.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot, take

#: The variable with which our role and playbooks hand the file of the snapshots from task to task.
VARIABLE = "rankzero_snapshots"


class Snapshots:
    """Snapshots by folder and excluded patterns. `path`: the file of an earlier task of the same command, or None."""

    def __init__(self, path: str | None = None) -> None:
        self.kept: dict[tuple[str, ...], Snapshot] = {}
        self.path = path
        if path:
            try:
                with open(path, encoding="utf-8") as stream:
                    documents = json.load(stream)
            except OSError as error:
                raise RankzeroError(
                    f"{VARIABLE}: {path} cannot be read ({error.strerror}); run the same command again"
                ) from error
            for document in documents:
                entries = tuple(Entry(**entry) for entry in document["snapshot"].pop("files"))
                changed = tuple(document["snapshot"].pop("changed"))
                snapshot = Snapshot(**document["snapshot"], files=entries, changed=changed)
                self.kept[tuple(document["of"])] = snapshot

    def take(self, src: str, exclude: Sequence[str] = ()) -> Snapshot:
        """The snapshot of a folder as it was when this command first looked. Raises RankzeroError as code.take does."""
        name = (os.path.abspath(os.path.expanduser(src)), *exclude)
        if name not in self.kept:
            self.kept[name] = take(src, exclude)
        return self.kept[name]

    def save(self, folder: str) -> str:
        """Write them to a new file in `folder`, which ends with the command. Its path."""
        documents = [{"of": list(name), "snapshot": asdict(snapshot)} for name, snapshot in self.kept.items()]
        descriptor, path = tempfile.mkstemp(prefix="rankzero-snapshots-", suffix=".json", dir=folder)
        with open(descriptor, "w", encoding="utf-8") as stream:
            json.dump(documents, stream)
        return path
