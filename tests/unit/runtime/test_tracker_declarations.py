# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each experiment tracker, ours and those of a cluster, and everything that has to know it: one that lacks a part fails
here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import phrases
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import contract, manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import details
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import reserved
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import split_cluster
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import RUN, Kind
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.mlflow import MLFLOW
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.own import OWN_TRACKERS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.registry import KINDS, OPTIONS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid
from tests.repository import read
from tests.unit.plan.containers import planned, problems
from tests.unit.runtime.harness import Site

VALUES = {"server": "https://tracker.example.org", "offline": True}
LEDGER = {
    "options": ["project", "detail"],
    "variables": {
        "LEDGER_FILE": "/ledger/{project}.jsonl",
        "LEDGER_RUN": "{run}",
        "LEDGER_DETAIL": {"text": "1", "needs": "detail", "reason": "each step is kept"},
    },
    "run": "LEDGER_RUN",
    "places": ["{LEDGER_FILE}"],
}

every_tracker = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def options_of(kind: Kind) -> dict[str, Any]:
    return {name: VALUES.get(name, f"my {name}") for name in kind.options}


def variables_of(name: str, options: dict[str, Any]) -> dict[str, str]:
    made = planned({}, trackers={name: options})
    return {variable.name: variable.value for variable in made.variables if variable.source == name}


@every_tracker
def test_the_pages_and_the_schema_know_it(kind: Kind) -> None:
    schema = json.loads(read("docs/job-spec.schema.json"))["properties"]["trackers"]["properties"]
    assert set(schema[kind.name]["properties"]) == set(kind.options) <= set(OPTIONS)
    (row,) = [line for line in read("docs/trackers.md").splitlines() if line.startswith(f"| `{kind.name}` |")]
    assert all(f"`{name}`" in row for name in (*kind.options, *(row.name for row in kind.variables)))
    assert f"{kind.name}, " in read("docs/job-spec.md")


@every_tracker
def test_each_option_reaches_the_ranks(kind: Kind) -> None:
    given = options_of(kind)
    whole = variables_of(kind.name, given)
    assert set(whole) == {row.name for row in kind.variables if "commit" not in row.named}
    for option in given:
        rest = {name: value for name, value in given.items() if name != option}
        assert variables_of(kind.name, rest) != whole, f"nothing reads the option {option}"


@every_tracker
def test_all_attempts_are_one_run(kind: Kind) -> None:
    """A variable holds the run's name or its folder, unless the job itself gets the run from the tracker's server."""
    held = any({"run", "run_dir"} & set(row.named) for row in kind.variables)
    assert held != (kind is MLFLOW)
    others = {row.name for other in KINDS if other is not kind for row in other.variables}
    names = [row.name for row in kind.variables]
    assert len(set(names)) == len(names) and not set(names) & others
    assert kind is MLFLOW or not [name for name in names if reserved(name)]


@every_tracker
def test_the_diagnosis_tells_its_files_from_the_programs(kind: Kind) -> None:
    assert phrases.TRACKER.search(f"/site-packages/{kind.name}/run.py")


# MLflow's server says where: test_mlflow.py.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not MLFLOW], ids=lambda kind: kind.name)
def test_the_job_says_where_its_run_is_found(kind: Kind, site: Site) -> None:
    job = site.job({"trackers": {kind.name: options_of(kind)}})
    assert job.finish() == 0, job.log()
    (row,) = job.outcome()["trackers"]
    assert (row["tracker"], row["run"]) == (kind.name, f"job-{job.plan.key[:16]}-1") and row["place"]


def declared(**trackers: Any) -> ClusterSettings:
    return ClusterSettings(trackers=OWN_TRACKERS.parse(trackers))


def test_one_of_the_cluster_is_planned_run_and_found_as_ours_are(site: Site) -> None:
    given: dict[str, Any] = {"trackers": {"ledger": {"project": "gpt"}}}
    assert "launch_cluster.trackers" in problems({}, **given)[0]
    own = declared(ledger=LEDGER)
    assert problems({}, own, **given) == []
    made = planned({}, settings=own, **given)
    variables = {variable.name: variable for variable in made.variables if variable.source == "ledger"}
    assert (variables["LEDGER_FILE"].value, set(variables)) == ("/ledger/gpt.jsonl", {"LEDGER_FILE", "LEDGER_RUN"})
    assert any(line.startswith("tracker ledger (launch_cluster.trackers)") for line in details(made))
    assert planned({}, settings=own).key == made.key, "a launch that is tracked is the same launch"
    document = manifest(made, merge([Layer("job", {"name": "job", "command": ["train.py"], **given})]), {})
    assert json.loads(json.dumps(document))["trackers"][0]["run"] == "LEDGER_RUN"
    assert "trackers" not in manifest(planned({}, settings=own), merge([]), {})
    assert contract(made.spec, own)["trackers"] == [
        {"tracker": "ledger", "run": "LEDGER_RUN", "places": ["{LEDGER_FILE}"]}
    ]
    job = site.job({"trackers": {"ledger": {"project": "gpt", "detail": "all"}}}, settings=own)
    assert job.finish() == 0, job.log()
    run = f"job-{job.plan.key[:16]}-1"
    assert job.seen()["env"]["LEDGER_DETAIL"] == "1" and job.seen()["env"]["LEDGER_RUN"] == run
    assert job.outcome()["trackers"] == [{"tracker": "ledger", "run": run, "place": "/ledger/gpt.jsonl"}]


def test_one_of_the_cluster_may_replace_ours() -> None:
    own = declared(wandb={"variables": {"WANDB_RUN_ID": "{run}"}})
    made = planned({}, settings=own, trackers={"wandb": {}})
    assert [row.name for row in made.variables if row.source == "wandb"] == ["WANDB_RUN_ID"]
    assert "has no option 'project'" in problems({}, own, trackers={"wandb": {"project": "p"}})[0]


def test_the_inventory_tells_records_from_options_for_all_jobs() -> None:
    given = {"trackers": {"ledger": LEDGER, "wandb": {"project": "p"}, "trackio": None}}
    own, below = split_cluster(given)
    assert own == {"trackers": {"ledger": LEDGER}}
    assert below == {"trackers": {"wandb": {"project": "p"}, "trackio": None}}
    assert split_cluster({"trackers": ["wandb"]}) == ({}, {"trackers": ["wandb"]})


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ("ledger", "must be a map of doc, options, variables"),
        ({"options": []}, "variables is required"),
        ({**LEDGER, "place": ["/x"]}, "has no key 'place'; did you mean places?"),
        ({**LEDGER, "options": []}, "variables.LEDGER_FILE names {project}"),
        ({**LEDGER, "options": ["project", "detail", "run"]}, "options has run, which is a fact of the launch"),
        ({**LEDGER, "places": ["{HOME}/x"]}, "not HOME"),
        ({**LEDGER, "places": ["javascript:alert(1)"]}, "places item 1 must be an address, a path"),
        ({**LEDGER, "run": "LEDGER_RUNS"}, "not LEDGER_RUNS; did you mean LEDGER_RUN?"),
        ({"variables": {"A B": "x"}}, "key 'A B' must be the name of an environment variable"),
        ({"variables": {"A": "x\ny"}}, "A must be one line"),
        ({"variables": {"A": {"value": "x"}}}, "A must be text, or a map of text, reason, needs"),
    ],
)
def test_a_wrong_record_is_refused_with_its_name_its_key_and_what_is_allowed(record: Any, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        OWN_TRACKERS.parse({"mine": record})
    assert str(caught.value).startswith("mine ") and part in str(caught.value)


def test_a_variable_that_belongs_to_slurm_or_to_us_is_refused_where_a_job_uses_it() -> None:
    own = declared(mine={"variables": {"SLURM_JOB_ID": "{run}", "RANKZERO_KEY": "x"}})
    assert problems({}, own) == []
    found = problems({}, own, trackers={"mine": {}})
    assert [problem.split(" may not")[0] for problem in found] == [
        "launch_cluster.trackers.mine: SLURM_JOB_ID",
        "launch_cluster.trackers.mine: RANKZERO_KEY",
    ]


def test_the_value_of_an_option_that_nobody_has_is_not_shown() -> None:
    (found,) = problems({}, trackers={"wandb": {"sever": "https://me:hidden@host"}})
    assert "sever" in found and "hidden" not in found


def test_the_name_of_a_run_that_a_record_leaves_out_is_that_of_all_trackers() -> None:
    assert OWN_TRACKERS.parse({"mine": {"variables": {"A": "x"}}})["mine"].run == RUN
