# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each value of `launcher.kind`, and everything that has to know it: one that a consumer forgets fails here."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.course.key import key_of
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import explain
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan, manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import details, summary
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import (
    BY_SLURM,
    BY_TORCH,
    OWN_LAUNCHERS,
    PLACES,
    RANK,
    STARTERS,
    WAYS,
    Starter,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME_FILES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from tests.repository import files, read
from tests.unit.plan.containers import APPTAINER, PYXIS, planned, problems

NUMA = {"per": "rank", "command": ["numactl", "--cpunodebind={node}", "{rank}"]}
SITE = {
    "per": "node",
    "doc": "the site's own",
    "command": ["{python}", "-m", "site_run", "-n{ranks_per_node}", "{rendezvous}", "--", "{rank}"],
    "rendezvous": {"static": ["--at={master_addr}:{master_port}"], "c10d": ["--id={id}", "--all"]},
    "ranks": {"NODE_RANK": "SITE_NODE"},
    "packages": ["site_run"],
}

every_launcher = pytest.mark.parametrize("starter", STARTERS, ids=lambda starter: starter.kind)


@every_launcher
def test_the_pages_and_the_schema_know_it(starter: Starter) -> None:
    schema = json.loads(read("docs/job-spec.schema.json"))["properties"]["launcher"]["properties"]
    assert starter.kind in schema["kind"]["examples"]
    assert set(schema["rendezvous"]["enum"]) == {*WAYS, None}
    assert len(starter.rendezvous) < 2 or set(starter.rendezvous) <= set(WAYS)
    assert f"`{starter.kind}`: {starter.doc}." in read("docs/job-spec.md")


@every_launcher
def test_its_tasks_start_its_script_and_that_becomes_ranks(starter: Starter) -> None:
    nodes = 1 if starter.one_node else 2
    ranks = 1 if starter.once else 3
    given: dict[str, Any] = {
        "launcher": {"kind": starter.kind, "ranks_per_node": ranks},
        "resources": {"nodes": nodes, "cpus_per_rank": 2},
    }
    assert problems({}, **given) == []
    # One that starts the ranks of other nodes itself cannot put them into a container.
    for container in ({},) if starter.per == "job" and not starter.once else ({}, APPTAINER):
        plan = planned(container, **given)
        shape, text = plan.topology, render_script(plan)
        assert (shape.world_size, shape.cpus_per_node) == (ranks * (1 if starter.once else nodes), 2 * ranks)
        assert shape.tasks_per_node == {"rank": 3, "node": 1, "job": 1}[starter.per]
        # A rank keeps to its cores; the one task of a node has all of them.
        assert dict(plan.step)["cpu-bind"] == ("cores" if starter.per == "rank" else "none")
        assert f'"$RANKZERO_RUNTIME/{starter.script}" ' in text
        assert f"by {starter.shown};" in " ".join(summary(plan))
    assert starter.script in RUNTIME_FILES
    assert list(starter.command).count(RANK) == (starter.script != "rank/rank.sh")


@every_launcher
def test_the_preflight_looks_for_each_python_package_that_its_script_starts(starter: Starter) -> None:
    """A command that runs `python -m NAME` needs the package NAME. Its row says so, and the preflight is told."""
    started = re.findall(r"\{python\} -m (\w+)", " ".join(starter.command))
    assert set(started) <= set(starter.packages)
    required = [f"?{name}:{starter.kind}" for name in starter.packages]

    def imports(container: dict[str, Any], *own: str) -> list[str]:
        given = {"launcher": {"kind": starter.kind}, "preflight": {"imports": list(own)}}
        return str(dict(planned(container, **given).exports)["RANKZERO_PREFLIGHT_IMPORTS"]).split()

    assert imports({}) == required
    assert imports({}, "numpy", *starter.packages) == ["numpy", *starter.packages], "imported anyway"
    if starter.per != "job":
        assert imports(APPTAINER) == required
        assert imports(PYXIS) == [], "the preflight does not see this container"


@every_launcher
def test_every_way_to_meet_that_it_knows_is_taken_and_no_other(starter: Starter) -> None:
    resources = {"nodes": 1 if starter.one_node else 2}
    for rendezvous in ("static", "c10d"):
        launcher = {"kind": starter.kind, "rendezvous": rendezvous}
        known = rendezvous in starter.rendezvous or rendezvous == WAYS[0]
        assert (problems({}, launcher=launcher, resources=resources) == []) == known, rendezvous
        if known:
            shape = planned({}, launcher=launcher, resources=resources).topology
            assert shape.rendezvous in (rendezvous, *list(starter.rendezvous)[:1], None)
            assert (shape.rendezvous is None) == (not starter.rendezvous)


@every_launcher
def test_one_that_has_a_single_node_refuses_two(starter: Starter) -> None:
    found = problems({}, launcher={"kind": starter.kind}, resources={"nodes": 2})
    assert (found == []) == (not starter.one_node)
    assert all(problem.startswith("launcher.kind") for problem in found)


def test_scripts_know_only_whose_variables_name_a_rank() -> None:
    """`srun` and `torchrun` are these two there, and no other kind is compared with anywhere."""
    assert {starter.names for starter in STARTERS} == {"srun", "torchrun"}
    # `none` is a container runtime and more.
    kinds = "|".join(starter.kind for starter in STARTERS if not starter.once)
    python = re.compile(rf"""(?:==|!=|\\bin) *[({{\\[]?["'](?:{kinds})["']""")
    offenders = [
        f"{path}:{number}"
        for path in files("plugins/")
        if path.endswith((".py", ".j2")) and not path.startswith("plugins/module_utils/lab/")
        for number, line in enumerate(read(path).splitlines(), 1)
        if python.search(line)
    ]
    assert offenders == []


def declared(**launchers: Any) -> ClusterSettings:
    return ClusterSettings(launchers=OWN_LAUNCHERS.parse(launchers))


def test_a_launcher_of_the_cluster_is_planned_as_ours_are() -> None:
    launcher = {"kind": "site", "rendezvous": "c10d", "ranks_per_node": 3}
    given: dict[str, Any] = {"launcher": launcher, "resources": {"nodes": 2}}
    assert "launcher.kind: must be one of srun, torchrun" in problems({}, **given)[0]
    assert problems({}, declared(site=SITE), **given) == []
    made = planned({}, settings=declared(site=SITE), **given)
    assert made.topology.tasks_per_node == 1
    text = render_script(made)
    start = re.search(r'rank/node.sh" \\\n +(.*) \\\n', text)
    assert start is not None
    assert shlex.split(start[1]) == [
        *("8", "{RANKZERO_PYTHON}", "-m", "site_run", "-n{RANKZERO_RANKS_PER_NODE}"),
        *("--id={RANKZERO_RENDEZVOUS_ID}", "--all", "--", "{rank}"),
    ]
    assert "export RANKZERO_RANK_NAMES=NODE_RANK=SITE_NODE\n" in text
    assert dict(made.exports)["RANKZERO_PREFLIGHT_IMPORTS"] == "?site_run:site"
    assert any(line.startswith("launcher site (launch_cluster.launchers)") for line in details(made))
    told = next(row for row in explain.rows(made, merge([])) if row["name"] == "NODE_RANK")
    assert "SITE_NODE" in told["reason"]


def test_a_launcher_of_the_cluster_is_in_the_key_and_in_the_record() -> None:
    given: dict[str, Any] = {"launcher": {"kind": "site"}}

    def made(record: dict[str, Any]) -> Plan:
        return planned({}, settings=declared(site=record), **given)

    first = made(SITE)
    assert made({**SITE, "doc": "other words for people"}).key == first.key
    assert made({**SITE, "command": [*SITE["command"][:-1], "-v", "{rank}"]}).key != first.key
    assert planned({}, settings=declared(other=SITE)).key == planned({}).key, "one that the job does not use"
    document = manifest(first, merge([Layer("job", {"name": "job", "command": ["train.py"], **given})]), {})
    document = json.loads(json.dumps(document))
    assert document["launcher"]["command"] == SITE["command"]
    # The record alone gives the key again, and another command another key.
    assert key_of(document) == first.key
    document["launcher"]["command"].append("-v")
    assert key_of(document) != first.key


def test_a_launcher_of_the_cluster_may_replace_ours() -> None:
    own = declared(torchrun={"per": "node", "command": ["site-run", "{rank}"], "one_node": True})
    given: dict[str, Any] = {"launcher": {"kind": "torchrun"}}
    assert planned({}, settings=own, **given).topology.words == ("site-run", "{rank}")
    assert planned({}, settings=own, **given).key != planned({}, **given).key
    found = problems({}, own, resources={"nodes": 2}, **given)
    assert found and "torchrun runs on one node, not on 2" in found[0]


def test_one_that_starts_the_ranks_of_all_nodes_gets_one_task() -> None:
    own = declared(mpi={"per": "job", "command": ["mpirun", "-n", "{world_size}", "{rank}"]})
    given: dict[str, Any] = {"launcher": {"kind": "mpi", "ranks_per_node": 4}, "resources": {"nodes": 3}}
    made = planned({}, settings=own, **given)
    step = dict(made.step)
    assert (step["nodes"], step["ntasks"], step["ntasks-per-node"], made.topology.world_size) == ("1", "1", "1", 12)
    assert dict(made.header)["nodes"] == "3"
    assert '--nodelist="${RANKZERO_NODELIST%%,*}"' in render_script(made)
    (found,) = problems(APPTAINER, own, **given)
    assert found.startswith("launcher.kind: mpi ") and "container.runtime apptainer" in found


def test_without_a_launcher_the_program_is_one_rank_on_the_first_node() -> None:
    resources = {"nodes": 3, "gpus_per_node": 8, "cpus_per_rank": 4}
    given: dict[str, Any] = {"launcher": {"kind": "none"}, "resources": resources}
    assert problems({}, **given) == []
    made = planned({}, **given)
    step, text = dict(made.step), render_script(made)
    assert (step["nodes"], step["ntasks"], step["cpus-per-task"]) == ("1", "1", "4")
    assert (dict(made.header)["nodes"], dict(made.header)["gpus-per-node"]) == ("3", "8")
    assert '--nodelist="${RANKZERO_NODELIST%%,*}"' in text
    assert all(f"export RANKZERO_{name}=1\n" in text for name in ("WORLD_SIZE", "RANKS_PER_NODE"))
    assert "1 rank by none" in " ".join(summary(made))
    (found,) = problems({}, **{**given, "launcher": {"kind": "none", "ranks_per_node": 8}})
    assert found.startswith("launcher.ranks_per_node: 8") and "none" in found
    with pytest.raises(Invalid, match="none is the program without a launcher"):
        declared(none=NUMA)


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ("numactl", "must be a map of doc, per, command"),
        ({"command": ["{rank}"]}, "per is required"),
        ({"per": "node"}, "command is required"),
        ({**NUMA, "per": "nodes"}, "per must be one of rank, node, job; not 'nodes'; did you mean node?"),
        ({**NUMA, "comand": []}, "has no key 'comand'; did you mean command?"),
        ({**NUMA, "command": "numactl {rank}"}, "command must be a list, not 'numactl {rank}'"),
        ({**NUMA, "command": ["numactl"]}, "command must have the word {rank} once"),
        ({**NUMA, "command": ["{rank}", "{rank}"]}, "command must have the word {rank} once"),
        ({**NUMA, "command": ["--x={rank}", "{rank}"]}, "command item 1 has {rank} within '--x={rank}'"),
        ({**NUMA, "command": ["{node_rank}", "{rank}"]}, "has the unknown {node_rank}; did you mean"),
        (
            {**NUMA, "command": ["{rendezvous}", "{rank}"]},
            "{rendezvous} in command and the map rendezvous need each other",
        ),
        ({**NUMA, "rendezvous": {"static": ["-s"]}}, "{rendezvous} in command and the map rendezvous need each other"),
        ({**SITE, "rendezvous": {"etcd": ["-s"]}}, "rendezvous key 'etcd' must be one of static, c10d"),
        ({**NUMA, "ranks": {"RANKS": "X"}}, "ranks key 'RANKS' must be one of RANK, LOCAL_RANK"),
        ({**NUMA, "ranks": {"RANK": "X; id"}}, "ranks RANK must be the name of an environment variable"),
    ],
)
def test_a_wrong_record_is_refused_with_its_name_its_key_and_what_is_allowed(record: Any, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        OWN_LAUNCHERS.parse({"mine": record})
    assert str(caught.value).startswith("mine ") and part in str(caught.value)


def test_the_ranks_start_takes_each_name_from_where_the_tables_say() -> None:
    """What a launcher must export is declared once for people and planning, and once in bash: they are the same."""
    text = read("plugins/runtime/rank/rank.sh").replace("\\\n", "")
    tables = [
        dict(pair.split("=") for pair in names.split())
        for names in re.findall(r'^    rankzero_names="?([A-Z_= ]+)"?$', text, re.M)
    ]
    assert tables[0] == BY_SLURM
    assert {**{name: name for name in BY_SLURM}, **tables[1]} == BY_TORCH
    (asked,) = re.findall(r"^for rankzero_told in ([A-Z_ ]+); do$", text, re.M)
    assert asked.split() == list(BY_SLURM)


def test_every_place_of_a_word_is_a_variable_that_the_script_or_slurm_sets() -> None:
    text = render_script(planned({}, resources={"nodes": 2}, launcher={"kind": "torchrun"}))
    runtime = "".join(read(path) for path in files("plugins/runtime/") if path.endswith((".py", ".sh")))
    for place, variable in PLACES.items():
        assert variable.startswith("SLURM_") or f"export {variable}=" in text + runtime or f'"{variable}"' in runtime, (
            place
        )
