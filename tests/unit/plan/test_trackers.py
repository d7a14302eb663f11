# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch is one run of each tracker: the names depend on key and generation, and on nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import generation_token, with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import inputs, sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import plan as real_plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, Merged, merge

SITE = inputs.Site("/state", "/store")


def _merged(data: dict[str, Any]) -> Merged:
    return merge([Layer("job", {"name": "gpt", "command": ["./train"], **data})])


def _plan(data: dict[str, Any], commit: str | None = None) -> Plan:
    merged = _merged(data)
    return real_plan(validated(merged), merged, inputs.Inputs(code="c", runtime="r", commit=commit), SITE)


def _variables(made: Plan, generation: int = 3) -> dict[str, str]:
    return {each.name: with_generation(each.value, made.token, generation) for each in made.variables}


def test_a_launch_is_one_run_by_key_and_generation() -> None:
    made = _plan({"trackers": {"wandb": {"project": "p", "offline": True}}}, commit="a" * 40)
    known, key = _variables(made), made.key[:16]
    assert known["WANDB_RUN_ID"] == known["RANKZERO_TRACKER_RUN"] == f"gpt-{key}-3"
    assert known["WANDB_RUN_GROUP"] == f"gpt-{key}"
    assert known["WANDB_RESUME"] == "allow"
    assert known["WANDB_TAGS"].split(",") == [f"key-{key}", "generation-3", "commit-" + "a" * 12]
    assert (known["WANDB_PROJECT"], known["WANDB_MODE"]) == ("p", "offline")
    assert known["WANDB_DIR"] == f"/state/runs/gpt/{key}/3"
    assert "WANDB_ENTITY" not in known


def test_mlflow_gets_its_run_in_the_job() -> None:
    """Its server chooses the id: the job creates the run, unless it names one itself."""
    data = {"trackers": {"mlflow": {"server": "https://mlflow.example.org/ml/", "project": "gpt"}}}
    made = _plan(data, commit="a" * 40)
    known = _variables(made)
    assert made.mlflow_run and "MLFLOW_RUN_ID" not in known
    assert known["MLFLOW_TRACKING_URI"] == "https://mlflow.example.org/ml"
    assert (known["MLFLOW_EXPERIMENT_NAME"], known["RANKZERO_TRACKER_COMMIT"]) == ("gpt", "a" * 40)
    assert "RANKZERO_TRACKER_COMMIT" not in _variables(_plan(data))
    bare = _plan({"trackers": {"mlflow": {}}})
    assert bare.mlflow_run and "MLFLOW_TRACKING_URI" not in _variables(bare)
    for given in (
        {"env": {"MLFLOW_RUN_ID": "mine"}},
        {"secrets": {"MLFLOW_RUN_ID": {"from_env": "N"}}},
        {"trackers": {}},
    ):
        assert not _plan({**data, **given}).mlflow_run


def test_the_run_in_mlflow_reaches_the_container() -> None:
    data = {"container": {"runtime": "apptainer", "image": "/images/torch.sif"}, "trackers": {"mlflow": {}}}
    made = _plan(data)
    assert made.container and "MLFLOW_RUN_ID" in made.container.variables
    without = _plan({**data, "trackers": {}})
    assert without.container and "MLFLOW_RUN_ID" not in without.container.variables


def test_trackers_and_the_commit_leave_the_key_alone() -> None:
    assert _plan({"trackers": {"trackio": {}}}, commit="b" * 40).key == _plan({}).key


def test_without_trackers_there_are_no_variables_of_them() -> None:
    assert not [name for name in _variables(_plan({})) if name.startswith(("WANDB", "TRACKIO", "RANKZERO_TRACKER"))]


def test_what_the_job_sets_is_not_changed() -> None:
    data = {
        "trackers": {"wandb": {"project": "p"}},
        "env": {"WANDB_PROJECT": "mine"},
        "secrets": {"WANDB_NAME": {"from_env": "N"}},
    }
    made = _plan(data)
    assert [each.value for each in made.variables if each.name == "WANDB_PROJECT"] == ["mine"]
    assert "WANDB_NAME" not in _variables(made)


@pytest.mark.parametrize(
    ("trackers", "named"),
    [
        ({"wandbb": {}}, "wandb"),
        ({"wandb": {"projekt": "p"}}, "project"),
        ({"tensorboard": {"project": "p"}}, "project"),
        ({"wandb": {"project": "a/b"}}, "a/b"),
        ({"wandb": "p"}, "map"),
        (["wandb"], "map"),
    ],
)
def test_a_mistake_is_named(trackers: object, named: str) -> None:
    with pytest.raises(SpecError) as error:
        _plan({"trackers": trackers})
    assert "trackers" in str(error.value) and named in str(error.value)


@pytest.mark.parametrize("address", ["https://me:hidden@host", "https://host/?key=hidden", "ftp://hidden"])
def test_an_address_with_credentials_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(SpecError) as error:
        _plan({"trackers": {"wandb": {"server": address}}})
    assert "server" in str(error.value) and "hidden" not in str(error.value)


@pytest.mark.parametrize("values", [["1"], ["1", "2"]])
def test_each_element_of_a_sweep_is_a_run_of_its_own(values: list[str]) -> None:
    data = {"trackers": {"wandb": {}}, "command": ["./train", "{lr}"], "sweep": {"parameters": {"lr": values}}}
    merged = _merged(data)
    spec = validated(merged)
    points = [(point, layers, each) for point, layers, each in sweep.specs(spec, merged)]
    known = inputs.Inputs(code="c", runtime="r")
    elements, _notes = sweep.elements(spec, points, lambda each, layers: real_plan(each, layers, known, SITE))
    array = sweep.array_plan(spec, elements, "/state")
    assert "WANDB_RUN_ID" not in {each.name for each in array.variables}
    for element, line in zip(elements, sweep.lines(elements)):
        placed = with_generation(line, generation_token(element.plan.key), 2)
        assert f"export WANDB_RUN_ID=gpt-{element.plan.key[:16]}-2;" in placed and "GENERATION-" not in placed
