# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of input that inputs/kinds.py declares is known to the prune, the role that builds it, and its producer."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Trust
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import BY_NAME, STORED
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import first
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Inputs, Site, mounted
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import plan as planned
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory, plan
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import Store
from ansible_collections.rankzero.slurm.plugins.module_utils.store.uses import PLACES
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Stores
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.results import DOING, STEPS
from tests.repository import COLLECTION, read

EXAMPLES = {info.path: info.meta["example"] for info in fields_of(LaunchSpec)}
NAME = COLLECTION.partition(".")[2]
#: Built by a launch where it is missing. Others are brought to the cluster before.
BUILT = [kind.name for kind in STORED if not kind.advice]
#: Named by a digest of the launch's own inputs, or by an option whose text is the key. The job names datasets by path.
NAMED = [kind.name for kind in STORED if not kind.option or isinstance(EXAMPLES[kind.option], str)]
TASKS = yaml.safe_load(read("roles/launch/tasks/produce.yml"))
IMAGE = {"runtime": "apptainer", "build": {"containerfile": "Containerfile"}}
JOB = {"name": "j", "resources": {"nodes": 1, "time": "1"}, "command": ["a"], "container": IMAGE}


def task_of(kind: str) -> tuple[str, dict[str, Any]]:
    """The module that the role calls for a missing input of this kind, and its options."""
    (task,) = [task for task in TASKS if kind in built_by(task)]
    (module,) = [name for name in task if name.startswith(f"{NAME}.")]
    return module.removeprefix(f"{NAME}."), task[module]


def built_by(task: dict[str, Any]) -> list[str]:
    """The kinds of missing inputs that a task of the role builds."""
    (kinds,) = re.findall(r"selectattr\('kind', \S+ (.+?)\)", str(task["loop"]))
    return re.findall(r"\w+", kinds)


def described(kind: str) -> dict[str, Any]:
    """What an action tells the role of a missing input."""
    spec = validated(merge([Layer("job", JOB)]))
    job: Any = SimpleNamespace(
        excluded=(),
        spec=spec, project="/p", containerfile="/p/Containerfile", context=None,
        settings=ClusterSettings(),
    )  # fmt: skip
    request = SimpleNamespace(stores=Stores("/store"))
    plan = SimpleNamespace(roles=())
    prepared: Any = SimpleNamespace(snapshot=SimpleNamespace(src="/p", left_out=()), request=request, plan=plan)
    action: Any = SimpleNamespace(_kept=False, _snapshots=SimpleNamespace(path="/kept"))
    result = vars(LaunchAction.producers(action, [{"kind": kind, "key": "k", "path": "/p"}], prepared, job))
    return dict(result["missing"][0])


@pytest.mark.parametrize("kind", [kind.name for kind in STORED])
def test_a_prune_knows_where_it_is(kind: str) -> None:
    path = Store("/store", Trust.own(), own=True).path_of(BY_NAME[kind], "k")
    assert path == f"/store/{BY_NAME[kind].folder}/k" and BY_NAME[kind].folder in PLACES
    assert kind in inventory.SLOTS and kind in plan.KINDS


@pytest.mark.parametrize("kind", NAMED)
def test_a_plan_names_it_and_the_ranks_find_it(kind: str) -> None:
    declared = BY_NAME[kind]
    key = str(EXAMPLES.get(declared.option, "k"))
    given: dict[str, Any] = {}
    for part in reversed(declared.option.split(".") if declared.option else ()):
        given = {part: given or key}
    merged = merge([Layer("job", {**JOB, **given})])
    inputs = Inputs(**{"code": "c", "runtime": "r", **({} if declared.option else {kind: key})})
    made = planned(validated(merged), merged, inputs, Site("/state", "/store"))
    ref = first(made.refs, declared)
    assert ref and ref.path == f"/store/{declared.folder}/{key}"
    assert (ref.path in mounted(made.refs)) == declared.mounted
    told = {variable.name: variable.value for variable in made.variables}
    assert told.get(declared.variable) == (ref.path if declared.option else None)


def test_the_nodes_copy_what_is_declared_so() -> None:
    for path, table in (("copies.py", "COLUMNS"), ("copy_steps.py", "THROUGH")):
        (names,) = re.findall(rf"^{table}\b.*= \{{(.+)\}}$", read(f"plugins/runtime/node/{path}"), re.M)
        assert set(re.findall(r'"(\w+)":', names)) == {kind.name for kind in STORED if kind.copied}


@pytest.mark.parametrize("kind", BUILT)
def test_a_launch_that_lacks_it_can_have_it_built(kind: str) -> None:
    module, options = task_of(kind)
    needed = {name for value in options.values() for name in re.findall(r"\bitem\.(\w+)", str(value))}
    assert needed and needed <= described(kind).keys()
    action = importlib.import_module(f"{COLLECTION}.plugins.action.{module}").ActionModule
    assert issubclass(action, Producer) and f"{NAME}.{module}" == action.MODULE
    assert options.keys() <= action.OPTIONS.keys()
    assert {"store_root", "store_group_writable", "state"} <= action.OPTIONS.keys()
    assert STEPS[module] in DOING


def test_an_error_names_the_module_that_makes_it() -> None:
    assert {kind: task_of(kind)[0] for kind in BUILT} == {kind: BY_NAME[kind].producer for kind in BUILT}


def test_the_role_builds_nothing_that_is_not_declared() -> None:
    assert sorted(kind for task in TASKS for kind in built_by(task)) == sorted(BUILT)
