# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every aspect of a launch keeps to one protocol and is asked by the plan; nothing of a launch is decided elsewhere."""

from __future__ import annotations

import ast
import inspect

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan import plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.registry import ASPECTS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse
from tests.plans import context
from tests.repository import files, syntax_tree

FOLDER = "plugins/module_utils/plan/aspects/"
METHODS = ("findings", "header", "step", "probe", "exports")


def classes() -> dict[str, str]:
    """Class -> file of every class below aspects/ that says it is an aspect."""
    paths = {}
    for path in files(FOLDER, ".py"):
        for node in syntax_tree(path).body:
            if isinstance(node, ast.ClassDef) and "Aspect" in [getattr(base, "id", "") for base in node.bases]:
                paths[node.name] = path
    return paths


def test_every_aspect_is_asked_once() -> None:
    asked = [type(aspect).__name__ for aspect in ASPECTS]
    assert sorted(asked) == sorted(classes()), "an aspect is missing in plan/aspects/registry.py"


@pytest.mark.parametrize("aspect", ASPECTS, ids=lambda aspect: type(aspect).__name__)
def test_an_aspect_keeps_to_the_protocol_and_says_something(aspect: Aspect) -> None:
    own = [name for name, value in vars(type(aspect)).items() if inspect.isfunction(value) and name[0] != "_"]
    assert own and set(own) <= set(METHODS), "what is no method of the protocol is asked by nobody"
    for name in own:
        declared, given = inspect.signature(getattr(Aspect, name)), inspect.signature(getattr(type(aspect), name))
        assert list(given.parameters) == list(declared.parameters)
    spec = parse(merge([Layer("job", {"name": "job", "command": ["train.py"]})])).spec
    assert list(aspect.findings(spec, ClusterSettings())) == []
    for name in METHODS[1:]:
        assert all(len(pair) == 2 and isinstance(pair[0], str) for pair in getattr(aspect, name)(context(spec)))


def test_the_protocol_is_what_this_test_knows() -> None:
    assert (
        tuple(name for name, value in vars(Aspect).items() if inspect.isfunction(value) and name[0] != "_") == METHODS
    )


def test_the_plan_has_few_parameters() -> None:
    assert len(inspect.signature(plan.plan).parameters) <= 5


def test_a_section_of_the_spec_decides_nothing() -> None:
    """What a section means for header, step and script is said by its aspect."""
    deciding = [
        f"{path}:{node.lineno} {node.name}"
        for path in files("plugins/module_utils/spec/", ".py")
        for node in syntax_tree(path).body
        if isinstance(node, ast.FunctionDef) and node.name in METHODS[1:]
    ]
    assert deciding == []
