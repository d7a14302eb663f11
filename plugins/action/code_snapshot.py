# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `code_snapshot`: take a snapshot of the tree, and send what the store does not have yet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import CODE_SNAPSHOT
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import answer_of, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot_request import SnapshotRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Chosen, Snapshot, pack
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import VARIABLE, Snapshots
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.provenance import refuse_changes

# Programs are rarely larger. A larger tree usually contains misplaced data, which would be read at every launch.
_LARGE = 200_000_000
# Up to this size, the complete tree is sent, because asking the host what it has would take longer.
_WHOLE = 1_000_000


@dataclass(frozen=True)
class _Options:
    """The options that the action itself reads."""

    src: str
    state: str
    dirty: str
    exclude: Sequence[str]
    key: str | None = None


@dataclass(frozen=True)
class _Ref:
    """Where the snapshot is on the cluster, or would be."""

    path: str
    present: bool


class ActionModule(Producer):
    MODULE = "rankzero.slurm.code_snapshot"
    OPTIONS = CODE_SNAPSHOT

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        given = record_of(_Options, options)
        if given.key is not None:
            return self.without_source(given.key, options)
        where = {name: options[name] for name in self.WHERE}
        self.roots.check("src", given.src)
        kept = self._task_vars.get(VARIABLE)
        snapshots = Snapshots(str(self._templar.template(kept)) if kept else None)
        snapshot = snapshots.snapshot_of(given.src, Chosen.everything(given.exclude))
        if given.dirty == "refuse" and given.state == "present":
            refuse_changes(snapshot)
        large = snapshot.size > _WHOLE
        result = self.call(**where, x_request=SnapshotRequest(snapshot.digest, large).arguments())
        base = result.pop("base", None)
        wanted = given.state == "present" and not self._task.check_mode
        if wanted and not record_of(_Ref, result.get("ref", {})).present:
            result = self._bring(snapshot, where, base)
        result.update(code=snapshot.facts())
        if snapshot.size > _LARGE:
            result.setdefault("warnings", []).append(_too_large(snapshot))
        if answer_of(result).changed:
            listing = "".join(f"{entry.kind} {entry.sha256[:16]} {entry.path}\n" for entry in snapshot.files)
            path = record_of(_Ref, result.get("ref", {})).path
            before, after = ("", listing) if given.state == "present" else (listing, "")
            result.update(diff={"before_header": path, "after_header": path, "before": before, "after": after})
        return result

    def _bring(self, snapshot: Snapshot, where: dict[str, Any], base: str | None) -> dict[str, Any]:
        """Send what the store's snapshot `base` does not contain, or everything if there is no such snapshot."""
        request = SnapshotRequest(snapshot.digest)
        sent = snapshot
        if base:
            tree = [(entry.kind, entry.sha256, entry.path) for entry in snapshot.files]
            answer = self.call(**where, x_request=SnapshotRequest(base=base, tree=tree).arguments())
            numbers = set(answer.get("lacking", range(len(tree))))
            sent = replace(snapshot, files=tuple(snapshot.files[number] for number in sorted(numbers)))
            kept = [row for number, row in enumerate(tree) if number not in numbers]
            request = replace(request, base=base, tree=kept)
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            archive = os.path.join(folder, "code.tar.gz")
            try:
                with open(archive, "wb") as stream:
                    pack(sent, stream)
                size = os.path.getsize(archive)
            except OSError as error:
                raise RankzeroError(f"code.src: the snapshot cannot be packed: {error}. Run again.") from error
            remote = self._connection._shell.join_path(self.send([archive]), "code.tar.gz")
        return {**self.call(**where, x_request=replace(request, archive=remote).arguments()), "sent": size}


def _too_large(snapshot: Snapshot) -> str:
    largest = sorted(snapshot.files, key=lambda entry: entry.size, reverse=True)[:3]
    named = ", ".join(f"{entry.path} ({amount(entry.size)})" for entry in largest)
    return (
        f"code.src: the snapshot of {snapshot.src} has {amount(snapshot.size)}, which are read "
        f"with every launch; largest: {named}. Add data to code.exclude."
    )
