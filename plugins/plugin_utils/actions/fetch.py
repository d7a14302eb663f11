# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of a fetch: say which files are here, get one archive a round trip, and store its contents."""

from __future__ import annotations

import abc
import base64
import contextlib
import io
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    TaskVariables,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import ROUND_BYTES
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import (
    Fetched,
    FetchRequest,
    Holding,
    Part,
    Round,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.reconnect import ConnectionLost, retried
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import (
    holdings,
    launch_place,
    mark,
    place_of,
    unpack,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import RUNNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer

# With become, the archive is sent as text in the command's output, which is kept in memory.
BECOME_ROUND_BYTES = 16 * 1024 * 1024


class ModuleFailed(Exception):
    """The module failed with this result, which becomes the task's result."""

    def __init__(self, result: ModuleResult) -> None:
        super().__init__(result.get("msg", ""))
        self.result = result


@dataclass(frozen=True)
class Options:
    """The options of the actions that fetch; each has some of them. Times in seconds, a `follow_timeout` of 0 none."""

    reconnect_timeout: int
    run_dir: str | None = None
    dest: str = ""
    tail_bytes: int = 0
    head_bytes: int = 0
    follow: bool = False
    follow_timeout: int = 0
    merge: bool = False


@dataclass
class Transfer:
    """The files that this task has fetched so far into a folder. `over`: the launch has ended."""

    place: Place
    choice: str | None
    run_dir: str = ""
    job_id: str | None = None
    over: bool = False
    files: list[Part] = field(default_factory=list)
    bytes: int = 0
    archive_bytes: int = 0
    rounds: int = 0

    def result(self) -> ModuleResult:
        """Return the result of the task."""
        told = {name: value for name, value in vars(self).items() if name != "place"}
        files = [vars(part) for part in self.files]
        return {**told, "dest": self.dest, "files": files, "changed": self.bytes > 0}

    @property
    def dest(self) -> str:
        """The path of the folder."""
        return self.place.path


class FetchAction(Action):
    """An action that fetches files of one launch. Its module plans and packs each round (logs/archive.py).

    `MODULE`: the module's name; `SUBJECT`: what is fetched, the name of the folder here; `SPEC`: its options.
    """

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = True
    MODULE = ""
    SUBJECT = ""
    SPEC: Parameters = {}

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Fetch. Errors and a lost connection become a failed result."""
        super().run(tmp, task_vars)
        public = {name: spec for name, spec in self.SPEC.items() if not name.startswith("x_")}
        _checked, given = self.validate_argument_spec(public)
        options = record_of(Options, given)
        self._task_vars = task_vars or {}
        self._run_dir = options.run_dir
        self._reconnect_timeout = options.reconnect_timeout
        self._began = time.monotonic()
        try:
            return self._fetch(options)
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        except ModuleFailed as error:
            return error.result
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

    @abc.abstractmethod
    def _fetch(self, options: Options) -> ModuleResult:
        """Fetch what the options name. Returns the result of the task."""

    @property
    def _host(self) -> str:
        return str(self._task_vars.get("inventory_hostname", "localhost"))

    def _opened(self, options: Options) -> Transfer:
        """Find the launch and the folder for its files."""
        run_dir, choice = options.run_dir, None
        if not run_dir:
            answer = self._round({}, 0, options)
            run_dir, choice = answer.run_dir, answer.choice
            if choice:
                display.display(f"{self._host}: {choice}")
        self._run_dir = run_dir
        self._launch = launch_place(options.dest, run_dir)
        return Transfer(place_of(self._launch, inner=self.SUBJECT), choice)

    def _rounds(self, options: Options, transfer: Transfer, *, ask: bool = True) -> None:
        """Fetch what is new in as many archives as needed, and add it to `transfer`."""
        budget = BECOME_ROUND_BYTES if self._becomes() else ROUND_BYTES
        while True:
            answer = self._round(holdings(transfer.place), budget, options, ask=ask)
            fetched = answer.fetched
            with self._discarding(fetched.archive):
                place = place_of(self._launch, answer.origin, self.SUBJECT)
                if place != transfer.place:
                    # This archive was requested for what another launch's files lack.
                    transfer.place = place
                    continue
                transfer.over = answer.over
                for note in fetched.notes:
                    display.warning(note)
                transfer.run_dir, transfer.job_id = answer.run_dir, answer.job_id
                transfer.files += fetched.parts
                transfer.archive_bytes += fetched.archive_bytes
                if self._task.check_mode:
                    transfer.bytes = sum(part.size - part.start for part in fetched.parts)
                    break
                if fetched.archive:
                    transfer.rounds += 1
                    mark(place, answer.origin)
                    transfer.bytes += self._carry(fetched.archive, fetched.parts, place)
                    self._moved(transfer, fetched)
                if not fetched.more:
                    break

    def _moved(self, transfer: Transfer, fetched: Fetched) -> None:
        """Show the progress of the fetch if more is to come."""
        if fetched.more and display.draws:
            size = transfer.bytes + fetched.left
            text = f"{amount(transfer.bytes)} of {amount(size)} in {len(transfer.files)} files"
            rate = transfer.bytes / max(0.1, time.monotonic() - self._began)
            fraction = transfer.bytes / max(1, size)
            detail = f"{amount(rate)}/s"
            display.row(Row(self._host, RUNNING, self.SUBJECT, text, detail=detail, fraction=fraction))

    def _becomes(self) -> bool:
        return bool(self._play_context.become)

    def _round(self, have: Mapping[str, Holding], budget: int, options: Options, *, ask: bool = False) -> Round:
        """Call the module once. With a budget of 0, it only finds the run directory. Raises ModuleFailed."""
        request = FetchRequest(
            have=have,
            tail_bytes=options.tail_bytes,
            head_bytes=options.head_bytes,
            # Check mode plans everything in one round, since nothing is transferred.
            budget=2**62 if self._task.check_mode and budget else budget,
            # The task's remote folder belongs to the login user; a module of another user could not write to it.
            folder=None if self._becomes() else self._connection._shell.tmpdir,
            ask=ask and options.follow,
        )
        return Round.of(self._called(request))

    def _called(self, request: FetchRequest) -> ModuleResult:
        """Call the module, again while the connection is lost. Raises ModuleFailed."""
        # Once found, the launch stays the same, even if a newer one of its name appears in the meantime.
        same = {"run_dir": self._run_dir} if self._run_dir else {}

        def call() -> ModuleResult:
            arguments = {**self._task.args, **same, "x_request": request.arguments()}
            return call_module(self, self.MODULE, arguments, self._task_vars, self.SPEC)

        result = self._retried(call)
        if result.get("failed"):
            raise ModuleFailed(result)
        return result

    def _retried(self, command: Callable[[], ModuleResult]) -> ModuleResult:
        """Run `command`, and repeat it while the connection is lost. Raises ConnectionLost."""

        def show(line: str, color: str | None) -> None:
            display.display(f"{self._host}: {line}", color=color)

        return retried(command, show, self._reconnect_timeout, self._connection)

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

    @contextlib.contextmanager
    def _discarding(self, archive: str | None) -> Iterator[None]:
        """Remove an archive of logs on the host at the end, whatever ends it."""
        try:
            yield
        finally:
            with contextlib.suppress(AnsibleConnectionFailure):
                self._discard(archive)

    def _discard(self, archive: str | None) -> None:
        """Remove an archive and its folder on the host."""
        if archive:
            self._low_level_execute_command(f"rm -rf -- {shlex.quote(os.path.dirname(archive))}")
