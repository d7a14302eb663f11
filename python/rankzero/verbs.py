# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the arguments of a verb to a playbook call. Nothing here runs anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from rankzero.errors import UsageError
from rankzero.playbook import Call, configuration
from rankzero.short_names import SHORT_NAMES

SCRIPT_FILE = (".sbatch", ".slurm", ".sh", ".job")
JOB_ID = re.compile(r"\d+(?:[._]\d+)?")
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
KEY = re.compile(r"[0-9a-f]{4,64}")
JOB_FILE = (".yml", ".yaml", *SCRIPT_FILE)


def inventory_of(given: Sequence[str]) -> tuple[str, ...]:
    """The inventories for the command line: those given, else ./inventory, else the user's own. Empty if Ansible's own
    settings name one.
    """
    for path in given:
        if path.endswith(JOB_FILE) and is_job_file(path):
            raise UsageError(
                f"-i {path}: is a job file, which goes without -i; an inventory has login nodes (group slurm_login)"
            )
    if given:
        return tuple(given)
    if os.environ.get("ANSIBLE_INVENTORY") or configuration(os.environ).get("inventory"):
        return ()
    own = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "rankzero", "inventory")
    return next(((place,) for place in ("inventory", own) if os.path.exists(place)), ())


def selection(target: str) -> dict[str, str]:
    """The launch that the user means: 1234 (a job of Slurm), NAME, NAME/KEY, NAME/KEY/GENERATION, a run directory, or
    its job file.
    """
    if JOB_ID.fullmatch(target):
        return {"job_id": target}
    if target.startswith(("/", "~")) and not target.endswith(JOB_FILE):
        return {"run_dir": target}
    if target.endswith(JOB_FILE):
        return {"launch_name": name_in(target)}
    name, *rest = target.split("/")
    patterns = (KEY, re.compile(r"0*[1-9]\d*"))
    if NAME.fullmatch(name) and len(rest) <= 2 and all(p.fullmatch(part) for p, part in zip(patterns, rest)):
        return {"launch_name": name, **dict(zip(("key", "generation"), rest))}
    raise UsageError(
        f"{target!r} names no launch; give a job id (1234), a name, NAME/KEY, NAME/KEY/GENERATION, a run directory "
        "that begins with / or ~, or a job file"
    )


def is_job_file(path: str) -> bool:
    """Whether a file has the program of a job at its top, or is a batch script. False where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(100_000)
    except (OSError, UnicodeDecodeError):
        return False
    return re.search(r"(?m)^(#SBATCH|(command|shell|script|roles):)", text) is not None


def name_in(path: str) -> str:
    """The name in a job file."""
    if path.endswith(SCRIPT_FILE):
        return name_in_script(path)
    name = job_file(path).get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(f"{path}: name: {name!r} is not the name of a job")
    return name


def name_in_script(path: str) -> str:
    """The name of the launch of a batch script: that of its job, else that of its file."""
    from rankzero.sbatch.options import launch_name, name_of

    try:
        with open(path, encoding="utf-8") as stream:
            script = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as a batch script: {error}") from None
    return launch_name(name_of(script) or os.path.splitext(os.path.basename(path))[0], "script")


def job_file(path: str) -> dict[str, Any]:
    """The contents of a job file that this command needs."""
    import yaml  # a dependency of ansible-core; most verbs do not need it

    try:
        with open(path, encoding="utf-8") as stream:
            loaded = yaml.load(stream, yaml.BaseLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} cannot be read as a job file: {error}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"{path} is not a job file: it must be a map of keys such as name and command")
    return loaded


def overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """`--set resources.time=02:00:00` as launch_overrides. A value that begins with [ or { is JSON."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", name):
            raise UsageError(f"--set {pair}: expected KEY=VALUE, for example --set resources.time=02:00:00")
        try:
            values[name] = json.loads(value) if value[:1] in ("[", "{") else value
        except ValueError as error:
            bare = re.fullmatch(r"\[([^\[\]{}\"']*)\]", value)
            words = [word.strip() for word in bare[1].split(",")] if bare else []
            how = f"; quote the texts: --set '{name}={json.dumps(words)}'" if bare else ""
            raise UsageError(f"--set {pair}: the value begins like JSON and is not: {error}{how}") from None
    return values


def extra_variables(pairs: Sequence[str]) -> dict[str, str]:
    """`-e name=value`, passed on to the playbook."""
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"-e {pair}: expected NAME=VALUE; give structured values with --set KEY=JSON")
        variables[name] = value
    return variables


def _job(given: Namespace) -> dict[str, Any]:
    changes = overrides(given.set)
    short = {name: getattr(given, name) for name in SHORT_NAMES if getattr(given, name) is not None}
    for name in short:
        for key in {*changes} & {name, SHORT_NAMES[name][0]}:
            option = "-n" if name == "nodes" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"rankzero: {option} {short[name]} and -s {key}={changes[key]} are for the same key; omit one of them"
            )
    return {
        "job": given.job,
        **short,
        **({"program_args": given.arguments} if given.arguments else {}),
        **({"launch_overrides": changes} if changes else {}),
    }


def _wait(given: Namespace) -> dict[str, Any]:
    return {} if given.wait is None else {"launch_wait": given.wait}


def _flag(name: str, value: bool) -> dict[str, bool]:
    return {name: True} if value else {}


def _run(given: Namespace) -> tuple[str, dict[str, Any]]:
    flags = {**_flag("rerun", given.rerun), **_flag("explain", given.explain)}
    planned = {"launch_planned": given.planned} if given.planned else {}
    return "train", {**_job(given), **_wait(given), **flags, **planned}


def _sweep(given: Namespace) -> tuple[str, dict[str, Any]]:
    elements = {"elements": given.elements.split(",")} if given.elements else {}
    return "sweep", {**_job(given), **_wait(given), **_flag("rerun", given.rerun), **elements}


def _pipeline(given: Namespace) -> tuple[str, dict[str, Any]]:
    return "pipeline", {**_job(given), **_wait(given), **_flag("rerun", given.rerun)}


def _plan(given: Namespace) -> tuple[str, dict[str, Any]]:
    return "plan", {**_job(given), **_flag("explain", given.explain)}


def _shell(given: Namespace) -> tuple[str, dict[str, Any]]:
    role = {"role": given.role} if given.role else {}
    serve = "jupyter" if given.jupyter else "code" if given.code else None
    role.update({"serve": serve} if serve else {})
    role.update({"session": given.name} if given.name else {})
    return "shell", {**_job(given), **role, **_flag("run", not (given.show or given.json))}


def _ls(given: Namespace) -> tuple[str, dict[str, Any]]:
    chosen = selection(given.launch) if given.launch else {}
    options = {"limit": given.limit, "sort": given.sort, "width": None if given.json else screen_width()}
    more = {name: value for name, value in options.items() if value is not None}
    return "status", {**chosen, **_flag("all", given.all), **_flag("active", given.active), **more}


def screen_width() -> int | None:
    """The characters of a line on the terminal; None where the output is for a file or another program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _attach(given: Namespace) -> tuple[str, dict[str, Any]]:
    timeout = {"wait_timeout": given.timeout} if given.timeout else {}
    until = {"wait_until": given.until} if given.until else {}
    return "attach", {**selection(given.launch), **timeout, **until}


def _logs(given: Namespace) -> tuple[str, dict[str, Any]]:
    dest = {"dest": given.dest} if given.dest else {}
    return "logs", {**selection(given.launch), **_flag("follow", given.follow), **_flag("merge", given.merge), **dest}


def _why(given: Namespace) -> tuple[str, dict[str, Any]]:
    if (given.launch is None) == (given.logs is None):
        raise UsageError("why: name a launch, or give --logs PATH with logs of any launcher")
    return "diagnose", {"logs": given.logs} if given.logs else selection(given.launch)


def _compare(given: Namespace) -> tuple[str, dict[str, Any]]:
    return "compare", {"launches": given.launches, **({"time": given.time} if given.time else {})}


def _report(given: Namespace) -> tuple[str, dict[str, Any]]:
    names = [name_in(launch) if launch.endswith(JOB_FILE) else launch for launch in given.launches]
    options = {"launches": names, "sweep": given.sweep, "dest": given.output, "limit": given.limit}
    return "report", {name: value for name, value in options.items() if value}


def _sync(given: Namespace) -> tuple[str, dict[str, Any]]:
    names = [name_in(launch) if launch.endswith(JOB_FILE) else launch for launch in given.launches]
    options = {"launches": names, "wandb": given.wandb, "api_key_file": given.api_key_file}
    return "sync", {name: value for name, value in options.items() if value}


def _notify(given: Namespace) -> tuple[str, dict[str, Any]]:
    options = {"metrics_file": given.metrics_file, "metrics_hours": given.metrics_hours}
    launch = selection(given.launch) if given.launch else {}
    return "notify", {**launch, **{name: value for name, value in options.items() if value is not None}}


def _usage(given: Namespace) -> tuple[str, dict[str, Any]]:
    by = {"by": given.by.split(",")} if given.by else {}
    options = {"launch_name": given.name, "since": given.since, "up_to": given.until, "csv": given.csv}
    return "usage", {**by, **{name: value for name, value in options.items() if value}}


def _cancel(given: Namespace) -> tuple[str, dict[str, Any]]:
    if given.launch.endswith(JOB_FILE) and not given.launch.endswith(SCRIPT_FILE) and "jobs" in job_file(given.launch):
        return "cancel", {"job": given.launch}
    return "cancel", {**selection(given.launch), **_flag("all", given.all)}


def _pull(given: Namespace) -> tuple[str, dict[str, Any]]:
    paths = {"paths": given.paths} if given.paths else {}
    dest = {"dest": given.dest} if given.dest else {}
    return "pull", {**selection(given.launch), **paths, **dest}


def _reconcile(given: Namespace) -> tuple[str, dict[str, Any]]:
    return "reconcile", {"jobs": given.jobs}


def _lab(given: Namespace) -> tuple[str, dict[str, Any]]:
    state = {"up": "present", "stop": "stopped", "down": "absent"}[given.state]
    return "lab", {"state": state, **({"lab": given.name} if given.name else {})}


PLAYBOOKS: dict[str, Callable[[Namespace], tuple[str, dict[str, Any]]]] = {
    "run": _run,
    "plan": _plan,
    "ls": _ls,
    "attach": _attach,
    "logs": _logs,
    "why": _why,
    "compare": _compare,
    "report": _report,
    "sync": _sync,
    "notify": _notify,
    "usage": _usage,
    "cancel": _cancel,
    "pull": _pull,
    "shell": _shell,
    "sweep": _sweep,
    "pipeline": _pipeline,
    "reconcile": _reconcile,
    "lab": _lab,
}


def call_of(given: Namespace) -> Call:
    """The playbook call of a verb with all its arguments."""
    playbook, variables = PLAYBOOKS[given.verb](given)
    if given.cluster:
        variables["cluster"] = given.cluster
    typed = extra_variables(given.extra_vars)
    twice = next((name for name in typed if name in variables), None)
    if twice:
        raise UsageError(
            f"-e {twice}={typed[twice]}: {given.verb} has {twice} already: {variables[twice]}; give it once"
        )
    dry = getattr(given, "check", False)
    flags = ("--check", "--diff") if dry else ("--diff",) if given.verb == "plan" else ()
    inventory = tuple(given.inventory) if given.verb == "lab" else inventory_of(given.inventory)
    options = [word for place in given.inventory for word in ("-i", place)]
    options += ["-c", given.cluster] if given.cluster else []
    return Call(playbook, variables, typed, flags, inventory, tuple(options))
