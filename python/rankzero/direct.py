# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verbs without ansible-playbook: the same call of the same module, and the same screen.

Most of the time of a playbook that calls one module is Ansible's own. Where the inventory is plain (known_inventory.py)
the call is made here, by the library of the playbook's own action. What is not certain to be
the same, and whatever could not be asked, is left to the playbook. Nothing here imports Ansible.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankzero import errors
from rankzero.known_inventory import Login, NotPlain, login_of
from rankzero.library import collection, importable
from rankzero.playbook import Call, Played

if TYPE_CHECKING:
    from rankzero.host import Host
    from rankzero.tasks import Tasks

Arguments = Mapping[str, Any]
Result = dict[str, Any]
#: Variable of a command line that selects a launch -> the option of the module.
SELECTION = {
    "run_dir": "run_dir",
    "launch_name": "name",
    "key": "key",
    "generation": "generation",
    "job_id": "job_id",
}


@dataclass(frozen=True)
class Verb:
    """A playbook whose first task for the cluster calls one module.

    `variables`: all that the playbook reads from an inventory, but for the cluster's. `title`: of its task. `do`: what
    it does on the host. `then`: the tasks after it.
    """

    module: str
    title: str
    variables: tuple[str, ...]
    do: Callable[[Host, Call], Result]
    then: Callable[[Tasks, Call, Result], None] = lambda _tasks, _call, _result: None


def _status(host: Host, call: Call) -> Result:
    from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import INFO_SPEC

    given = call.variables
    wanted = {
        "newest": not given.get("all", False),
        "active": given.get("active", False),
        "limit": given.get("limit", 100),
        "single": given.get("single", False),
        "sort": given.get("sort", ""),
        "width": given.get("width", 0),
    }
    return host.called("job_info", {**_selected(host, given), **wanted}, INFO_SPEC)


def _first(host: Host, call: Call) -> Result:
    from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import FIRST_SPEC

    names = ("step", "clusters", "cluster", "winner", "arbiter")
    wanted = {name: call.variables[name] for name in names if name in call.variables}
    return host.called("job_first", {**_selected(host, call.variables), **wanted}, FIRST_SPEC)


def _refuse_families(host: Host) -> None:
    if host.login.cluster.get("diagnosis_families"):
        raise NotPlain("the site has failure families of its own")
    if host.login.cluster.get("diagnosis"):
        raise NotPlain("the site has a reader of failures of its own")


def _diagnose(host: Host, call: Call) -> Result:
    from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC

    _refuse_families(host)
    path = {"path": call.variables["logs"]} if "logs" in call.variables else {}
    return host.called("job_diagnosis", {**_selected(host, call.variables), **path}, DIAGNOSIS_SPEC)


def _lines(tasks: Tasks, _call: Call, result: Result) -> None:
    tasks.show_lines(list(result.get("lines") or []))


def _logs(host: Host, call: Call) -> Result:
    from rankzero.direct_logs import Logs

    if call.variables.get("follow"):
        raise NotPlain("a fetch that follows its launch connects again")
    return Logs(host, _selected(host, call.variables), call.variables).done()


def _fetched(tasks: Tasks, _call: Call, result: Result) -> None:
    count = len(result.get("files") or [])
    news = f"{result.get('bytes')} bytes fetched, in {count} file{'' if count == 1 else 's'}"
    tasks.show_lines([str(result.get("dest")), news if count else "nothing new to fetch"])


def _plan(host: Host, call: Call) -> Result:
    from rankzero.direct_launch import planned

    return planned(host, call)


def _run(host: Host, call: Call) -> Result:
    from rankzero.direct_launch import submitted

    _refuse_families(host)
    return submitted(host, call)


def _followed(tasks: Tasks, call: Call, launch: Result) -> None:
    from rankzero.direct_launch import is_active

    if tasks.host.check_mode:
        return
    if call.waits:
        from rankzero.direct_wait import followed

        followed(tasks, call, launch)
    elif is_active(launch):
        tasks.show_lines(f"job {launch['job_id']} continues. To follow it: {launch['commands']['attach']}")


_SELECTORS = tuple(SELECTION)
#: Playbook -> what it does.
VERBS = {
    "status": Verb(
        "job_info",
        "Read the status of launches",
        (*_SELECTORS, "all", "active", "limit", "single", "sort", "width"),
        _status,
        _lines,
    ),
    "first": Verb(
        "job_first",
        "Look, record the winner, or settle",
        (*_SELECTORS, "step", "clusters", "winner", "arbiter"),
        _first,
        _lines,
    ),
    "diagnose": Verb(
        "job_diagnosis",
        "Read the logs",
        (*_SELECTORS, "logs", "stall_factor", "stall_seconds", "families"),
        _diagnose,
        _lines,
    ),
    "logs": Verb(
        "job_logs",
        "Fetch",
        (*_SELECTORS, "dest", "tail_bytes", "head_bytes", "merge", "follow", "redact"),
        _logs,
        _fetched,
    ),
    "plan": Verb("job", "Plan on the cluster", ("job", "launch_job", "rerun", "explain"), _plan),
    "train": Verb(
        "job",
        "Plan, and submit if nothing must be built",
        ("job", "launch_job", "rerun", "explain"),
        _run,
        _followed,
    ),
}
#: Those that launch: the settings of role launch are theirs as well.
LAUNCHING = ("plan", "train")


def directly(call: Call, output: Any = None) -> Played | None:
    """Carry out a call, and show its result; None if a playbook must do it, which then does all of it.

    `output`: as for `play`.
    """
    try:
        login = _login(call)
        with output_to(output):
            return _played(VERBS[call.playbook], login, call)
    except (NotPlain, errors.RankzeroError):
        return None


#: Held by the thread that carries out a call here. Others have a process for each of theirs.
_HERE = threading.Lock()


def heard(call: Call, listener: Callable[[str], None]) -> Played | None:
    """As `directly`, in a program: each line goes to the listener. None also while another thread is at it.

    What has been imported for a call serves the next ones. Raises KeyboardInterrupt.
    """

    def write(text: str) -> None:
        for line in text.splitlines():
            listener(line)

    if not _HERE.acquire(blocking=False):
        return None
    try:
        login = _login(call)
        played = _played(VERBS[call.playbook], login, call, write)
    except (NotPlain, errors.RankzeroError):
        return None
    finally:
        _HERE.release()
    if played.rc == errors.INTERRUPTED:
        raise KeyboardInterrupt
    return played


def why_not(call: Call) -> str:
    """Why only a playbook can carry out a call, as far as that is known before; empty if nothing is in the way."""
    try:
        _login(call)
    except (NotPlain, errors.RankzeroError) as reason:
        return str(reason)
    return ""


def _login(call: Call) -> Login:
    """The login node of a call that needs no playbook. Raises NotPlain, RankzeroError."""
    verb = VERBS.get(call.playbook)
    if verb is None:
        raise NotPlain(f"{call.playbook} is more than one call of a module")
    if call.playbook == "train" and call.variables.get("rerun"):
        raise NotPlain("--rerun launches again each time that it is asked")
    if call.typed:
        raise NotPlain(f"-e {' '.join(call.typed)}: variables of Ansible")
    login = login_of(call.inventory, call.variables.get("cluster"), os.environ)
    read = {*verb.variables}
    if call.playbook in LAUNCHING:
        importable()
        # Before anything is asked: it needs what Ansible is installed with, which may be in another environment. What
        # follows a submission needs no more, and is imported by those that wait.
        try:
            import rankzero.direct_launch  # noqa: F401
        except ModuleNotFoundError as missing:
            raise NotPlain(f"{sys.executable} has no {missing.name}, which ansible-playbook has") from None
        from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import DECLARED, SETTINGS

        read |= {*SETTINGS, DECLARED}
    defined = sorted(read & {*login.defined})
    if defined:
        raise NotPlain(f"the inventory sets {', '.join(defined)}")
    if login.connection == "ssh":
        importable()
        from rankzero.host import control_folder

        if not control_folder():
            raise NotPlain("there is no folder for connections")
    return login


def _played(verb: Verb, login: Login, call: Call, write: Callable[[str], None] | None = None) -> Played:
    importable()
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import LEFT
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.session import Session
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import carrier
    from rankzero.host import Host
    from rankzero.tasks import Ended, Tasks

    if not os.path.samefile(carrier.ROOT, os.path.join(collection(), "plugins")):
        raise NotPlain("another copy of the collection is imported")
    host = Host(login, call.playbook == "plan" or "--check" in call.flags)
    session = Session(os.environ, write=write)
    session.of_hosts([login.name])
    tasks = Tasks(host, session, differences="--diff" in call.flags)
    rc = 0
    try:
        verb.then(tasks, call, tasks.done(verb.module, verb.title, lambda: verb.do(host, call)))
    except Ended as ended:
        rc = ended.rc
    except KeyboardInterrupt:
        session.close(LEFT)
        rc = errors.INTERRUPTED
    finally:
        session.close()
    return Played(rc, tasks.records, to_the_end=True)


def _selected(host: Host, given: Arguments) -> dict[str, Any]:
    """The options that select a launch."""
    chosen: dict[str, Any] = {option: given[name] for name, option in SELECTION.items() if name in given}
    if "generation" in chosen:
        chosen["generation"] = int(chosen["generation"])
    root = host.login.cluster.get("state_root")
    return chosen if root is None else {**chosen, "state_root": root}


@contextmanager
def output_to(output: Any) -> Iterator[None]:
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
