# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs that only look, without ansible-playbook: the same call of the same module, and the same screen.

A playbook such as status is one call of a module whose lines are shown. Most of its time goes to Ansible itself. Where
the inventory is plain (known_inventory.py), the call is made here, with the carrier of the playbook's own action. What
is not certain to be the same, and whatever could not be asked, is left to the playbook. Nothing here imports Ansible,
and nothing here submits.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rankzero import errors
from rankzero.known_inventory import Login, NotPlain, login_of
from rankzero.library import collection, importable
from rankzero.playbook import COLLECTION, Call, Played, Record

Arguments = Mapping[str, Any]
#: Variable of a command line that selects a launch -> the option of the module.
SELECTION = {
    "run_dir": "run_dir",
    "launch_name": "name",
    "key": "key",
    "generation": "generation",
    "job_id": "job_id",
}
# Ansible's own defaults for a connection, in its order, so that its connection is used again, and ours by a playbook.
_SSH = ("ssh", "-C", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s")
_NO_PASSWORD = (
    *("-o", "KbdInteractiveAuthentication=no"),
    *("-o", "PreferredAuthentications=gssapi-with-mic,gssapi-keyex,hostbased,publickey"),
    *("-o", "PasswordAuthentication=no"),
)
_TIMEOUT = ("-o", "ConnectTimeout=10")
_CONTROL = "~/.ansible/cp"


@dataclass(frozen=True)
class Look:
    """A playbook that calls one module and shows its lines.

    `variables`: all that the playbook reads, but for the cluster's. `title`: of its task. `arguments`: the task's own,
    from the variables of the command line.
    """

    module: str
    title: str
    variables: tuple[str, ...]
    arguments: Callable[[Arguments], Arguments]


def _status(given: Arguments) -> Arguments:
    return {
        "newest": not given.get("all", False),
        "active": given.get("active", False),
        "limit": given.get("limit", 100),
        "single": given.get("single", False),
        "sort": given.get("sort", ""),
        "width": given.get("width", 0),
    }


#: Playbook -> what it asks.
LOOKS = {
    "status": Look(
        "job_info",
        "Read the status of launches",
        (*SELECTION, "all", "active", "limit", "single", "sort", "width"),
        _status,
    ),
    "diagnose": Look(
        "job_diagnosis",
        "Read the logs",
        (*SELECTION, "logs", "stall_factor", "stall_seconds", "families"),
        lambda given: {},
    ),
}


def looked(call: Call, output: Any = None) -> Played | None:
    """Make a call that only looks, and show its result; None if nothing was done, and a playbook must be run.

    `output`: as for `play`.
    """
    look = LOOKS.get(call.playbook)
    if look is None or call.typed or call.flags or set(call.variables) - {*look.variables, "cluster"}:
        return None
    try:
        login = login_of(call.inventory, call.variables.get("cluster"), os.environ)
    except (NotPlain, errors.RankzeroError):
        return None
    if {*look.variables} & {*login.defined} or (login.families and "families" in look.variables):
        return None
    if login.connection == "ssh" and not _control_folder():
        return None
    with _output_to(output):
        return _asked(look, login, call.variables)


def _asked(look: Look, login: Login, given: Arguments) -> Played | None:
    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable_result
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import results
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import LEFT
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.session import Session
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import carrier

    if not os.path.samefile(carrier.ROOT, os.path.join(collection(), "plugins")):
        return None
    spec = _spec(look.module)
    options = options_of(look, login, given, spec)
    request = carrier.Request(look.module, options, carrier.paths_in(options, spec))

    def send(command: str, data: bytes) -> carrier.ShellAnswer:
        return carrier.ShellAnswer(*_sent(login, command, data))

    action = f"{COLLECTION}.{look.module}"
    session = Session(os.environ)
    try:
        session.painter.begin_task(results.running(login.name, action, look.title))
        answer = carrier.carry(request, login.python, send)
    except OSError:
        answer = None
    except KeyboardInterrupt:
        session.close(LEFT)
        return Played(errors.INTERRUPTED, [])
    session.painter.end_task(login.name)
    if answer is not None:
        result = printable_result(answer)
        for row in results.rows_of_look(login.name, action, look.title, result):
            session.add(row)
        failed = bool(result.get("failed"))
        # In the order of the callback that records a playbook's results.
        recorded = json.loads(json.dumps(result, sort_keys=True))
        played = Played(2 if failed else 0, [Record(login.name, action, "failed" if failed else "ok", recorded)])
    session.close()
    return played if answer is not None else None


def _spec(module: str) -> Mapping[str, Mapping[str, Any]]:
    """The argument spec of a module."""
    if module == "job_info":
        from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import INFO_SPEC

        return INFO_SPEC
    from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC

    return DIAGNOSIS_SPEC


def options_of(look: Look, login: Login, given: Arguments, spec: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """All options of the module, as Ansible would have checked and completed the arguments of the task."""
    chosen: dict[str, Any] = {"path": given["logs"]} if "logs" in given else {}
    chosen.update({option: given[name] for name, option in SELECTION.items() if name in given})
    if "generation" in chosen:
        chosen["generation"] = int(chosen["generation"])
    if login.state_root is not None:
        chosen["state_root"] = login.state_root
    chosen.update(look.arguments(given))
    defaults = {name: option.get("default") for name, option in spec.items() if name not in chosen}
    return {**chosen, **defaults}


def _control_folder() -> bool:
    """Make the folder of the connections that are shared with playbooks."""
    try:
        os.makedirs(os.path.expanduser(_CONTROL), mode=0o700, exist_ok=True)
    except OSError:
        return False
    return True


def words_for(login: Login, command: str) -> list[str]:
    """The program that runs a command in the shell of a login node, as Ansible's connection does."""
    line = f"{login.shell} -c {shlex.quote(f'{command} && sleep 0')}"
    if login.connection == "local":
        return ["/bin/sh", "-c", line]
    port = ["-o", f"Port={login.port}"] if login.port else []
    user = ["-o", f'User="{login.user}"'] if login.user else []
    name = hashlib.sha1(f"{login.address}-{login.port}-{login.user}".encode(), usedforsecurity=False).hexdigest()[:10]
    control = ["-o", f'ControlPath="{os.path.expanduser(_CONTROL)}/{name}"']
    return [*_SSH, *port, *_NO_PASSWORD, *user, *_TIMEOUT, *control, login.address, line]


def _sent(login: Login, command: str, data: bytes) -> tuple[int, str, str]:
    """Exit code, output and messages of a command. Raises OSError."""
    folder = os.path.join(collection(), "playbooks") if login.connection == "local" else None
    # The process that keeps an SSH connection open holds the messages open as well: they go to a file.
    with tempfile.TemporaryFile() as messages:
        with subprocess.Popen(
            words_for(login, command), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages
        ) as process:
            out, _none = process.communicate(data)
        messages.seek(0)
        return process.returncode, out.decode("utf-8", "replace"), messages.read().decode("utf-8", "replace")


@contextmanager
def _output_to(output: Any) -> Iterator[None]:
    """Let this process write its standard output to another file, as a program that was started with it."""
    if output is None:
        yield
        return
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(output.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)
