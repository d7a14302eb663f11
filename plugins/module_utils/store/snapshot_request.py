# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request that the action of module `code_snapshot` sends from the controller to the host. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of

# Kind, sha256 and path of a file.
Row = tuple[str, str, str]


@dataclass(frozen=True)
class SnapshotRequest:
    """A question about the snapshot with this `digest`, or the archive that it is made of.

    `large`: if it is missing, the controller wants to know an older snapshot, so that it sends only the difference.
    `base` without `archive`: which files of `tree` does that snapshot not contain? `archive`: the packed files on the
    host; the files of `tree` are not in it and come from `base`.
    """

    digest: str = ""
    large: bool = False
    base: str | None = None
    tree: Sequence[Row] = ()
    archive: str | None = None

    @classmethod
    def of(cls, given: JsonObject) -> SnapshotRequest:
        """Build the request from the module's argument. Raises RankzeroError."""
        request = made_of(cls, given)
        return replace(request, tree=tuple((kind, sha256, path) for kind, sha256, path in request.tree))

    def arguments(self) -> JsonObject:
        """Return the request as it is sent to the module."""
        return asdict(self)
