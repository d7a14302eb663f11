# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the playbooks: the declared ones are those that are read, and no other name passes."""

from __future__ import annotations

from typing import Any

import jinja2
import jinja2.meta
import pytest
from ansible.vars.reserved import is_reserved_name

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.extra_variables import check_types
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import (
    EVERYWHERE,
    PLAYBOOKS,
    TYPES,
    known_names,
    refuse_unknown,
)
from tests.repository import files, load_yaml

#: Names of Ansible, and results that a playbook's own tasks register or set.
OF_ANSIBLE = {"groups", "lookup", "inventory_hostname", "playbook_dir", "item", "omit", "hostvars"}
OF_OTHER_TASKS = {"rankzero_selected", "launch_submitted", "launch_resubmitted", "launch_result", "fabric_of_group"}
ROLES = {"launch": ("train",), "course": ("course", "checkoff"), "lab_cluster": ("lab",), "reconcile": ("reconcile",)}


def names_read(text: str) -> set[str]:
    return set(jinja2.meta.find_undeclared_variables(_environment().parse(text)))


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment()
    for name in ("basename", "bool", "combine", "extract", "mandatory", "match"):
        environment.filters[name] = environment.tests[name] = str
    return environment


def read_by(path: str) -> set[str]:
    """The variables that the expressions of a YAML file read, without those that its own tasks make."""
    document = load_yaml(path)
    names: set[str] = set()
    made: set[str] = set()

    def look(node: Any) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("register", "loop_var"):
                    made.add(value)
                elif key in ("vars", "ansible.builtin.set_fact"):
                    made.update(value)
                conditions = value if isinstance(value, list) else [value]
                if key in ("when", "that", "failed_when"):
                    names.update(*(names_read("{{" + text + "}}") for text in conditions if isinstance(text, str)))
                look(value)
        elif isinstance(node, list):
            for value in node:
                look(value)
        elif isinstance(node, str) and "{{" in node:
            names.update(names_read(node))

    look(document)
    return {name for name in names - made - OF_ANSIBLE - OF_OTHER_TASKS if not name.startswith("ansible_")}


SHORT_NAMES = {
    "roles/reconcile/tasks/main.yml": {
        name: f"reconcile_{name}" for name in ("jobs", "removed", "changed", "relaunch")
    },
    "roles/reconcile/tasks/build.yml": {
        name: f"reconcile_{name}" for name in ("jobs", "removed", "changed", "relaunch")
    },
    "roles/course/tasks/checkoff.yml": {"pick": "course_pick"},
}


@pytest.mark.parametrize("path", SHORT_NAMES)
def test_a_short_name_on_the_command_line_wins_over_the_inventory(path: str) -> None:
    """And the inventory's variable counts without it."""
    (task,) = (
        task for task in load_yaml(path) if {"rankzero.slurm.reconcile", "rankzero.slurm.course_checkoff"} & {*task}
    )
    options = task.get("rankzero.slurm.reconcile") or task["rankzero.slurm.course_checkoff"]
    environment = jinja2.Environment()
    environment.filters["mandatory"] = lambda value, _message: value
    for name, variable in SHORT_NAMES[path].items():
        expression = environment.from_string(options[name])
        assert expression.render({variable: "inventory"}) == "inventory"
        assert expression.render({variable: "inventory", name: "command line"}) == "command line"


def test_no_playbook_hides_a_variable_of_the_inventory() -> None:
    """A role's variable that a playbook sets, for a short name, wins over that variable in the inventory."""
    playbooks = [path for path in files("playbooks/", ".yml") if path != "playbooks/lab.yml"]  # has no inventory
    tasks = [(path, task) for path in playbooks for play in load_yaml(path) for task in play.get("tasks", [])]
    short = {name for names in PLAYBOOKS.values() for name in names}
    hidden = [
        (path, name)
        for path, task in tasks
        if "ansible.builtin.include_role" in task or "ansible.builtin.import_role" in task
        for name, value in task.get("vars", {}).items()
        if name in short and "default(" in str(value)
    ]
    assert not hidden, hidden


def test_every_playbook_declares_the_variables_that_it_reads() -> None:
    problems = []
    playbooks = [path for path in files("playbooks/", ".yml") if path.count("/") == 1]
    for path in playbooks:
        name = path.removeprefix("playbooks/").removesuffix(".yml")
        plays = load_yaml(path)
        first = next(iter([*plays[0].get("pre_tasks", []), *plays[0].get("tasks", [])]), {})
        if first.get("rankzero.slurm.extra_variables") != {"playbook": name}:
            problems.append(f"{path}: its first task is not extra_variables with playbook: {name}")
            continue
        declared = set(known_names(name))
        problems += [f"{path} reads {one}" for one in read_by(path) if one not in declared]
    assert set(PLAYBOOKS) == {path.removeprefix("playbooks/").removesuffix(".yml") for path in playbooks}
    assert not problems, problems


def test_the_options_of_a_role_are_variables_of_its_playbook() -> None:
    missing = []
    for role, playbooks in ROLES.items():
        specs = load_yaml(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]
        options = {option for entry in specs.values() for option in entry["options"]}
        declared = {name for playbook in playbooks for name in PLAYBOOKS[playbook]} | set(EVERYWHERE)
        missing += [f"{role}: {option}" for option in options - declared]
        prefixed = {name for name in declared if name.startswith(f"{role}_")} - set(EVERYWHERE)
        missing += [f"{role} has no {name}" for name in prefixed - options]
    assert not missing, missing


def test_the_playbook_train_checks_the_types_that_the_role_declares() -> None:
    options = load_yaml("roles/launch/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    declared = {name: {"type": option["type"]} for name, option in options.items() if option["type"] != "raw"}
    assert declared == TYPES


class _Action:
    """An action that templates nothing."""

    class _templar:
        @staticmethod
        def template(value: object) -> object:
            return value


def test_an_option_of_the_role_with_another_type_is_refused() -> None:
    action: Any = _Action()
    right = {
        "launch_wait": "no",
        "launch_wait_timeout": "60",
        "launch_cluster": {},
        "launch_explain": True,
        "x": object(),
    }
    check_types(action, right)
    for name, value in (("launch_wait", "perhaps"), ("launch_wait_timeout", "an hour"), ("launch_cluster", ["a"])):
        with pytest.raises(RankzeroError, match=f"^{name}: .* is not a ") as raised:
            check_types(action, {**right, name: value})
        assert repr(value) in raised.value.message


@pytest.mark.parametrize(
    ("playbook", "name", "hint"),
    [
        ("train", "state", "rankzero.slurm.cancel"),
        ("train", "cancel", "rankzero.slurm.cancel"),
        ("train", "gpus", "gpus_per_node"),
        ("train", "wait", "launch_wait"),
        ("train", "rerum", "rerun"),
        ("train", "ndoes", "nodes"),
        ("train", "lr", "launch_variables"),
        ("status", "nodes", "launch_variables"),
        ("logs", "launch_nme", "launch_name"),
        (None, "state", "rankzero.slurm.cancel"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(playbook: str | None, name: str, hint: str) -> None:
    with pytest.raises(RankzeroError) as raised:
        refuse_unknown(playbook, [name], [])
    assert f"-e {name}: " in raised.value.message and hint in raised.value.message


def test_variables_of_the_user_and_of_ansible_pass() -> None:
    refuse_unknown("train", ["lr", "ansible_become", "nodes", "cluster", "debug"], ["lr"])
    refuse_unknown("sweep", ["state", "elements", "parallel"], [])
    refuse_unknown("lab", ["lab", "state", "lab_cluster_nodes"], [])


def test_ansible_warns_of_no_documented_variable() -> None:
    """Names that Ansible reserves are accepted as second names only; their first names are free."""
    second = {"args": "program_args", "until": "wait_until"}
    for playbook in PLAYBOOKS:
        known = known_names(playbook)
        reserved = {name for name in known if is_reserved_name(name)}
        assert reserved <= set(second), playbook
        assert all(second[name] in known and not is_reserved_name(second[name]) for name in reserved)
