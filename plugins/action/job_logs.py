# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_logs`: report which logs exist here, fetch one archive per round, and store its contents."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shlex
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import (
    ROUND_BYTES,
    Part,
    holdings,
    mark,
    place_of,
    unpack,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import LOGS_SPEC, identity
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.reconnect import ConnectionLost, retried
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import RUNNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.merged_logs import Tail, merge
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.transfer import amount

# Following: seconds between two fetches, growing while nothing new arrives; and how often Slurm is asked for the end.
FOLLOW_MIN, FOLLOW_MAX = 1.0, 10.0
ASK_SECONDS = 60.0
# With become, the archive is sent as text in the command's output, which is kept in memory.
BECOME_ROUND_BYTES = 16 * 1024 * 1024


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        public = {name: spec for name, spec in LOGS_SPEC.items() if not name.startswith("_")}
        _checked, options = self.validate_argument_spec(public)
        self._task_vars = task_vars or {}
        self._run_dir = options["run_dir"]
        self._reconnect_timeout = options["reconnect_timeout"]
        self._began = time.monotonic()
        try:
            return self._fetch(options)
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
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

    def _fetch(self, options: dict[str, Any]) -> dict[str, Any]:
        run_dir, choice = options["run_dir"], None
        if not run_dir:
            found = self._round({}, 0, options)
            if found.get("failed"):
                return found
            run_dir = found["run_dir"]
            choice = found.get("choice")
            if choice:
                display.display(f"{self._task_vars.get('inventory_hostname', 'localhost')}: {choice}")
        self._run_dir = run_dir
        who = identity(run_dir)
        self._folder = os.path.abspath(os.path.join(options["dest"], who.name, who.key, str(who.generation)))
        dest = place_of(self._folder)
        result: dict[str, Any] = {
            "dest": dest,
            "files": [],
            "bytes": 0,
            "archive_bytes": 0,
            "rounds": 0,
            "choice": choice,
        }
        failed = self._rounds(options, result)
        if failed:
            return failed
        if options["follow"] and not self._task.check_mode:
            failed = self._follow(options, result)
            if failed:
                return failed
        if options["merge"] and not self._task.check_mode:
            result["merged"] = merge(result["dest"])
        return {**result, "changed": result["bytes"] > 0}

    def _follow(self, options: dict[str, Any], result: dict[str, Any]) -> dict[str, Any] | None:
        """Fetch repeatedly and show new lines, until the launch is over or the time is up."""
        host = str(self._task_vars.get("inventory_hostname", "localhost"))

        def show(lines: list[str]) -> None:
            for line in lines:
                display.display(f"{host}: {line}")

        tail = Tail(result["dest"])
        show(tail.begin())
        began = asked = time.monotonic()
        pause = FOLLOW_MIN
        while not result["over"]:
            if options["follow_timeout"] and time.monotonic() - began >= options["follow_timeout"]:
                break
            time.sleep(pause)
            ask = time.monotonic() - asked >= ASK_SECONDS
            asked = time.monotonic() if ask else asked
            before = len(result["files"])
            failed = self._rounds(options, result, ask=ask)
            if failed:
                return failed
            grown = {file["path"]: file["restart"] for file in result["files"][before:]}
            show(tail.news(grown))
            pause = FOLLOW_MIN if grown else min(pause * 1.5, FOLLOW_MAX)
        show(tail.rest())
        return None

    def _rounds(self, options: dict[str, Any], result: dict[str, Any], *, ask: bool = True) -> dict[str, Any] | None:
        """Fetch what is new in as many archives as needed, and add it to `result`. Returns a failure, or None."""
        budget = BECOME_ROUND_BYTES if self._becomes() else ROUND_BYTES
        while True:
            have = {path: asdict(held) for path, held in holdings(result["dest"]).items()}
            found = self._round(have, budget, options, ask=ask)
            if found.get("failed"):
                return found
            dest = place_of(self._folder, found["origin"])
            if dest != result["dest"]:
                # This archive was requested for what another launch's logs lack.
                self._discard(found["archive"])
                result["dest"] = dest
                continue
            result["over"] = found["over"]
            for note in found["notes"]:
                display.warning(note)
            parts = [Part(**part) for part in found["parts"]]
            result["run_dir"] = found["run_dir"]
            result["files"] += found["parts"]
            result["archive_bytes"] += found["archive_bytes"]
            if self._task.check_mode:
                result["bytes"] = sum(part.size - part.start for part in parts)
                break
            if found["archive"]:
                result["rounds"] += 1
                mark(dest, found["origin"])
                result["bytes"] += self._carry(found["archive"], parts, dest)
                self._moved(result, found)
            if not found["more"]:
                break
        return None

    def _moved(self, result: dict[str, Any], found: dict[str, Any]) -> None:
        """Show the progress of the fetch if more is to come."""
        if found["more"] and display.draws:
            host = str(self._task_vars.get("inventory_hostname", "localhost"))
            done = result["bytes"]
            size = done + int(found.get("left") or 0)
            text = f"{amount(done)} of {amount(size)} in {len(result['files'])} files"
            rate = done / max(0.1, time.monotonic() - self._began)
            row = Row(host, RUNNING, "logs", text, detail=f"{amount(rate)}/s", fraction=done / max(1, size))
            display.row(row)

    def _becomes(self) -> bool:
        return bool(self._play_context.become)

    def _round(
        self, have: dict[str, Any], budget: int, options: dict[str, Any], *, ask: bool = False
    ) -> dict[str, Any]:
        """Call the module once. With a budget of 0, it only finds the run directory."""
        # The task's remote folder belongs to the login user; a module of another user could not write to it.
        folder = None if self._becomes() else self._connection._shell.tmpdir
        # Check mode plans everything in one round, since nothing is transferred.
        budget = 2**62 if self._task.check_mode and budget else budget
        bounds = {"tail_bytes": options["tail_bytes"], "head_bytes": options["head_bytes"]}
        request = {"have": have, **bounds, "budget": budget, "folder": folder, "ask": ask and options["follow"]}
        # Once found, the launch stays the same, even if a newer one of its name appears in the meantime.
        same = {"run_dir": self._run_dir} if self._run_dir else {}

        def call() -> dict[str, Any]:
            found: dict[str, Any] = self._execute_module(
                "rankzero.slurm.job_logs",
                module_args={**self._task.args, **same, "_request": request},
                task_vars=self._task_vars,
            )
            return found

        result = self._retried(call)
        result.pop("invocation", None)
        return result

    def _retried(self, command: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Run `command`, and repeat it while the connection is lost. Raises ConnectionLost."""
        host = self._task_vars.get("inventory_hostname", "localhost")

        def say(line: str, color: str | None) -> None:
            display.display(f"{host}: {line}", color=color)

        return retried(command, say, self._reconnect_timeout, self._connection)

    def _carry(self, archive: str, parts: list[Part], dest: str) -> int:
        """Fetch one archive, unpack it here, and remove it there. Returns the bytes of logs in it."""
        with tempfile.TemporaryDirectory(prefix="rankzero-logs-") as folder:
            local = os.path.join(folder, "logs.tar.gz")

            def bring() -> dict[str, Any]:
                if not self._becomes():
                    self._connection.fetch_file(archive, local)
                    return {}
                # The connection itself copies as the login user, who may not have permission to read the archive.
                done: dict[str, Any] = self._low_level_execute_command(f"base64 < {shlex.quote(archive)}")
                return done

            try:
                done = self._retried(bring)
                if done.get("rc", 0) != 0:
                    raise RankzeroError(f"the log archive {archive} cannot be read: {done['stderr'].strip()}")
                if self._becomes():
                    return unpack(io.BytesIO(base64.b64decode(done["stdout"])), parts, dest)
                with open(local, "rb") as stream:
                    return unpack(stream, parts, dest)
            finally:
                with contextlib.suppress(AnsibleConnectionFailure):
                    self._discard(archive)

    def _discard(self, archive: str | None) -> None:
        """Remove an archive and its folder on the host."""
        if archive:
            self._low_level_execute_command(f"rm -rf -- {shlex.quote(os.path.dirname(archive))}")
