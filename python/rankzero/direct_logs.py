# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""logs without ansible-playbook. Nothing here imports Ansible."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Part
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import TAIL_BYTES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetch_logs import FetchLogs
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetching import Options
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import unpack
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from rankzero.host import Host


class Logs(FetchLogs):
    """A fetch of the command. `chosen`: the options that select the launch; `given`: the variables."""

    def __init__(self, host: Host, chosen: Parameters, given: Mapping[str, Any]) -> None:
        self._there, self.screen, self.host = host, host.screen, host.login.name
        self._options = Options(0, chosen.get("run_dir"), given.get("dest", "runs"), TAIL_BYTES, merge="merge" in given)
        own = ("dest", "head_bytes", "merge", "follow", "redact")
        values = (self._options.dest, 0, self._options.merge, False, True)
        self._arguments = {**chosen, **dict(zip(own, values))}

    def done(self) -> ModuleResult:
        """Fetch. Returns the result, also of a failure. Raises NotPlain."""
        return self.fetched(self._options)

    def _ask(self, more: Parameters) -> ModuleResult:
        return self._there.called(self.MODULE, {**self._arguments, **more}, self.SPEC)

    def _carry(self, archive: str, parts: Sequence[Part], place: Place) -> int:
        # As large as the logs are.
        with tempfile.TemporaryFile() as content:
            code, _none, messages = self._there.sent(f"cat -- {shlex.quote(archive)}", into=content)
            if code != 0:
                raise RankzeroError(f"the archive {archive} cannot be read: {messages.strip()}")
            content.seek(0)
            return unpack(content, parts, place)

    def _discard(self, archive: str | None) -> None:
        if archive:
            self._there.sent(f"rm -rf -- {shlex.quote(os.path.dirname(archive))}")
