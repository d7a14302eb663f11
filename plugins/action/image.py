# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `image`: read the Containerfile and its context, and send what the host lacks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import IMAGE
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import ImageRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.build_context import BuildInput, read_build
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot, pack


@dataclass(frozen=True)
class _Options:
    """The options that the action itself reads."""

    build_args: Mapping[str, str]
    key: str | None = None
    containerfile: str | None = None
    context: str | None = None
    target: str | None = None


class ActionModule(Producer):
    MODULE = "rankzero.slurm.image"
    OPTIONS = IMAGE

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        given = record_of(_Options, options)
        if given.key is not None:
            return self.without_source(given.key, options)
        sent = {name: value for name, value in options.items() if name not in ("key", "containerfile", "context")}
        read = BuildInput("", None)
        request = ImageRequest()
        if given.containerfile is not None:
            read = read_build(given.containerfile, given.context, given.build_args, given.target, self.roots)
            request = ImageRequest(read.text, read.listed())
        elif given.context is not None:
            raise RankzeroError("context: requires containerfile; omit it, or give containerfile")
        result = self.make(sent, asdict(request))
        if result.pop("needs", None) and read.context:
            result = self.make(sent, asdict(replace(request, archive=self._send(read.context))))
        return result

    def _send(self, context: Snapshot) -> str:
        self.show_line(f"sending the context, {len(context.files)} files, {amount(context.size)}")
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            archive = os.path.join(folder, "context.tar.gz")
            try:
                with open(archive, "wb") as stream:
                    pack(context, stream)
            except OSError as error:
                raise RankzeroError(f"context: cannot be packed: {error}. Run again.") from error
            return str(self._connection._shell.join_path(self.send([archive]), "context.tar.gz"))
