# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An option of a role is declared once: in its module's documentation, or in roles/ROLE/options.yml."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import EVERYWHERE, PLAYBOOKS
from tests.repository import bullet_list, files, load_yaml, read

ROLES = sorted({path.split("/")[1] for path in files("roles/")})
MARKS = re.compile(r"^ +# options of (\w+): written by make reference\n(.*?)^ +# end of options$", re.M | re.S)
DECLARED: dict[str, dict[str, Any]] = {role: load_yaml(f"roles/{role}/options.yml") for role in ROLES}


def documented(module: str) -> dict[str, Any]:
    """The options in a module's documentation."""
    for node in ast.parse(read(f"plugins/modules/{module}.py")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "DOCUMENTATION":
            return dict(yaml.safe_load(ast.literal_eval(node.value))["options"])
    raise AssertionError(f"{module} has no documentation")


def of_role(role: str, entry: str) -> set[str]:
    """The names of an entry point's options without the role's prefix, as they are published."""
    options = load_yaml(f"roles/{role}/meta/argument_specs.yml")["argument_specs"][entry]["options"]
    return {name.removeprefix(f"{role}_") for name in options}


OPTIONS = {
    f"{role}_{name}": (role, entry, name)
    for role in ROLES
    for entry in DECLARED[role]
    # Every process of pytest has to collect them in the same order.
    for name in sorted(of_role(role, entry))
}
WRITTEN = {
    module: block
    for path in [*files("plugins/module_utils/", ".py"), *files("plugins/modules/", ".py")]
    for module, block in MARKS.findall(read(path))
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_everywhere(option: str) -> None:
    """In the defaults, in the page of the role, among the names that a playbook accepts, and, if it is one of the
    module's, in the module's argument spec and in the role's call of the module.
    """
    role, entry, name = OPTIONS[option]
    assert option in load_yaml(f"roles/{role}/defaults/main.yml")
    assert f"\n| `{option}` |" in read(f"roles/{role}/README.md")
    # Roles without a playbook are used in a user's play, where all names are accepted.
    if any(f"{role}_" in known for names in PLAYBOOKS.values() for known in names):
        assert option in {known for names in PLAYBOOKS.values() for known in names} | set(EVERYWHERE)
    module = DECLARED[role][entry].get("module")
    if module and name in documented(module):
        assert f'\n    "{name}": {{' in f"\n{WRITTEN[module]}"
        (call,) = [task[f"rankzero.slurm.{module}"] for task in marked_tasks(role, entry)]
        assert name in call


def marked_tasks(role: str, entry: str) -> list[dict[str, Any]]:
    """The tasks of an entry point whose arguments are written."""
    path, module = f"roles/{role}/tasks/{entry}.yml", DECLARED[role][entry]["module"]
    (block,) = [block for marked, block in MARKS.findall(read(path)) if marked == module]
    names = set(re.findall(r"^ +(\w+):", block, re.M))
    return [task for task in load_yaml(path) if names and names <= {*(task.get(f"rankzero.slurm.{module}") or ())}]


@pytest.mark.parametrize("role", ROLES)
def test_only_lists_have_elements(role: str) -> None:
    """Ansible refuses every value of an option of another type that has them."""
    for entry in load_yaml(f"roles/{role}/meta/argument_specs.yml")["argument_specs"].values():
        wrong = [name for name, option in entry["options"].items() if "elements" in option and option["type"] != "list"]
        assert wrong == []


def test_an_option_of_the_module_is_not_declared_again() -> None:
    """`options.yml` says only what differs: no type, and nothing that the module's documentation says as well."""
    again = []
    for role, entries in DECLARED.items():
        for entry, declared in entries.items():
            options = documented(declared["module"]) if "module" in declared else {}
            for name, own in (declared.get("options") or {}).items():
                same = [key for key, value in own.items() if options.get(name, {}).get(key) == value]
                again += [f"roles/{role}/options.yml: {entry}: {name}: {key}" for key in same]
    assert not again, bullet_list(again)
