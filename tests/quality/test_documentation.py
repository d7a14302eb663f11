# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module says about itself, and that what the pages name exists."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.repository import ROOT, bullet_list, files, load_yaml, module_documentation, plugin_names, read

MODULES = plugin_names("modules")
GROUP_FRAGMENT = "rankzero.slurm.attributes.actiongroup_slurm"
#: Modules outside the action group, each with the reason.
OUTSIDE_THE_GROUP = {"lab_cluster": "makes a cluster; the group holds what works on one"}


def documentation(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load(module_documentation(name))
    assert isinstance(loaded, dict), f"plugins/modules/{name}.py has no DOCUMENTATION"
    return loaded


def fragment(full_name: str) -> dict[str, Any]:
    """A documentation fragment of ours: `rankzero.slurm.attributes.actiongroup_slurm`."""
    _, _, file, *rest = full_name.split(".")
    variable = (rest[0] if rest else "documentation").upper()
    for node in ast.walk(ast.parse(read(f"plugins/doc_fragments/{file}.py"))):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) == variable for target in node.targets):
            loaded = yaml.safe_load(ast.literal_eval(node.value))
            assert isinstance(loaded, dict)
            return loaded
    raise AssertionError(f"{full_name} is no fragment of plugins/doc_fragments")


def all_options(name: str) -> dict[str, Any]:
    """The options of a module, those of its fragments included."""
    doc = documentation(name)
    options = dict(doc.get("options") or {})
    for used in doc.get("extends_documentation_fragment", []):
        if used.startswith("rankzero.slurm."):
            options.update(fragment(used).get("options") or {})
    return options


def nested_names(options: dict[str, Any]) -> Iterator[str]:
    for name, option in options.items():
        yield name
        yield from nested_names(option.get("suboptions") or {})


@pytest.mark.parametrize("name", MODULES)
def test_module_states_its_attributes(name: str) -> None:
    doc = documentation(name)
    fragments = doc.get("extends_documentation_fragment", [])
    assert "rankzero.slurm.attributes" in fragments
    for attribute in ("check_mode", "diff_mode"):
        assert doc.get("attributes", {}).get(attribute, {}).get("support") in ("full", "partial", "none"), attribute
    assert (GROUP_FRAGMENT in fragments) == (name not in OUTSIDE_THE_GROUP)
    assert doc["module"] == name
    assert doc.get("version_added"), "version_added"


def test_action_group_holds_exactly_our_modules() -> None:
    group = load_yaml("meta/runtime.yml")["action_groups"]["slurm"]
    assert group == sorted(set(MODULES) - set(OUTSIDE_THE_GROUP))


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_tasks_that_use_the_module_by_its_full_name(name: str) -> None:
    tasks = yaml.safe_load(module_documentation(name, "EXAMPLES"))
    assert isinstance(tasks, list) and tasks, "EXAMPLES is a list of tasks"
    for task in tasks:
        assert isinstance(task, dict) and task.get("name"), f"an example needs a name: {task!r}"
    options = set(all_options(name))
    used = [task[f"rankzero.slurm.{name}"] or {} for task in tasks if f"rankzero.slurm.{name}" in task]
    assert used, f"no example uses rankzero.slurm.{name}"
    unknown = sorted({option for arguments in used for option in arguments} - options)
    assert not unknown, f"the examples use options that the module does not have: {unknown}"


@pytest.mark.parametrize("name", MODULES)
def test_every_returned_value_is_described(name: str) -> None:
    values = yaml.safe_load(module_documentation(name, "RETURN"))
    assert isinstance(values, dict) and values, "RETURN is a map of values"
    for key, value in values.items():
        assert value.get("description") and value.get("returned") and value.get("type"), f"RETURN {key}"


@functools.cache
def texts_of_tests() -> dict[str, str]:
    """Everything that exercises the collection: all tests but the ones about the repository, and the scenarios."""
    wanted = (".py", ".yml", ".yaml", ".sh", ".sbatch")
    return {
        path: read(path)
        for path in files("tests/") + files("extensions/molecule/")
        if path.endswith(wanted) and not path.startswith("tests/quality/")
    }


def untested(names: set[str], mentioning: str = "") -> list[str]:
    """Those of `names` that no test text holds as a word; only texts that hold `mentioning` count."""
    words: set[str] = set()
    for text in texts_of_tests().values():
        if mentioning in text:
            words.update(re.findall(r"\w+", text))
    return sorted(names - words)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_option_is_used_by_a_test(name: str) -> None:
    """A word in a test is weak evidence that an option works; its absence is strong evidence that nobody looked."""
    own = untested(set(all_options(name)), mentioning=name)
    nested = untested(set(nested_names(all_options(name))))
    missing = sorted({*own, *nested})
    assert not missing, f"no test of {name} names:" + bullet_list(missing)


@pytest.mark.parametrize("role", sorted({path.split("/")[1] for path in files("roles/")}))
def test_every_role_option_is_used_by_a_test(role: str) -> None:
    missing = untested(set(load_yaml(f"roles/{role}/defaults/main.yml") or {}))
    assert not missing, "no test or scenario sets:" + bullet_list(missing)


PAGES = [*files(suffix=".md"), *files("docs/", ".rst")]


def slug(heading: str) -> str:
    """The anchor that a heading of a Markdown page gets where such pages are shown."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    broken = []
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", read(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            broken.append(f"{target}: no such file")
        elif anchor and anchor not in map(slug, re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)):
            broken.append(f"{target}: no such heading")
    assert not broken, bullet_list(broken)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", read("Makefile"), re.M))


@pytest.mark.parametrize("page", [*PAGES, "scripts/bootstrap"])
def test_make_targets_that_are_named_exist(page: str) -> None:
    named = set(re.findall(r"(?:^\s*|[`$] ?)make ([a-z][a-z-]*)", read(page), re.M))
    unknown = sorted(named - make_targets())
    assert not unknown, f"{page} tells people to run targets that the Makefile does not have: {unknown}"
