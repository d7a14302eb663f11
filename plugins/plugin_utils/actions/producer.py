# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code shared by the actions of producers (code_snapshot, uv_environment): options, module calls, transfers."""

from __future__ import annotations

import functools
import os
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    ModuleAnswer,
    ModuleFailed,
    ModuleResult,
    Parameters,
    TaskVariables,
    record_of,
    succeeded,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Reading
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import RUNNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.progress import Progress
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.results import STEPS, own_action
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.transfer import Moving, event, screen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots

#: How long (seconds) a query waits for an answer: at first, and at most for longer operations.
FIRST_WAIT, LONGEST_WAIT = 1, 5


@dataclass(frozen=True)
class _Followed(ModuleAnswer):
    """An answer about work in the background. `going`: a Reading, empty before the first; None: it is over."""

    going: Parameters | None = None
    notes: Sequence[str] = ()


class Producer(Action):
    """Makes something on the cluster from files of the controller: check first, then send what is missing."""

    # A run that finds everything in place transfers nothing: the host's folder is created only when there is something
    # to send.
    TRANSFERS_FILES = False
    MODULE = ""
    OPTIONS: Mapping[str, Any] = {}
    roots = ANYWHERE
    #: The option `state`.
    state = "present"
    #: What the lines of progress are about: the step, and what it makes. Empty: only the step.
    subject = ""
    # Options that the module needs even if nothing on the controller is read.
    WHERE: tuple[str, ...] = ("store_root", "stores", "store_group_writable", "state")

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry: check the options, then `produce`. A RankzeroError becomes a failed result."""
        super().run(tmp, task_vars)
        try:
            _checked, options = self.validate_argument_spec(argument_spec=dict(self.OPTIONS))
            self.roots = Roots.of(options.pop("code_roots"), os.getcwd())
            self.state = str(options.get("state", self.state))
            return self.produce(options)
        except RankzeroError as error:
            return {"failed": True, "changed": False, "msg": error.message, **error.partial}

    @abstractmethod
    def produce(self, options: JsonObject) -> ModuleResult:
        """The work of the subclass. Returns the task's result."""

    def without_source(self, key: str, options: Parameters) -> JsonObject:
        """Remove the object with this key, without reading anything on the controller."""
        if self.state != "absent":
            raise RankzeroError("key: is allowed only with state: absent, to name what to remove; omit it")
        return self.call(**{name: options[name] for name in self.WHERE}, key=key)

    def call(self, **arguments: Any) -> ModuleResult:
        """Run the module of this action on the host. Raises ModuleFailed."""
        return succeeded(self._called(**arguments))

    def _called(self, **arguments: Any) -> ModuleResult:
        given = {name: value for name, value in arguments.items() if value is not None}
        return call_module(self, self.MODULE, given, self._task_vars, {**self.OPTIONS, **REQUEST})

    @functools.cached_property
    def shown(self) -> Progress | Moving:
        """The display of the progress."""
        hosts = self.play.hosts
        return screen(self.host, self.subject or STEPS[own_action(self.MODULE)], len(hosts) == 1)

    def follow(self, options: Parameters, request: JsonObject) -> ModuleResult:
        """Run the module in the background of the host, show its progress, and return its result. Raises
        ModuleFailed.
        """
        if self._task.check_mode or self.state == "absent":
            return self.call(**options, x_request=request)
        seconds, notes_shown, again = FIRST_WAIT, 0, False
        while True:
            result = self._called(**options, x_request={**request, "follow": seconds, "again": again})
            followed = record_of(_Followed, result)
            going = followed.going
            if going is None or followed.failed:
                self.shown.flush()
                for note in followed.notes[notes_shown:]:
                    self.shown.show_line(note)
                return succeeded(result)
            if going:
                known = record_of(Reading, going)
                for note in known.notes[notes_shown:]:
                    self.shown.show_line(note)
                notes_shown = len(known.notes)
                self.shown.events([event(known)])
            seconds, again = min(seconds * 2, LONGEST_WAIT), True

    def make(self, options: Parameters, request: JsonObject) -> ModuleResult:
        """Like `follow`, for work that cannot be resumed.

        A site may kill the processes that a connection leaves behind. Then the work is done in one call, without
        progress.
        """
        ansible = os.getppid()
        try:
            return self.follow(options, request)
        except ModuleFailed as error:
            # If Ansible has been killed, nobody waits for the result.
            if not error.result.get("killed") or os.getppid() != ansible:
                raise
            return self.call(**options, x_request=request)

    def show_line(self, text: str) -> None:
        """Show what the step is doing: in its row, or as a line."""
        name = STEPS.get(own_action(self.MODULE), "")
        if name and display.draws:
            display.row(Row(self.host, RUNNING, name, text, news=True))
        else:
            display.display(f"{self.host}: {text}")

    def send(self, paths: Iterable[str]) -> str:
        """Transfer local files to this task's folder on the host, which Ansible removes; returns that folder."""
        folder: str = self._connection._shell.tmpdir or self._make_tmp_path()
        sent = [folder]
        files = [(path, os.path.getsize(path)) for path in paths]
        size, done, began = sum(size for _path, size in files), 0, time.monotonic()
        for number, (path, bytes_sent) in enumerate(files, 1):
            remote = self._connection._shell.join_path(folder, os.path.basename(path))
            self._transfer_file(path, remote)
            sent.append(remote)
            done += bytes_sent
            if len(files) > 1:
                known = Reading("sent", size, done, done, len(files), number, time.monotonic() - began)
                self.shown.events([event(known)])
        self._fixup_perms2(sent)
        return folder
