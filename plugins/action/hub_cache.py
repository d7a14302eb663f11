# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `hub_cache`: read or download files on the controller, and send those that the host lacks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import HUB_CACHE
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import answer_of, record_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import hub


@dataclass(frozen=True)
class _Source:
    """The options that say where the files are."""

    state: str
    include: Sequence[str]
    exclude: Sequence[str]
    src: str | None = None
    remote_src: bool = False


class ActionModule(Producer):
    MODULE = "rankzero.slurm.hub_cache"
    # The path is one of the cluster: nothing is expanded here.
    OPTIONS = {**HUB_CACHE, "path": {**HUB_CACHE["path"], "type": "str"}}

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        given = record_of(_Source, options)
        if given.remote_src and given.src is None:
            raise RankzeroError("remote_src: needs src; give src, or omit remote_src")
        if given.src is None or given.remote_src or given.state == "absent":
            result = self.make(options, {})
            needs = result.get("needs")
            if needs is None:
                return result
            download = hub.downloaded(record_of(hub.DownloadOptions, options), needs.get("commit"))
            result = self._bring(options, download)
            hub.forget(download)
            return result
        self.roots.check("src", given.src)
        with hub.opened(given.src, given.include, given.exclude) as download:
            if os.path.isdir(os.path.expanduser(given.src)):
                # The hub's own cache consists of links. They are followed, so each target must be checked.
                for file in download.files:
                    self.roots.check("src", os.path.join(download.folder, file.path))
            return self._bring(options, download)

    def _bring(self, options: dict[str, Any], download: hub.Found) -> dict[str, Any]:
        """Ask what the host lacks, send it, and have the host install it."""
        given = {**options, "src": None}
        result = self.make(given, download.request())
        lacking = answer_of(result).lacking
        if lacking is None:
            return result
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            archive = os.path.join(folder, "files.tar")
            hub.pack(download, lacking, archive)
            size = os.path.getsize(archive)
            remote = self._connection._shell.join_path(self.send([archive]), "files.tar")
        sent = {**self.make(given, download.request(remote)), "sent": size}
        # Damaged files have been moved aside by now, so they only count as missing.
        repaired = result.get("repaired")
        return {**sent, **({"repaired": repaired} if repaired else {})}
