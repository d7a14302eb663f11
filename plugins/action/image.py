# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `image`: read the Containerfile and its context, and send what the host lacks."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import IMAGE
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import ImageRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.build_context import BuildInput, read_build
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot, pack


class ActionModule(Producer):
    MODULE = "rankzero.slurm.image"
    OPTIONS = IMAGE

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        key = options.pop("key")
        if key is not None:
            return self.without_source(key, options)
        read = BuildInput("", None)
        request = ImageRequest()
        containerfile, context = options.pop("containerfile"), options.pop("context")
        if containerfile is not None:
            read = read_build(containerfile, context, options["build_args"], options["target"], self.roots)
            request = ImageRequest(read.text, read.listed())
        elif context is not None:
            raise RankzeroError("context: requires containerfile; omit it, or give containerfile")
        result = self.make(options, asdict(request))
        if result.pop("needs", None) and read.context and not result.get("failed"):
            result = self.make(options, asdict(replace(request, archive=self._send(read.context))))
        return result

    def _send(self, context: Snapshot) -> str:
        self.say(f"sending the context, {len(context.files)} files, {amount(context.size)}")
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            archive = os.path.join(folder, "context.tar.gz")
            try:
                with open(archive, "wb") as stream:
                    pack(context, stream)
            except OSError as error:
                raise RankzeroError(f"context: cannot be packed: {error}. Run again.") from error
            return str(self._connection._shell.join_path(self.send([archive]), "context.tar.gz"))
