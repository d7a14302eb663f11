# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm option is declared once, in the metadata of its field: everything that must know it does, whichever it is."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import inside_job
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import session
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import reasons
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import (
    BATCH_ONLY,
    BINDS_GPUS,
    DECLARED,
    OF_SESSIONS,
    OWNED_SBATCH,
    PLAIN,
    SBATCH,
    SCHEDULING,
    SRUN,
    STEP_ONLY,
    TRES,
    Declared,
)
from tests.repository import read
from tests.unit.plan.test_inside_job import planned

FIELDS = {info.path: info for info in fields_of(LaunchSpec)}
#: A value of sbatch's own for an option of resources.sbatch.
ANYTHING = "1"


def data_of(path: str, value: Any) -> dict[str, Any]:
    """A job with one value: that of a path such as resources.qos."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return dict(value)


def job(row: Declared) -> dict[str, Any]:
    """A job that gives a field the value of its example."""
    return data_of(row.path, FIELDS[row.path].meta["example"])


def problems(data: dict[str, Any]) -> list[str]:
    try:
        validated(merge([Layer("job", {"name": "job", "command": ["train.py"], **data})]))
    except SpecError as error:
        return error.problems
    return []


def inside(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "launcher": {**data.get("launcher", {}), "inside_job": "77"}}


def of_row(row: Declared) -> str:
    return row.path


every_row = pytest.mark.parametrize("row", DECLARED, ids=of_row)


@every_row
def test_an_option_has_an_example_and_a_default(row: Declared) -> None:
    assert problems(job(row)) == []
    assert FIELDS[row.path].meta["example"] not in (None, row.default), "the tests below see no difference"


@every_row
def test_the_header_says_it_where_the_job_does(row: Declared) -> None:
    lines, before = dict(planned(**job(row)).header), dict(planned().header)
    assert row.sbatch.name in lines and lines[row.sbatch.name] != before.get(row.sbatch.name)


@every_row
def test_sbatch_is_not_given_it_twice(row: Declared) -> None:
    for name in row.names:
        assert name in SBATCH, "else a beginning of the option is passed on"
        by_hand = {"resources": {"sbatch": {name: ANYTHING}}}
        section = {**job(row).get("resources", {}), **by_hand["resources"]}
        (problem,) = problems({**job(row), "resources": section})
        assert problem.startswith(f"resources.sbatch.{name}: ") and row.path in problem
        assert bool(problems(by_hand)) != row.sbatch.either


@pytest.mark.parametrize("row", [row for row in DECLARED if not row.sbatch.either], ids=of_row)
def test_no_beginning_of_it_is_taken_either(row: Declared) -> None:
    beginning = next(
        (name[:end] for name in row.names for end in range(len(name) - 1, 0, -1) if name[:end] not in SBATCH), None
    )
    assert beginning is not None
    (problem,) = problems({"resources": {"sbatch": {beginning: ANYTHING}}})
    assert row.path in problem


@every_row
def test_inside_a_running_job_it_is_left_aside_or_asked_of_the_step_or_refused(row: Declared) -> None:
    given = inside(job(row))
    what = row.sbatch.inside
    refused = problems(given)
    if what not in (inside_job.IGNORED, inside_job.STEP, inside_job.GIVEN):
        (problem,) = refused
        assert problem.startswith(f"{row.path}: ") and "inside job 77" in problem and "{" not in problem
        return
    assert refused == []
    made = planned(**given)
    aside = [line.split()[0] for line in inside_job.ignored(made.spec)]
    assert (row.path in aside) == (what == inside_job.IGNORED)
    # A step's --gres has both.
    option = "gres" if row.sbatch.name == "gpus-per-node" else row.sbatch.name
    changed = dict(made.step).get(option) != dict(planned(**inside({})).step).get(option)
    assert changed == (what == inside_job.STEP)


@pytest.mark.parametrize("row", [row for row in DECLARED if row.sbatch.either], ids=of_row)
def test_what_a_running_job_has_no_use_for_is_refused_by_hand_as_well(row: Declared) -> None:
    for name in row.names:
        # no-kill says nothing of when a job runs: it is left aside.
        assert name in SCHEDULING or row.path == "resources.spares"


@every_row
def test_salloc_asks_for_it_or_has_no_use_for_it(row: Declared) -> None:
    words = session(planned(**job(row))).allocate
    asked = [word for word in words if re.match(rf"--{row.sbatch.name}(=|$)", word)]
    batch_only = row.sbatch.name in BATCH_ONLY
    assert len(asked) == (0 if batch_only else 1)
    assert row not in PLAIN or not batch_only


@every_row
def test_the_reference_names_it(row: Declared) -> None:
    (line,) = [line for line in read("docs/job-spec.md").splitlines() if line.startswith(f"| `{row.path}` ")]
    assert f" `--{row.sbatch.name}` |" in line


@pytest.mark.parametrize("path", sorted({*OWNED_SBATCH.values()} - {""}))
def test_the_schema_knows_what_a_message_recommends(path: str) -> None:
    node = json.loads(read("docs/job-spec.schema.json"))
    for part in path.split("."):
        node = node["properties"][part]
    assert node["description"] == FIELDS[path].meta["doc"]


def remedies() -> list[str]:
    """Every text of reasons.py that names options, as a user reads it."""
    tree = ast.parse(read("plugins/module_utils/slurm/reasons.py"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    codes = [*reasons.REASONS, "QOSMaxCpuPerUserLimit", "AssocGrpLicense", "MaxGRESPerJob", "AssocGrpBilling"]
    return [*(reasons.explain(code).remedy for code in codes), *(text for text in texts if "resources." in text)]


def test_a_remedy_names_what_the_validator_takes() -> None:
    named = sorted({name for text in remedies() for name in re.findall(r"resources\.[a-z_]+(?:\.[a-z-]+)?", text)})
    assert len(named) > 10 and "resources.memory" in named
    for path in named:
        if path.startswith("resources.sbatch."):
            assert problems(data_of("resources.sbatch", {path.split(".")[2]: ANYTHING})) == []
        else:
            assert problems(data_of(path, FIELDS[path].meta["example"])) == []
    assert not [text for text in remedies() if re.search(r"\{[a-z-]+\}", text)]


def test_a_remedy_finds_the_field_that_the_table_declares() -> None:
    declared = {
        name: path
        for path, info in FIELDS.items()
        for name in (*([info.meta["sbatch"].name] if info.meta["sbatch"] else []), *info.meta["instead_of"])
        if path.startswith("resources.")
    }
    tree = ast.parse(read("plugins/module_utils/slurm/reasons.py"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    options = {name for text in texts for name in re.findall(r"\{([a-z-]+)\}", text)}
    assert {"mem", "gpus", "nodelist"} <= options
    assert {name: reasons.path_of(name) for name in options} == {
        name: declared.get(name, f"resources.sbatch.{name}") for name in options
    }


@pytest.mark.parametrize("rule", [BATCH_ONLY, SCHEDULING, STEP_ONLY, OF_SESSIONS, BINDS_GPUS, TRES])
def test_a_rule_is_about_options_that_slurm_has(rule: Collection[str]) -> None:
    assert {*rule} <= SBATCH | SRUN
