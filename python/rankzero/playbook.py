# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one of the collection's playbooks and read the results of its tasks. Nothing here imports Ansible."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankzero import errors

COLLECTION = "rankzero.slurm"
RECORDS = f"{COLLECTION}.records"
SCREEN = f"{COLLECTION}.screen"
#: Where Ansible looks for collections if neither the environment nor ansible.cfg sets a path.
DEFAULT_PATHS = "~/.ansible/collections:/usr/share/ansible/collections"
#: A value that `-e name=value` passes on unchanged. Other values are given as JSON.
PLAIN = re.compile(r"[\w./:@%+,~^-]+")
#: A text that cannot be a template: it has none of their signs. Every text that YAML might take for a number, a date or
#: nothing is one of these, and Ansible's tag would make it such a value.
HARMLESS = re.compile(r"[\w./:@%+,~^=<> \t-]*", re.ASCII)
#: What makes a text a template for Ansible.
TEMPLATE = re.compile(r"\{[{%#]")


@dataclass(frozen=True)
class Call:
    """One run of a playbook. `variables`: its extra variables, whose texts are never templates; `typed`: those that the
    user has typed for Ansible, with `-e`; `flags`: other arguments of ansible-playbook; `options`: those of `rankzero`
    that select the cluster, for the commands that the output suggests.
    """

    playbook: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    inventory: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether a launch is waited for: as the command line says, else as the default of role launch does."""
        ci = os.environ.get("CI", "").lower() in ("", "false", "0")
        return bool(self.variables.get("launch_wait", ci))

    def argv(self, file: str) -> list[str]:
        """The arguments of ansible-playbook. `file`: where `unsafe` has been written, for the variables."""
        given = ["-e", f"@{file}"] if self.variables else []
        return self._argv([*given, *_words(self.typed)])

    def shown(self) -> list[str]:
        """The command line, in the form in which a user could type it. A text that would be a template is left out."""
        typeable = {name: "..." if TEMPLATE.search(json.dumps(v)) else v for name, v in self.variables.items()}
        return ["ansible-playbook", *self._argv(_words({**typeable, **self.typed}))]

    def unsafe(self) -> str:
        """The variables as a file for Ansible, in which no text is a template: it may have come from the cluster."""
        return f"{_unsafe(self.variables)}\n"

    def _argv(self, variables: Sequence[str]) -> list[str]:
        inventories = [word for inventory in self.inventory for word in ("-i", inventory)]
        return [*inventories, f"{COLLECTION}.{self.playbook}", *variables, *self.flags]


@dataclass(frozen=True)
class Record:
    """The result of a task on a host. `outcome`: ok, failed, ignored or unreachable."""

    host: str
    action: str
    outcome: str
    result: dict[str, Any]


@dataclass(frozen=True)
class Played:
    """A finished playbook: exit code of ansible-playbook, and the results of its tasks, oldest first."""

    rc: int
    records: list[Record]
    #: Whether the run waited for the end of launches.
    to_the_end: bool = False

    def results(self, module: str, host: str | None = None) -> list[dict[str, Any]]:
        """The results of a module of the collection, without those of failed tasks."""
        return [
            record.result
            for record in self.records
            if record.action == f"{COLLECTION}.{module}" and record.outcome == "ok" and host in (None, record.host)
        ]

    def told(self, module: str, host: str) -> dict[str, Any]:
        """The last result of a module of the collection on a host, also that of a failed task; {} without one."""
        action = f"{COLLECTION}.{module}"
        of_host = (record.result for record in reversed(self.records) if (record.action, record.host) == (action, host))
        return next(of_host, {})

    def hosts(self) -> list[str]:
        """The hosts that returned a result, in order of first appearance."""
        return list(dict.fromkeys(record.host for record in self.records))

    def reports(self) -> list[dict[str, Any]]:
        """The results of job_report, which fails if the launch has failed."""
        return [record.result for record in self.records if record.action == f"{COLLECTION}.job_report"]

    def error(self) -> str | None:
        """The error messages of the failed tasks."""
        failed = [record for record in self.records if record.outcome in ("failed", "unreachable")]
        messages = [message for record in failed for message in _messages(record.result)]
        if messages:
            return "\n".join(dict.fromkeys(messages))
        if self.rc:
            return f"ansible-playbook ended with {self.rc}; its output says why"
        left = [str(result.get("message")) for result in self.results("job_wait") if not result.get("completed", True)]
        return "\n".join(left) or None

    def error_code(self) -> str | None:
        """The code of the first error that has one: one of the collection's own errors (core/errors.py)."""
        failed = (record.result for record in self.records if record.outcome == "failed")
        return next((str(result["error_code"]) for result in failed if result.get("error_code")), None)

    def exit_code(self) -> int:
        """The exit code of the command (docs/command.md)."""
        if self.rc == 0:
            ended = all(result.get("completed", True) for result in self.results("job_wait"))
            return errors.OK if ended or not self.to_the_end else errors.UNFINISHED
        if self.rc in (99, -2, errors.INTERRUPTED):
            return errors.INTERRUPTED
        if any(record.outcome == "unreachable" for record in self.records):
            return errors.UNREACHABLE
        standings = {str(report.get("standing")) for report in self.reports()}
        if "failed" in standings or "withdrawn" in standings:
            return errors.FAILED
        return errors.UNFINISHED if standings - {"succeeded"} else errors.REFUSED


def _messages(result: Mapping[str, Any]) -> list[str]:
    """Why a task has failed: of a loop, for which Ansible says only that an item has, the messages of its items."""
    items: list[Mapping[str, Any]] = [
        item for item in result.get("results") or [] if isinstance(item, dict) and item.get("failed")
    ]
    return [str(each.get("msg") or "failed without a message") for each in items or [result]]


def _words(variables: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in variables.items():
        plain = isinstance(value, str) and PLAIN.fullmatch(value)
        words += ["-e", f"{name}={value}" if plain else json.dumps({name: value})]
    return words


def _unsafe(value: Any) -> str:
    """A value as YAML in which every text that could be a template has Ansible's tag for those that are none."""
    if isinstance(value, str):
        return _quoted(value) if HARMLESS.fullmatch(value) else f"!unsafe {_quoted(value)}"
    if isinstance(value, Mapping):
        # A name that is not marked as one (?) may have 1,024 characters only.
        return f"{{{', '.join(f'? {_quoted(str(name))} : {_unsafe(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_unsafe, value))}]"
    text = json.dumps(value)
    # For YAML, 1e-05 is a text: its numbers with an exponent have a point.
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


def _quoted(text: str) -> str:
    """A text as YAML: in quotes, with an escape for each character that is not plain ASCII. Raises UsageError."""
    if any(0xD800 <= ord(c) < 0xE000 for c in text):
        raise errors.UsageError(f"{text!a} is not UTF-8; rename the file, or write the text as UTF-8")
    escaped = (c if " " <= c <= "~" and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(escaped)}"'


def play(call: Call, *, verbose: int = 0, output: Any = None, listener: Callable[[str], None] | None = None) -> Played:
    """Run a playbook until it ends. Ctrl-C reaches the playbook, which then detaches from the job.

    `output`: a file for its output instead of the terminal. `listener`: receives each line of output as it appears; the
    playbook then runs in its own session, for notebooks.
    """
    program = ansible_playbook()
    folder = tempfile.mkdtemp(prefix="rankzero-")
    path = os.path.join(folder, "records")
    try:
        with open(path, "x", encoding="utf-8"):
            pass
        variables = os.path.join(folder, "variables.yml")
        if call.variables:
            with open(variables, "x", encoding="ascii") as stream:
                stream.write(call.unsafe())
        argv = [program, *call.argv(variables), *(["-" + "v" * (verbose - 1)] if verbose > 1 else [])]
        if verbose:
            print(shlex.join(call.shown()), file=sys.stderr, flush=True)
        environment = surroundings(os.environ, path, verbose=verbose)
        environment["RANKZERO_OPTIONS"] = shlex.join(call.options)
        if not call.inventory:
            # Ansible would warn twice that there is none. The lab needs none, and other playbooks say so themselves.
            environment.setdefault("ANSIBLE_LOCALHOST_WARNING", "false")
            environment.setdefault("ANSIBLE_INVENTORY_UNPARSED_WARNING", "false")
        rc = _attached(argv, environment, output) if listener is None else _heard(argv, environment, listener)
        with open(path, encoding="utf-8") as stream:
            records = [Record(**json.loads(line)) for line in stream]
        return Played(rc, records, {**call.variables, **call.typed}.get("wait_until", "finished") == "finished")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attached(argv: Sequence[str], environment: Mapping[str, str], output: Any) -> int:
    """Run in this terminal. The playbook receives the keyboard's signals directly; this process only waits for it."""
    # A KeyboardInterrupt during the wait could lose the exit code. The handler is not inherited by the playbook.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        with subprocess.Popen(argv, env=environment, stdout=output) as process:
            return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _heard(argv: Sequence[str], environment: Mapping[str, str], listener: Callable[[str], None]) -> int:
    options: dict[str, Any] = {"text": True, "errors": "replace", "start_new_session": True}
    with subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                listener(line.rstrip("\n"))
            return process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
            raise


def ansible_playbook() -> str:
    """The ansible-playbook of this Python, or else the first on the PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "ansible-playbook")
    path = beside if os.access(beside, os.X_OK) else shutil.which("ansible-playbook")
    if path is None:
        raise errors.RankzeroError(
            f"ansible-playbook is neither beside {sys.executable} nor on the PATH; install ansible-core there",
            errors.NO_ANSIBLE,
        )
    return path


def collection_root() -> str | None:
    """The folder that contains ansible_collections/rankzero/slurm of this installation; None in a checkout."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return root if os.path.isdir(os.path.join(root, "ansible_collections", "rankzero", "slurm")) else None


def surroundings(given: Mapping[str, str], records: str, *, verbose: int = 0) -> dict[str, str]:
    """The environment of ansible-playbook: this installation's collection comes first, and results are recorded.

    The output is the collection's screen (docs/screen.md), unless the user has chosen a callback or wants details.
    """
    environment = dict(given)
    settings = configuration(given)
    root = collection_root()
    if root is not None:
        paths = given.get("ANSIBLE_COLLECTIONS_PATH") or settings.get("collections_path") or DEFAULT_PATHS
        environment["ANSIBLE_COLLECTIONS_PATH"] = f"{root}:{paths}"
    enabled = given.get("ANSIBLE_CALLBACKS_ENABLED") or settings.get("callbacks_enabled")
    environment["ANSIBLE_CALLBACKS_ENABLED"] = f"{enabled},{RECORDS}" if enabled else RECORDS
    if not (verbose or given.get("ANSIBLE_STDOUT_CALLBACK") or settings.get("stdout_callback")):
        environment["ANSIBLE_STDOUT_CALLBACK"] = SCREEN
    if not (given.get("ANSIBLE_PYTHON_INTERPRETER") or settings.get("interpreter_python")):
        # The same choice as Ansible's default, without a warning in every other command.
        environment["ANSIBLE_PYTHON_INTERPRETER"] = "auto_silent"
    environment["RANKZERO_RECORDS"] = records
    return environment


def configuration(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the effective ansible.cfg that this module must not replace, with absolute paths."""
    places = [environment.get("ANSIBLE_CONFIG"), "ansible.cfg", "~/.ansible.cfg", "/etc/ansible/ansible.cfg"]
    path = next(
        (os.path.expanduser(place) for place in places if place and os.path.isfile(os.path.expanduser(place))), None
    )
    if path is None:
        return {}
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False, inline_comment_prefixes=(";",))
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}  # ansible-playbook reports the error
    defaults = dict(parser["defaults"]) if parser.has_section("defaults") else {}
    folder = os.path.dirname(os.path.abspath(path))
    kept = {
        name: defaults[name]
        for name in ("callbacks_enabled", "interpreter_python", "inventory", "stdout_callback")
        if defaults.get(name)
    }
    if defaults.get("collections_path"):
        parts = [os.path.expanduser(part) for part in defaults["collections_path"].split(":")]
        kept["collections_path"] = ":".join(os.path.join(folder, part) for part in parts)
    return kept
