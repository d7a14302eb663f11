# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fetch: say which files are here, get one archive a round trip, and store its contents.

How the host is reached is left to the subclasses. Nothing here imports Ansible.
"""

from __future__ import annotations

import abc
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleFailed,
    ModuleResult,
    Parameters,
    succeeded,
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
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import (
    holdings,
    launch_place,
    mark,
    place_of,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import RUNNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.messages import Screen


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


class Fetching(abc.ABC):
    """Fetches files of one launch. Its module plans and packs each round (logs/archive.py).

    `MODULE`: the module's name; `SUBJECT`: what is fetched, the name of the folder here; `SPEC`: its options. `screen`:
    where it is shown; `check_mode`: whether nothing may be changed; `folder`: of the host, for archives, None for the
    system's; `round_bytes`: of one archive. `LOST`: what a broken connection raises.
    """

    MODULE = ""
    SUBJECT = ""
    SPEC: Parameters = {}
    LOST: tuple[type[Exception], ...] = ()
    screen: Screen
    check_mode = False
    host = "localhost"
    folder: str | None = None
    round_bytes = ROUND_BYTES

    def fetched(self, options: Options) -> ModuleResult:
        """Fetch what the options name. Returns the result, also of a failure."""
        self._run_dir = options.run_dir
        self._began = time.monotonic()
        try:
            return self._fetch(options)
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        except ModuleFailed as error:
            return error.result

    @abc.abstractmethod
    def _fetch(self, options: Options) -> ModuleResult:
        """Fetch what the options name. Returns the result of the task."""

    @abc.abstractmethod
    def _ask(self, more: Parameters) -> ModuleResult:
        """Call the module with these options besides those of the user."""

    @abc.abstractmethod
    def _carry(self, archive: str, parts: Sequence[Part], place: Place) -> int:
        """Fetch one archive and unpack it here. Returns the bytes of files in it."""

    @abc.abstractmethod
    def _discard(self, archive: str | None) -> None:
        """Remove an archive and its folder on the host."""

    def _opened(self, options: Options) -> Transfer:
        """Find the launch and the folder for its files."""
        run_dir, choice = options.run_dir, None
        if not run_dir:
            answer = self._round({}, 0, options)
            run_dir, choice = answer.run_dir, answer.choice
            if choice:
                self.screen.display(f"{self.host}: {choice}")
        self._run_dir = run_dir
        self._launch = launch_place(options.dest, run_dir)
        return Transfer(place_of(self._launch, inner=self.SUBJECT), choice)

    def _rounds(self, options: Options, transfer: Transfer, *, ask: bool = True) -> None:
        """Fetch what is new in as many archives as needed, and add it to `transfer`."""
        while True:
            answer = self._round(holdings(transfer.place), self.round_bytes, options, ask=ask)
            fetched = answer.fetched
            with self._discarding(fetched.archive):
                place = place_of(self._launch, answer.origin, self.SUBJECT)
                if place != transfer.place:
                    # This archive was requested for what another launch's files lack.
                    transfer.place = place
                    continue
                transfer.over = answer.over
                for note in fetched.notes:
                    self.screen.warning(note)
                transfer.run_dir, transfer.job_id = answer.run_dir, answer.job_id
                transfer.files += fetched.parts
                transfer.archive_bytes += fetched.archive_bytes
                if self.check_mode:
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
        if fetched.more and self.screen.draws:
            size = transfer.bytes + fetched.left
            text = f"{amount(transfer.bytes)} of {amount(size)} in {len(transfer.files)} files"
            rate = transfer.bytes / max(0.1, time.monotonic() - self._began)
            fraction = transfer.bytes / max(1, size)
            detail = f"{amount(rate)}/s"
            self.screen.row(Row(self.host, RUNNING, self.SUBJECT, text, detail=detail, fraction=fraction))

    def _round(self, have: Mapping[str, Holding], budget: int, options: Options, *, ask: bool = False) -> Round:
        """Call the module once. With a budget of 0, it only finds the run directory. Raises ModuleFailed."""
        request = FetchRequest(
            have=have,
            tail_bytes=options.tail_bytes,
            head_bytes=options.head_bytes,
            # Check mode plans everything in one round, since nothing is transferred.
            budget=2**62 if self.check_mode and budget else budget,
            folder=self.folder,
            ask=ask and options.follow,
        )
        return Round.of(self._called(request))

    def _called(self, request: FetchRequest) -> ModuleResult:
        """Call the module. Raises ModuleFailed."""
        # Once found, the launch stays the same, even if a newer one of its name appears in the meantime.
        same = {"run_dir": self._run_dir} if self._run_dir else {}
        return succeeded(self._ask({**same, "x_request": request.arguments()}))

    @contextlib.contextmanager
    def _discarding(self, archive: str | None) -> Iterator[None]:
        """Remove an archive of logs on the host at the end, whatever ends it."""
        try:
            yield
        finally:
            with contextlib.suppress(*self.LOST):
                self._discard(archive)
