# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller half of `job_wait`: polls with one command each, shows what happens, then asks the module again."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.poll import parse_poll, poll_script
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.runs import WAIT_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.watch import Watch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.progress import Progress

display = Display()
# Slurm needs a moment to close a job whose outcome is there already.
SETTLE = 3.0


class ConnectionLost(Exception):
    """The host could not be reached for as long as the task allows."""


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        public = {name: spec for name, spec in WAIT_SPEC.items() if not name.startswith("_")}
        _checked, options = self.validate_argument_spec(public)
        self._task_vars = task_vars or {}
        host = self._task_vars.get("inventory_hostname", "localhost")
        began = time.monotonic()
        first = self._record()
        if self._task.check_mode or _nothing_to_wait_for(first, options["outcome_grace"]):
            return first
        progress = Progress(lambda line, color: display.display(line, color=color), host, time.monotonic)
        progress.job_id = first["job_id"]
        progress.say("waiting; Ctrl-C leaves the job alone, and the same command attaches to it again")
        watch = Watch(
            first["run_dir"],
            first["job_id"],
            until=options["until"],
            poll_min=max(0.05, options["poll_min"]),
            poll_max=max(0.05, options["poll_max"]),
            outcome_grace=options["outcome_grace"],
        )
        timeout = options["wait_timeout"]
        try:
            polls, asked = self._watch(watch, progress, began + timeout if timeout else None, options)
            last = self._retried(lambda: self._record(SETTLE if watch.done else 0.0), progress, options)
        except ConnectionLost as error:
            return {**first, "failed": True, "completed": False, "msg": _lost(host, watch, options, str(error))}
        if last.get("failed"):
            return last
        last.update(polls=polls, waited=time.monotonic() - began, slurm_commands=last["slurm_commands"] + asked)
        if watch.metrics is not None:
            last["progress"] = vars(watch.metrics)
        if watch.hopeless is not None:
            last["message"] = f"it can never start: {watch.hopeless.sentence}"
        elif not watch.done:
            last["message"] = f"not finished after {timeout} s (wait_timeout); the job goes on: {last['message']}"
        progress.say(_ending(last, watch))
        return last

    def _record(self, settle: float = 0.0) -> dict[str, Any]:
        """What the module knows now."""
        arguments = {**self._task.args, "_settle": settle}
        result: dict[str, Any] = self._execute_module(
            "rankzero.slurm.job_wait", module_args=arguments, task_vars=self._task_vars
        )
        result.pop("invocation", None)
        return result

    def _watch(
        self, watch: Watch, progress: Progress, deadline: float | None, options: dict[str, Any]
    ) -> tuple[int, int]:
        """Poll until the watch is done or the deadline has come. Returns how many polls and squeues it took."""
        polls = asked = 0
        while not watch.done:
            ask = watch.ask_queue(time.monotonic())
            marker = f"@@rankzero-{secrets.token_hex(8)}"
            script = poll_script([watch.target()], marker=marker, ask_queue=ask)
            sent = time.monotonic()
            answer = self._retried(lambda script=script: self._low_level_execute_command(script), progress, options)
            polls += 1
            asked += ask
            now = time.monotonic()
            progress.events(watch.feed(parse_poll(answer["stdout"], 1, marker), now))
            progress.job_id = watch.job_id
            left = None if deadline is None else deadline - time.monotonic()
            if watch.done or (left is not None and left <= 0):
                break
            delay = watch.delay(now - sent)
            time.sleep(delay if left is None else min(delay, left))
        progress.flush()
        return polls, asked

    def _retried(self, command: Any, progress: Progress, options: dict[str, Any]) -> dict[str, Any]:
        """Run `command`; while the connection is lost, try again ever more slowly, for a bounded time."""
        until, pause = time.monotonic() + options["reconnect_timeout"], 1.0
        told = False
        while True:
            try:
                result: dict[str, Any] = command()
            except AnsibleConnectionFailure as error:
                reason = str(error)
            else:
                if not result.get("unreachable"):
                    if told:
                        progress.say("the connection is back")
                    return result
                reason = str(result.get("msg", ""))
            if not told:
                progress.say(f"the connection is lost ({reason}); the job is not affected, trying again", "yellow")
                told = True
            if time.monotonic() + pause > until:
                raise ConnectionLost(reason)
            time.sleep(pause)
            pause = min(pause * 2, 30.0)


def _nothing_to_wait_for(record: dict[str, Any], grace: float) -> bool:
    if record.get("failed") or record["job_id"] is None:
        return True
    # An outcome that is not here may be hidden by a network file system for a while after the end.
    ended = record["finished_at"]
    hidden = record["outcome"] is None and ended is not None and time.time() - ended < grace
    return bool(record["completed"]) and not hidden


def _ending(last: dict[str, Any], watch: Watch) -> str:
    if last["completed"]:
        took = "" if last["wall_time"] is None else f" after {last['wall_time']:.0f} s"
        return f"{last['state']}{took}: {last['message']}"
    if watch.until == "started" and watch.done and watch.hopeless is None:
        return "started; not waiting for its end"
    return str(last["message"])


def _lost(host: str, watch: Watch, options: dict[str, Any], reason: str) -> str:
    return (
        f"the connection to {host} was lost and could not be made again within {options['reconnect_timeout']} s "
        f"({reason}). Job {watch.job_id} is not affected. Attach to it again by running the same command, or with: "
        f"ansible {host} -m rankzero.slurm.job_wait -a run_dir={watch.run_dir}"
    )
