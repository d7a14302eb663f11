# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each value of `launcher.kind`, and everything that has to know it: one that a consumer forgets fails here."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS, Starter
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME_FILES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from tests.repository import files, read
from tests.unit.plan.containers import APPTAINER, PYXIS, planned, problems

every_launcher = pytest.mark.parametrize("starter", STARTERS, ids=lambda starter: starter.kind)


@every_launcher
def test_the_pages_and_the_schema_know_it(starter: Starter) -> None:
    schema = json.loads(read("docs/job-spec.schema.json"))["properties"]["launcher"]["properties"]
    assert starter.kind in schema["kind"]["enum"]
    assert set(starter.rendezvous) <= set(schema["rendezvous"]["enum"])
    assert f"`{starter.kind}`: {starter.doc}." in read("docs/job-spec.md")


@every_launcher
def test_its_tasks_start_its_script_and_that_becomes_ranks(starter: Starter) -> None:
    nodes = 1 if starter.one_node else 2
    given: dict[str, Any] = {
        "launcher": {"kind": starter.kind, "ranks_per_node": 3},
        "resources": {"nodes": nodes, "cpus_per_rank": 2},
    }
    assert problems({}, **given) == []
    for container in ({}, APPTAINER):
        plan = planned(container, **given)
        shape, text = plan.topology, render_script(plan)
        assert (shape.world_size, shape.cpus_per_node) == (3 * nodes, 6)
        assert shape.tasks_per_node == {"rank": 3, "node": 1}[starter.per]
        # A rank keeps to its cores; the one task of a node has all of them.
        assert dict(plan.step)["cpu-bind"] == {"rank": "cores", "node": "none"}[starter.per]
        assert f'"$RANKZERO_RUNTIME/{starter.script}" ' in text
        assert f"by {starter.shown};" in " ".join(summary(plan))
    assert starter.script in RUNTIME_FILES
    if starter.script != "rank/rank.sh":
        assert '/bin/bash "$RANKZERO_RUNTIME/rank/rank.sh" "$@"' in read(f"plugins/runtime/{starter.script}")


@every_launcher
def test_the_preflight_looks_for_each_python_package_that_its_script_starts(starter: Starter) -> None:
    """A script that runs `python -m NAME` needs the package NAME. Its row says so, and the preflight is told."""
    started = re.findall(r'"\$RANKZERO_PYTHON" -m (\w+)', read(f"plugins/runtime/{starter.script}"))
    assert set(started) <= set(starter.packages)
    required = [f"?{name}:{starter.kind}" for name in starter.packages]

    def imports(container: dict[str, Any], *own: str) -> list[str]:
        given = {"launcher": {"kind": starter.kind}, "preflight": {"imports": list(own)}}
        return str(dict(planned(container, **given).exports)["RANKZERO_PREFLIGHT_IMPORTS"]).split()

    assert imports({}) == imports(APPTAINER) == required
    assert imports({}, "numpy", *starter.packages) == ["numpy", *starter.packages], "imported anyway"
    assert imports(PYXIS) == [], "the preflight does not see this container"


@every_launcher
def test_every_way_to_meet_that_it_knows_is_taken_and_no_other(starter: Starter) -> None:
    resources = {"nodes": 1 if starter.one_node else 2}
    for rendezvous in ("static", "c10d"):
        launcher = {"kind": starter.kind, "rendezvous": rendezvous}
        known = rendezvous in starter.rendezvous or rendezvous == "static"
        assert (problems({}, launcher=launcher, resources=resources) == []) == known, rendezvous
        if known:
            meets = rendezvous if starter.rendezvous else starter.meeting
            assert planned({}, launcher=launcher, resources=resources).topology.rendezvous == meets


@every_launcher
def test_one_that_has_a_single_node_refuses_two(starter: Starter) -> None:
    found = problems({}, launcher={"kind": starter.kind}, resources={"nodes": 2})
    assert (found == []) == (not starter.one_node)
    assert all(problem.startswith("launcher.kind") for problem in found)


def test_scripts_know_only_whose_variables_name_a_rank() -> None:
    """`srun` and `torchrun` are these two there, and no other kind is compared with anywhere."""
    assert {starter.names for starter in STARTERS} == {"srun", "torchrun"}
    kinds = "|".join(starter.kind for starter in STARTERS)
    python = re.compile(rf"""(?:==|!=|\\bin) *[({{\\[]?["'](?:{kinds})["']""")
    offenders = [
        f"{path}:{number}"
        for path in files("plugins/")
        if path.endswith((".py", ".j2")) and not path.startswith("plugins/module_utils/lab/")
        for number, line in enumerate(read(path).splitlines(), 1)
        if python.search(line)
    ]
    assert offenders == []
