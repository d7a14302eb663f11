# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology, environment policy, header and step of a launch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import digest_token, with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan, contract, manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.plans import plan

SHELL = {"shell": "a\nb"}


def planned(environment: bool = False, **data: Any) -> Plan:
    given = {"name": "job", "command": ["train.py", "-x"], **data}
    if "shell" in data:
        del given["command"]
    merged = merge([Layer("job.yml", given, {"env.NCCL_DEBUG": 9})])
    return plan(
        validated(merged),
        merged,
        code_key="c0de",
        environment_key="e5e5" if environment else None,
        runtime_key="4444",
        state_root="/state",
        store_root="/store",
    )


def header(**data: Any) -> dict[str, str | bool]:
    return dict(planned(**data).header)


def step(**data: Any) -> dict[str, str | bool]:
    return dict(planned(**data).step)


# --- topology


@pytest.mark.parametrize(
    ("data", "ranks", "tasks", "cpus_per_task", "world"),
    [
        ({}, 1, 1, 1, 1),
        ({"resources": {"nodes": 3, "cpus_per_rank": 4}, "launcher": {"ranks_per_node": 2}}, 2, 2, 4, 6),
        ({"resources": {"nodes": 2, "gpus_per_node": 8, "cpus_per_rank": 12}}, 8, 8, 12, 16),
        (
            {"resources": {"nodes": 2, "gpus_per_node": 8, "cpus_per_rank": 12}, "launcher": {"kind": "torchrun"}},
            *(8, 1, 96, 16),
        ),
        ({"resources": {"nodes": 4}, "launcher": {"kind": "torchrun", "ranks_per_node": 2}}, 2, 1, 2, 8),
        # A process that uses all GPUs of its node.
        (
            {"resources": {"nodes": 2, "gpus_per_node": 8, "cpus_per_rank": 96}, "launcher": {"gpus": "node"}},
            1,
            1,
            96,
            2,
        ),
        ({"resources": {"gpus_per_node": 8}, "launcher": {"gpus": "node", "ranks_per_node": 2}}, 2, 2, 1, 2),
    ],
)
def test_topology(data: dict[str, Any], ranks: int, tasks: int, cpus_per_task: int, world: int) -> None:
    made = planned(**data)
    shape = made.topology
    assert (shape.ranks_per_node, shape.tasks_per_node, shape.cpus_per_task) == (ranks, tasks, cpus_per_task)
    assert (shape.world_size, shape.tasks) == (world, shape.nodes * tasks)
    # The same CPUs of a node, whoever starts the ranks.
    assert shape.cpus_per_node == tasks * cpus_per_task == ranks * (made.spec.resources.cpus_per_rank or 1)
    assert dict(made.header)["ntasks-per-node"] == dict(made.step)["ntasks-per-node"] == str(tasks)
    assert dict(made.header)["cpus-per-task"] == dict(made.step)["cpus-per-task"] == str(cpus_per_task)
    assert dict(made.step)["ntasks"] == str(shape.tasks)


@pytest.mark.parametrize("kind", ["srun", "torchrun"])
def test_ranks_with_whole_nodes_share_the_cpus_unless_the_job_names_a_number(kind: str) -> None:
    launcher = {"kind": kind, "ranks_per_node": 4}
    made = planned(resources={"exclusive": True}, launcher=launcher, env={"MKL_NUM_THREADS": "9"})
    assert "cpus-per-task" not in dict(made.header)
    assert dict(made.step)["cpus-per-task"] == dict(made.probe)["cpus-per-task"] == "auto"
    assert {variable.name: variable.value for variable in made.variables}["OMP_NUM_THREADS"] == "auto"
    assert "a node: all its CPUs" in " ".join(summary(made))
    for resources in ({"exclusive": True, "cpus_per_rank": 2}, {"cpus_per_rank": "auto"}):
        named = planned(resources=resources, launcher=launcher)
        assert "auto" not in dict(named.step).values() and "cpus-per-task" in dict(named.header)


# --- header and step


def test_the_header_of_a_minimal_job() -> None:
    made = planned()
    run = made.run_dir
    assert made.header == (
        ("job-name", f"job.{made.key[:16]}.{made.token}"),
        ("nodes", "1"),
        ("ntasks-per-node", "1"),
        ("cpus-per-task", "1"),
        ("time", "01:00:00"),
        ("dependency", "singleton"),
        ("comment", f"rankzero.slurm job.{made.key[:16]}.{made.token}"),
        ("output", f"{run}/logs/job.%j.log"),
        ("open-mode", "append"),
        ("chdir", run),
        ("export", "ALL"),
    )


def test_the_order_of_a_full_header() -> None:
    resources = {
        "nodes": 2,
        "gpus_per_node": 8,
        "gpu_type": "h100",
        "cpus_per_rank": 12,
        "gres": ["lscratch:500"],
        "memory": 0,
        "partition": "batch",
        "account": "ml",
        "qos": "high",
        "constraint": "ib&nvme",
        "reservation": "course",
        "exclude": ["node01", "node[03-05]"],
        "exclusive": True,
        "dependency": "afterok:1",
        "sbatch": {"signal": "B:TERM@120", "mail-type": "END", "requeue": True, "hold": False},
    }
    made = planned(resources=resources)
    names = " ".join(name for name, _value in made.header)
    assert names == (
        "job-name nodes ntasks-per-node cpus-per-task time gpus-per-node gres mem partition account qos constraint "
        "reservation exclude exclusive dependency comment output open-mode chdir export mail-type requeue signal"
    )
    found = dict(made.header)
    assert (found["gpus-per-node"], found["gres"]) == ("h100:8", "lscratch:500")
    assert (found["mem"], found["exclude"]) == ("0", "node01,node[03-05]")
    assert (found["exclusive"], found["requeue"]) == (True, True)
    assert header(resources={"gpus_per_node": 4})["gpus-per-node"] == "4"


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, "singleton"),
        ("afterok:1", "afterok:1,singleton"),
        ("afterok:1:2,afterany:3", "afterok:1:2,afterany:3,singleton"),
        # Any one of several may hold: `singleton` would be one more way out, not one more condition.
        ("afterok:1?afterok:2", "afterok:1?afterok:2"),
        ("singleton", "singleton"),
        ("afterok:1,singleton", "afterok:1,singleton"),
    ],
)
def test_singleton_is_added_where_all_of_a_dependency_must_hold(own: str | None, expected: str) -> None:
    assert header(resources={"dependency": own})["dependency"] == expected


def test_a_comment_of_the_job_replaces_ours() -> None:
    found = [value for name, value in planned(resources={"sbatch": {"comment": "mine"}}).header if name == "comment"]
    assert found == ["mine"]


def test_the_step_repeats_its_size_and_takes_further_options() -> None:
    made = planned(resources={"nodes": 2}, launcher={"srun": {"mpi": "pmix", "label": True, "overlap": False}})
    assert made.step == (
        ("nodes", "2"),
        ("ntasks", "2"),
        ("ntasks-per-node", "1"),
        ("cpus-per-task", "1"),
        ("kill-on-bad-exit", "1"),
        ("wait", "3600"),
        ("export", "ALL"),
        ("cpu-bind", "cores"),
        ("label", True),
        ("mpi", "pmix"),
    )


def test_srun_has_the_limit_of_the_job_spec_unless_its_own_is_given() -> None:
    for launcher, wait in (({"wait": 0}, "0"), ({"wait": 60}, "60"), ({"wait": 60, "srun": {"wait": 5}}, "5")):
        assert dict(planned(launcher=launcher).step)["wait"] == wait


def test_the_preflight_is_placed_and_bound_as_the_ranks_will_be() -> None:
    """What it reports of CPUs and GPUs is what each rank gets."""
    ranks = {"ranks_per_node": 4}
    resources = {"nodes": 2, "cpus_per_rank": 3}
    patient = {"kill-on-bad-exit": "0", "wait": "0", "no-kill": True}
    size = {"nodes": "2", "ntasks": "8", "ntasks-per-node": "4", "cpus-per-task": "3", **patient}
    assert dict(planned(resources=resources, launcher=ranks).probe) == {**size, "cpu-bind": "cores"}
    own = {"cpu-bind": "rank_ldom", "gpu-bind": "none", "gpus-per-task": "1", "mpi": "pmix", "hint": False}
    made = planned(resources=resources, launcher={**ranks, "srun": own})
    assert dict(made.probe) == {**size, "cpu-bind": "rank_ldom", "gpu-bind": "none", "gpus-per-task": "1"}
    alone = dict(planned(resources=resources, launcher={**ranks, "kind": "torchrun"}).probe)
    size = {"nodes": "2", "ntasks": "2", "ntasks-per-node": "1", "cpus-per-task": "12", **patient}
    assert alone == {**size, "cpu-bind": "none"}


def test_each_rank_of_srun_keeps_to_its_cores() -> None:
    assert step(launcher={"kind": "srun"})["cpu-bind"] == "cores"
    assert step(launcher={"kind": "srun", "srun": {"cpu-bind": "none"}})["cpu-bind"] == "none"


def test_ranks_of_torchrun_share_the_cpus_of_their_node() -> None:
    assert step(launcher={"kind": "torchrun"})["cpu-bind"] == "none"
    assert step(launcher={"kind": "torchrun", "srun": {"cpu-bind": "sockets"}})["cpu-bind"] == "sockets"


# --- argv


@pytest.mark.parametrize(
    ("data", "argv"),
    [
        ({"command": ["train.py", "--x"]}, ("python3", "train.py", "--x")),
        ({"command": ["./bin/run", "a.py"]}, ("./bin/run", "a.py")),
        ({"command": ["python", "-m", "x"]}, ("python", "-m", "x")),
        ({"shell": "a | b"}, ("/bin/bash", "-o", "pipefail", "-c", "a | b")),
        ({"command": ["train.py"], "environment": True}, ("/store/environments/e5e5/bin/python", "train.py")),
    ],
)
def test_argv(data: dict[str, Any], argv: tuple[str, ...]) -> None:
    assert planned(**data).argv == argv


def test_places() -> None:
    made = planned(environment=True)
    short = made.key[:16]
    assert made.refs == (
        Ref("code", "c0de", "/store/code/c0de"),
        Ref("environment", "e5e5", "/store/environments/e5e5"),
    )
    assert made.ref("environment") == made.refs[1]
    assert planned().ref("environment") is None
    assert made.runs_dir() == f"/state/runs/job/{short}"
    assert made.run_dir == f"/state/runs/job/{short}/{made.token}"
    assert made.runtime_dir == "/state/runtime/4444"


@pytest.mark.parametrize("mode", ["venv", "sealed"])
def test_the_nodes_compare_what_is_one_file_and_they_copy_or_mount(mode: str) -> None:
    packed, folder = ({"path": f"/store/datasets/{name * 64}/data", "packed": name == "a"} for name in "ab")
    data = {"environment": {"mode": mode}, "data": {"images": packed, "text": folder}}
    merged = merge([Layer("job.yml", {"name": "job", "command": ["train.py"], **data})])
    given = {"code_key": "c0de", "environment_key": "e5e5", "packages_key": "9ac5", "runtime_key": "4444"}
    made = plan(validated(merged), merged, **given, state_root="/state", store_root="/store")
    assert {ref.kind: ref.sha256 for ref in made.refs if ref.sha256} == {
        "packages": digest_token("9ac5"),
        "dataset": digest_token("a" * 64),
        **({"environment": digest_token("e5e5")} if mode == "sealed" else {}),
    }


def test_the_generation_takes_the_place_of_the_token_everywhere() -> None:
    made = planned()
    text = json.dumps([made.run_dir, dict(made.header)])
    found = with_generation(text, made.token, 12)
    assert made.token not in found
    assert found.count(".12") == text.count("." + made.token)


# --- environment policy


def variables(**data: Any) -> dict[str, tuple[str, str, str]]:
    return {v.name: (v.value, v.source, v.set_by) for v in planned(**data).variables}


def test_every_variable_has_a_reason() -> None:
    made = planned(environment=True, seed=1, debug=True, env={"A": "b"})
    assert all(variable.reason and variable.source and variable.set_by for variable in made.variables)
    assert len({variable.name for variable in made.variables}) == len(made.variables)


def test_what_every_job_gets() -> None:
    assert variables(resources={"cpus_per_rank": 12}) == {
        "PYTHONUNBUFFERED": ("1", "logs", "policy"),
        "PYTHONFAULTHANDLER": ("1", "crashes", "policy"),
        "PYTHONDONTWRITEBYTECODE": ("1", "environments", "policy"),
        "OMP_NUM_THREADS": ("12", "threads", "policy"),
    }


def test_what_some_jobs_get() -> None:
    added = variables(environment=True, seed=0, debug=True)
    assert added["VIRTUAL_ENV"] == ("/store/environments/e5e5", "environment", "policy")
    assert added["RANKZERO_SEED"] == ("0", "seed", "policy")
    assert {name for name, value in added.items() if value[1] == "debug"} == {
        "NCCL_DEBUG",
        "NCCL_DEBUG_SUBSYS",
        "TORCH_DISTRIBUTED_DEBUG",
        "CUDA_LAUNCH_BLOCKING",
    }


def test_ranks_with_gpus_log_the_warnings_of_nccl_unless_something_else_is_asked_for() -> None:
    gpus = {"gpus_per_node": 8}
    assert variables(resources=gpus)["NCCL_DEBUG"] == ("WARN", "logs", "policy")
    assert variables(resources=gpus, debug=True)["NCCL_DEBUG"][0] == "INFO"
    assert variables(resources=gpus, env={"NCCL_DEBUG": "VERSION"})["NCCL_DEBUG"][0] == "VERSION"


def test_a_jobs_own_value_replaces_the_policys_and_keeps_its_place() -> None:
    plain, own = variables(debug=True), variables(debug=True, env={"NCCL_DEBUG": "TRACE", "OWN": "x"})
    assert own["NCCL_DEBUG"] == ("TRACE", "env", "job.yml:9")
    assert own["OWN"] == ("x", "env", "job.yml")
    assert list(own) == [*plain, "OWN"]


# --- contract, manifest, summary


def test_contract() -> None:
    assert contract(planned().spec) == {"artifact": None}
    made = planned(artifact={"require": {"loss": {"lt": "4"}}, "then": "end"})
    assert contract(made.spec) == {
        "artifact": {
            "path": "result.json",
            "format": "json",
            "complete": None,
            "require": {"loss": {"lt": 4}},
            "then": "end",
            "grace": 0,
            "together": "reported",
            "role": None,
        }
    }


def test_manifest_says_who_set_what_and_holds_no_secret() -> None:
    data = {"name": "job", "command": ["x"], "secrets": {"T": {"from_env": "T"}}, "env": {"A": "1"}}
    merged = merge([Layer("job.yml", data, {"env.A": 3})])
    made = plan(
        validated(merged),
        merged,
        code_key="c",
        environment_key=None,
        runtime_key="r",
        state_root="/s",
        store_root="/t",
    )
    found = manifest(made, merged, {"collection": "0.1.0"})
    assert found["spec"] == data
    assert found["origins"]["env.A"] == "job.yml:3"
    assert (found["rankzero_launch"], found["collection"], found["world_size"]) == (1, "0.1.0", 1)
    assert {v["name"]: v["value"] for v in found["variables"]}["A"] == "1"
    assert "T" not in {v["name"] for v in found["variables"]}
    json.dumps(found, allow_nan=False)


def test_summary() -> None:
    made = planned(
        resources={"nodes": 2, "gpus_per_node": 8, "gpu_type": "h100", "cpus_per_rank": 4},
        artifact={"require": {"loss": {"lt": 4}, "steps": {}}, "then": "end"},
    )
    assert summary(made) == [
        f"job · key {made.key[:16]}",
        "runs    train.py -x",
        "on      2 nodes x 8 ranks = 16 ranks by srun; a node: 32 CPUs, 8 h100s; partition (default)",
        "time    at most 01:00:00",
        "in      the nodes' own Python",
        "success result.json with loss lt 4, steps; then the job ends itself",
    ]
    assert summary(planned(**SHELL))[1] == "runs    a b"
    assert summary(planned())[-1].startswith("success exit code 0; no artifact")
    alone = "on      1 node x 1 rank = 1 rank by srun; a node: 1 CPU; partition (default)"
    assert summary(planned())[2] == alone
    around = summary(planned(setup={"before_ranks": ["a", "b"], "after_ranks": ["c"]}))
    assert any("2 lines before the ranks on each node, 1 line after the ranks on each node" in row for row in around)
