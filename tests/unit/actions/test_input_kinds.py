# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of input that store/uses.py declares is known to the prune, the role that builds it, and its producer."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Trust
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory, plan
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import Store
from ansible_collections.rankzero.slurm.plugins.module_utils.store.uses import FOLDERS, PLACES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import MAKERS, LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.results import DOING, STEPS
from tests.repository import COLLECTION, read

NAME = COLLECTION.partition(".")[2]
#: Built by a launch where it is missing. A dataset is staged before, by a role of its own.
BUILT = [kind for kind in FOLDERS if kind != "dataset"]
TASKS = yaml.safe_load(read("roles/launch/tasks/produce.yml"))
IMAGE = {"runtime": "apptainer", "build": {"containerfile": "Containerfile"}}
JOB = {"name": "j", "resources": {"nodes": 1, "time": "1"}, "command": ["a"], "container": IMAGE}


def task_of(kind: str) -> tuple[str, dict[str, Any]]:
    """The module that the role calls for a missing input of this kind, and its options."""
    (task,) = [task for task in TASKS if f"selectattr('kind', 'eq', '{kind}')" in str(task["loop"])]
    (module,) = [name for name in task if name.startswith(f"{NAME}.")]
    return module.removeprefix(f"{NAME}."), task[module]


def described(kind: str) -> dict[str, Any]:
    """What an action tells the role of a missing input."""
    spec = validated(merge([Layer("job", JOB)]))
    job = SimpleNamespace(
        spec=spec, project="/p", containerfile="/p/Containerfile", context=None,
        settings=SimpleNamespace(store_group_writable=False),
    )  # fmt: skip
    prepared = SimpleNamespace(
        snapshot=SimpleNamespace(src="/p", left_out=()), arguments={"stores": {"store_root": "/store"}}
    )
    action = SimpleNamespace(_kept=False, _snapshots=SimpleNamespace(path="/kept"))
    result = LaunchAction.producers(action, {"missing": [{"kind": kind, "key": "k"}]}, prepared, job)
    return dict(result["missing"][0])


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_prune_knows_where_it_is(kind: str) -> None:
    path = Store("/store", Trust.own(), own=True).place(kind, "k")
    assert path == f"/store/{FOLDERS[kind]}/k" and FOLDERS[kind] in PLACES
    assert kind in inventory.SLOTS and kind in plan.KINDS


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
    assert {kind: task_of(kind)[0] for kind in BUILT} == {kind: MAKERS[kind] for kind in BUILT}
    assert MAKERS.keys() == FOLDERS.keys()


def test_the_role_builds_nothing_that_is_not_declared() -> None:
    loops = [str(task["loop"]) for task in TASKS]
    assert sorted(kind for loop in loops for kind in re.findall(r"'kind', 'eq', '(\w+)'", loop)) == sorted(BUILT)
