# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fetch of an action: through Ansible's connection, which may be lost and come back."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shlex
import tempfile
from collections.abc import Callable, Sequence

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    TaskVariables,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import (
    Part,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetching import Fetching, Options
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import (
    unpack,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reconnect import ConnectionLost, retried

# With become, the archive is sent as text in the command's output, which is kept in memory.
BECOME_ROUND_BYTES = 16 * 1024 * 1024


class FetchAction(Fetching, Action):
    """An action that fetches files of one launch, through Ansible's connection."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = True
    LOST = (AnsibleConnectionFailure,)
    screen = display

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Fetch. Errors and a lost connection become a failed result."""
        super().run(tmp, task_vars)
        public = {name: spec for name, spec in self.SPEC.items() if not name.startswith("x_")}
        _checked, given = self.validate_argument_spec(public)
        options = record_of(Options, given)
        self._reconnect_timeout = options.reconnect_timeout
        self.check_mode = bool(self._task.check_mode)
        if self._becomes():
            self.round_bytes = BECOME_ROUND_BYTES
        else:
            # It belongs to the login user; a module of another user could not write to it.
            self.folder = self._connection._shell.tmpdir
        try:
            return self.fetched(options)
        except ConnectionLost as error:
            return {
                "failed": True,
                "connection_lost": True,
                "msg": f"the connection was lost, and {error}. The job is not affected; run it again.",
            }
        finally:
            # The host may still be unreachable; what was fetched is still a result.
            with contextlib.suppress(AnsibleConnectionFailure):
                self._remove_tmp_path(self._connection._shell.tmpdir)

    def _becomes(self) -> bool:
        return bool(self._play_context.become)

    def _ask(self, more: Parameters) -> ModuleResult:
        """As the base says, and again while the connection is lost. Raises ConnectionLost."""

        def call() -> ModuleResult:
            return call_module(self, self.MODULE, {**self._task.args, **more}, self._task_vars, self.SPEC)

        return self._retried(call)

    def _retried(self, command: Callable[[], ModuleResult]) -> ModuleResult:
        """Run `command`, and repeat it while the connection is lost. Raises ConnectionLost."""

        def show(line: str, color: str | None) -> None:
            display.display(f"{self.host}: {line}", color=color)

        return retried(command, show, self._reconnect_timeout, self._connection, lost=self.LOST)

    def _carry(self, archive: str, parts: Sequence[Part], place: Place) -> int:
        """Fetch one archive and unpack it here. Returns the bytes of files in it."""
        with tempfile.TemporaryDirectory(prefix="rankzero-logs-") as folder:
            local = os.path.join(folder, "logs.tar.gz")

            def bring() -> ModuleResult:
                if not self._becomes():
                    self._connection.fetch_file(archive, local)
                    return {}
                # The connection itself copies as the login user, who may not have permission to read the archive.
                answer: ModuleResult = self._low_level_execute_command(f"base64 < {shlex.quote(archive)}")
                return answer

            done = record_of(ShellAnswer, self._retried(bring))
            if done.rc != 0:
                raise RankzeroError(f"the archive {archive} cannot be read: {done.stderr.strip()}")
            if self._becomes():
                return unpack(io.BytesIO(base64.b64decode(done.stdout)), parts, place)
            with open(local, "rb") as stream:
                return unpack(stream, parts, place)

    def _discard(self, archive: str | None) -> None:
        """Remove an archive and its folder on the host."""
        if archive:
            self._low_level_execute_command(f"rm -rf -- {shlex.quote(os.path.dirname(archive))}")
