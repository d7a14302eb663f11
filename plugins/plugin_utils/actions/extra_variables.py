# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extra variables of a command line, and which of them the user may define freely."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.vars import load_extra_vars

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    Parameters,
    TaskVariables,
    play_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import BOOLEAN, Invalid, suggestion
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import load_job_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import (
    COMMAND_LINE,
    DECLARED,
    KINDS,
    TYPES,
    known_names,
    refuse_unknown,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display

# The inventory of an Ansible that was given none.
UNASKED = ("/etc/ansible/hosts",)
# Playbooks that can boot the cluster that they use.
BOOTS = ("lab", "course")


def extra_variables(action: Action) -> JsonObject:
    """The variables given with `-e`. Raises RankzeroError if they cannot be read."""
    try:
        return dict(load_extra_vars(action._loader))  # pylint: disable=protected-access  # an action's own, from outside
    except AnsibleError as error:
        raise RankzeroError(f"the extra variables cannot be read: {error}") from error


def check_extra_variables(action: Action, playbook: str | None, extra: JsonObject, task_vars: TaskVariables) -> None:
    """Raise RankzeroError for extra variables that would have no effect. `playbook`: as in `known_names`."""
    known = known_names(playbook)
    if all(name in known or name.startswith("ansible_") for name in extra):
        return
    template = action._templar.template  # pylint: disable=protected-access

    def value(name: str) -> Any:
        return template(task_vars[name]) if name in task_vars else None

    declared = value(DECLARED) or []
    if isinstance(declared, str):
        declared = declared.replace(",", " ").split()
    cluster = value("launch_cluster")
    secrets = _secret_variables(cluster) if isinstance(cluster, Mapping) else set()
    job = extra.get("launch_job") or extra.get("job") or template(action._task.args.get("job"))
    job = job or value("launch_job") or value("job")
    secrets |= _secret_variables(_job(job))
    own = {*map(str, declared), *secrets, *_defined_otherwise(action._task, task_vars)}
    refuse_unknown(playbook, extra, own)


def options_of_command_line(action: Action, arguments: Parameters, task_vars: TaskVariables) -> JsonObject:
    """The options of a task that launches which the command line sets by a short name (`-e job=`, `-e rerun=true`).

    They win over the role's variable (`launch_job`) of the inventory, the play or the role. Variables of an include
    (`include_role` with `vars`) are its author's choice for this launch, and stay. `arguments`: the task's. Raises
    RankzeroError if `rerun` is not a boolean.
    """
    extra, of_include = extra_variables(action), action._task.get_vars()
    values: JsonObject = {}
    for option, (short, variable) in COMMAND_LINE.items():
        if option not in arguments or short not in extra or variable in extra or variable in of_include:
            continue
        # A task that does not take this option from the role's variable keeps its own value.
        if plain(action._templar.template(task_vars.get(variable))) == arguments[option]:
            values[option] = plain(extra[short])
    if "relaunch" in values:
        values.update(relaunch=_relaunch(values.get("relaunch"), arguments.get("relaunch")))
    return values


def _relaunch(rerun: object, before: object) -> object:
    """When to submit an ended launch again. `rerun`: as on the command line."""
    try:
        again = BOOLEAN.parse(rerun)
    except Invalid as error:
        raise RankzeroError(f"rerun: {error}") from None
    return "always" if again else "on_failure" if before == "always" else before


def check_types(action: Action, task_vars: TaskVariables) -> None:
    """Raise RankzeroError for an option of role launch that has another type than the role declares."""
    template = action._templar.template  # pylint: disable=protected-access
    given = {name: template(task_vars[name]) for name in TYPES if name in task_vars}
    for message in ArgumentSpecValidator(TYPES).validate(given).error_messages:
        name = next((name for name in given if f"'{name}'" in message), "")
        kind = TYPES[name]["type"] if name else ""
        raise RankzeroError(
            f"{name}: {given[name]!r} is not a {KINDS.get(kind, kind)}" if name else f"role launch: {message}"
        )


def tell_localhost(action: Action, playbook: str | None, extra: JsonObject, task_vars: TaskVariables) -> None:
    """Warn that a launch runs on this machine because the inventory names no login node.

    Raises RankzeroError if it would run here because `cluster` matches no host.
    """
    play = play_of(task_vars)
    host, groups = play.host, play.groups or {}
    if host != "localhost" or playbook == "lab":
        return
    sources = ", ".join(map(str, play.inventories)) or "none given"
    others = sorted(set(groups.get("all", [])) - {"localhost"})
    if playbook not in BOOTS:
        _refuse_inventories(play.inventories, groups)
    if "cluster" in extra:
        _refuse_cluster(action, str(extra["cluster"]), groups, sources)
        return
    if groups.get("slurm_login"):
        return
    looked = f"no host is in the group slurm_login (inventory: {sources}), so this runs on localhost"
    if others:
        display.warning(
            f"{looked}, and not on {', '.join(others[:5])}. Add your login node to that group, or choose a host with "
            "-e cluster=HOST."
        )
    else:
        display.display(f"localhost: {looked}; choose a cluster with -i INVENTORY")


def _refuse_inventories(sources: Iterable[str], groups: Mapping[str, Any]) -> None:
    """Raise RankzeroError if an inventory that somebody gave is missing, or holds no host at all."""
    given = [path for path in map(str, sources) if "," not in path and path not in UNASKED]
    missing = next((path for path in given if not os.path.exists(path)), None)
    if missing:
        near = suggestion(os.path.basename(missing), _names_beside(missing))
        raise RankzeroError(
            f"inventory: there is no file or folder {missing}{near}; without -i, the default inventory is used"
        )
    if given and not groups.get("all"):
        listed = ", ".join(given)
        raise RankzeroError(
            f"inventory: Ansible has read no host in {listed}; its warnings say why. Add your login node to its group "
            "slurm_login; without -i, the default inventory is used."
        )


def _names_beside(path: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.dirname(path)))
    except OSError:
        return []


def _refuse_cluster(action: Action, cluster: str, groups: Mapping[str, Any], sources: str) -> None:
    """Raise RankzeroError if `cluster` matches no host: then our playbooks run here, to say so."""
    manager = action._task.get_variable_manager()  # pylint: disable=protected-access  # an action's own, from outside
    if manager._inventory.get_hosts(cluster):  # pylint: disable=protected-access
        return
    known = sorted(groups.get("slurm_login") or set(groups.get("all", [])) - {"localhost"})
    there = f"its login nodes: {', '.join(known[:8])}" if known else "it has no hosts"
    raise RankzeroError(
        f"cluster: {cluster!r} matches no host and no group of the inventory{suggestion(cluster, known)} "
        f"(inventory: {sources}; {there})"
    )


def _job(job: Any) -> Mapping[str, Any]:
    """The job spec as written in its file; empty if it cannot be read, which the launch itself reports."""
    if isinstance(job, str) and job:
        try:
            return load_job_file(job, os.getcwd())[0].data
        except (RankzeroError, OSError):
            return {}
    return job if isinstance(job, Mapping) else {}


def _secret_variables(spec: Mapping[str, Any]) -> set[str]:
    """The Ansible variables that `secrets` of a spec refers to with from_var."""
    secrets = spec.get("secrets")
    sources = secrets.values() if isinstance(secrets, Mapping) else ()
    return {str(source["from_var"]) for source in sources if isinstance(source, Mapping) and "from_var" in source}


def _defined_otherwise(task: Any, task_vars: TaskVariables) -> set[str]:
    """The host's variables in this play without the command line: those of the inventory, the play, its roles and
    earlier tasks. A user may override these on the command line.
    """
    manager = copy.copy(task.get_variable_manager())
    manager._extra_vars = {}  # pylint: disable=protected-access  # Ansible has no other way to ask
    block = task
    while block is not None and getattr(block, "_play", None) is None:
        block = getattr(block, "_parent", None)
    host = manager._inventory.get_host(task_vars["inventory_hostname"])  # pylint: disable=protected-access
    return set(manager.get_vars(play=getattr(block, "_play", None), host=host, task=task, include_hostvars=False))
