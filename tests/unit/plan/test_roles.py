# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several programs in one launch: how roles are read, which are refused, and what is planned of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import plan as real
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.node_copies import stages
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.changes import spec_changes
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.roles import RoleStep
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.allowances import images_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import OWN_LAUNCHERS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import override_layer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import container_needs
from tests.plans import plan

PYXIS = {"runtime": "pyxis", "image": "/images/vllm.sqsh"}
JOB: dict[str, Any] = {
    "name": "grpo",
    "env": {"ALL": "1"},
    "resources": {"time": "04:00:00"},
    "roles": {
        "rollout": {
            "nodes": 2,
            "launcher": {"kind": "srun", "ranks_per_node": 3},
            "resources": {"cpus_per_rank": 2},
            "command": ["serve", "--port", "{port}"],
            "ready": {"http": "/health", "within": "00:15:00"},
            "on_exit": "restart",
            "env": {"OF_ROLLOUT": "2"},
        },
        "trainer": {
            "nodes": 4,
            "launcher": {"kind": "torchrun", "ranks_per_node": 4},
            "env": {"OF_TRAINER": "3"},
            "after_ready": ["rollout"],
            "command": ["train.py", "{rollout.urls}"],
        },
    },
    "artifact": {"path": "result.json"},
}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The job with other values at dotted paths; None removes one."""
    job = copy.deepcopy(JOB)
    for path, value in changes:
        *parents, leaf = path.split(".")
        target = job
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is None:
            del target[leaf]
        else:
            target[leaf] = value
    return job


def read(job: dict[str, Any], **overrides: Any) -> LaunchSpec:
    layer, problems = override_layer(overrides)
    return validated(merge([Layer("job.yml", job), Layer("overrides", layer)]), problems)


def planned(job: dict[str, Any]) -> real.Plan:
    merged = merge([Layer("job.yml", job)])
    return plan(validated(merged), merged, code_key="c", runtime_key="r", state_root="/s", store_root="/t")


def steps(job: dict[str, Any]) -> dict[str, RoleStep]:
    return {step.name: step for step in planned(job).roles}


def test_a_role_is_a_job_of_its_own_over_what_the_job_says_for_all() -> None:
    spec = read(JOB)
    # The one that decides comes first, whatever the order in the file.
    assert [*spec.roles] == ["trainer", "rollout"]
    trainer, rollout = (role.spec for role in spec.roles.values())
    assert (spec.command, spec.resources.nodes) == (trainer.command, 4)
    assert trainer.env == {"ALL": "1", "OF_TRAINER": "3"} and rollout.env == {"ALL": "1", "OF_ROLLOUT": "2"}
    assert rollout.resources.time == "04:00:00" and rollout.artifact is None
    keys = spec.roles["rollout"].keys
    assert keys.ready is not None
    assert (keys.ready.way, keys.ready.value, keys.ready.seconds, keys.on_exit) == ("http", "/health", 900, "restart")


@pytest.mark.parametrize("nodes", ["trainer=8,rollout=1", {"trainer": 8, "rollout": "1"}])
def test_the_nodes_of_each_role_can_be_overridden(nodes: Any) -> None:
    assert [role.spec.resources.nodes for role in read(JOB, nodes=nodes).roles.values()] == [8, 1]


def test_the_job_asks_for_the_nodes_of_all_and_for_what_the_largest_role_needs_of_one() -> None:
    made = planned(
        changed(("roles.rollout.resources.gpus_per_node", 3), ("roles.rollout.launcher.ranks_per_node", None))
    )
    header = dict(made.header)
    assert (header["nodes"], header["ntasks-per-node"], header["cpus-per-task"]) == ("6", "1", "6")
    assert header["gpus-per-node"] == "3"
    assert dict(made.probe)["nodes"] == "6"


def beside(nodes: int = 2, **more: Any) -> dict[str, Any]:
    """The job with its servers on nodes of the trainer."""
    rows = [(f"roles.{path.replace('__', '.')}", value) for path, value in more.items()]
    return changed(("roles.rollout.share", True), ("roles.rollout.nodes", nodes), *rows)


def test_roles_on_the_same_nodes_split_their_cpus() -> None:
    made = planned(beside())
    header = dict(made.header)
    # 4 ranks of 1 CPU, and 3 servers of 2.
    assert (header["nodes"], header["ntasks-per-node"], header["cpus-per-task"]) == ("4", "1", "10")
    for step, cpus in zip(made.roles, ("4", "2")):
        options = dict(step.step)
        assert (options["cpus-per-task"], options["exact"], options["mem"]) == (cpus, True, "0")
        assert not {"gres", "gpus-per-node"} & {*options}
    assert [dict(step.exports).get("RANKZERO_SHARE") for step in made.roles] == [None, "trainer"]


def test_roles_on_the_same_nodes_split_their_gpus() -> None:
    job = beside(trainer__resources={"gpus_per_node": 4}, judge={"command": ["judge"], "share": True})
    made = planned(job)
    assert dict(made.header)["gpus-per-node"] == "4"
    options = {step.name: dict(step.step) for step in made.roles}
    assert options["trainer"]["gpus-per-node"] == "4" and "gres" not in options["trainer"]
    assert options["rollout"]["gres"] == options["judge"]["gres"] == "none"
    both = copy.deepcopy(job)
    both["roles"]["rollout"] |= {"resources": {"gpus_per_node": 3}}
    assert dict(planned(both).header)["gpus-per-node"] == "7"


def test_two_roles_of_which_none_decides_are_on_the_same_nodes() -> None:
    judge = {"command": ["judge"], "share": "rollout", "resources": {"cpus_per_rank": 4}}
    made = planned(changed(("roles.judge", judge)))
    header = dict(made.header)
    # 3 servers of 2 CPUs with a judge of 4, and 4 ranks of 1 CPU.
    assert (header["nodes"], header["cpus-per-task"]) == ("6", "10")
    options = {step.name: dict(step.step) for step in made.roles}
    assert {name for name, given in options.items() if given.get("exact")} == {"rollout", "judge"}
    assert dict(made.roles[2].exports)["RANKZERO_SHARE"] == "rollout"
    assert any("role judge" in line and "on nodes of rollout" in line for line in summary(made))


def test_a_role_that_has_its_own_nodes_says_nothing_of_the_rest_of_them() -> None:
    for step in planned(JOB).roles:
        assert not {"exact", "mem", "gres"} & {*dict(step.step)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("roles.trainer.share", True), ["roles.trainer.share", "trainer decides"]),
        (("roles.rollout.nodes", 5), ["roles.rollout.nodes: 5 nodes", "trainer", "has 4"]),
        (("roles.rollout.share", "trainr"), ["roles.rollout.share: trainr is no role; did you mean trainer?"]),
        (("roles.rollout.share", "Not a name"), ["roles.rollout.share: must be true, false or the name of a role"]),
        (
            ("roles.judge", {"command": ["judge"], "share": "rollout"}),
            ["roles.judge.share: rollout has no nodes", "name trainer"],
        ),
    ],
)
def test_who_can_be_beside_whom(change: tuple[str, Any], words: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        read(changed(("roles.rollout.share", True), change))
    assert all(word in str(error.value) for word in words), error.value


def test_each_role_has_its_own_step_environment_and_numbers() -> None:
    made = steps(JOB)
    trainer, rollout = made["trainer"], made["rollout"]
    assert dict(rollout.step)["ntasks"] == "6" and dict(trainer.step)["ntasks"] == "4"
    told = [dict(step.exports) for step in (trainer, rollout)]
    assert [(row["RANKZERO_FIRST_RANK"], row["RANKZERO_WORLD_SIZE"]) for row in told] == [("0", "16"), ("16", "6")]
    assert [row["RANKZERO_LAUNCHER"] for row in told] == ["torchrun", "srun"]
    assert told[0]["RANKZERO_AFTER_READY"] == "rollout" and told[1]["RANKZERO_READY"] == "http /health"
    assert {item.name: item.value for item in rollout.variables} == {"OF_ROLLOUT": "2", "OMP_NUM_THREADS": "2"}
    assert rollout.unset == ("OF_TRAINER",) and trainer.unset == ()
    assert rollout.argv == ("serve", "--port", "{port}")


def test_the_plan_shows_what_each_role_runs() -> None:
    assert [line for line in summary(planned(JOB)) if line.startswith(("runs", "role"))] == [
        "runs    train.py '{rollout.urls}'",
        "role trainer: 4 x 4 by torchrun; rank-0000.log to rank-0015.log; decides; after rollout ready",
        (
            "role rollout: runs serve --port '{port}'; 2 x 3 by srun; rank-0016.log to rank-0021.log; on exit restart; "
            "ready by http /health"
        ),
    ]


def test_a_job_without_roles_has_no_step_of_a_role() -> None:
    assert planned({"name": "job", "command": ["train.py"]}).roles == ()
    assert planned({"name": "job", "command": ["train.py"], "roles": {}}).roles == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("roles.trainer.after_ready", ["rolout"])], "trainer.after_ready: rolout is no role; did you mean"),
        ([("roles.trainer.after_ready", ["trainer"])], "trainer would wait for itself"),
        ([("roles.rollout.ready", None)], "rollout has no `ready`"),
        (
            [("roles.rollout.after_ready", ["trainer"]), ("roles.trainer.ready", {"port": True})],
            "roles: wait for each other: trainer -> rollout -> trainer",
        ),
        ([("roles.trainer.command", ["train.py", "{rolout.urls}"])], "{rolout. ...} names no role; did you mean"),
        ([("roles.rollout.command", ["serve"])], "roles.rollout.ready: asks the port of each process"),
        ([("roles.rollout.ready", {"http": "/", "port": True})], "exactly one of http, port, file, line, not http and"),
        ([("roles.rollout.ready", {"within": "00:10:00"})], "exactly one of http, port, file, line, not none"),
        ([("roles.rollout.ready", {"line": "("})], "roles.rollout.ready: line is no regular expression"),
        ([("roles.rollout.ready", {"file": "../x"})], "file must be a path below the ranks' working directory"),
        ([("roles.rollout.on_exit", "stop")], "on_exit: must be one of fail, done, restart, restart_all, ignore"),
        ([("roles.trainer.on_exit", "restart")], "roles.trainer.on_exit: trainer decides: the launch ends with it"),
        ([("roles.rollout.nodes", 0)], "roles.rollout.nodes: must be a whole number of at least 1"),
        ([("roles.rollout.nodez", 2)], "roles.rollout.nodez: unknown; did you mean nodes"),
        ([("roles.rollout.time", "5")], "roles.rollout.time: is of the whole launch"),
        ([("roles.rollout.command", None)], "roles.rollout.command: is required"),
        ([("roles.rollout.launcher.kind", "srum")], "roles.rollout.launcher.kind: must be one of srun"),
        ([("roles.Rollout", {"command": ["x"]})], "must be the name of a role: small letters"),
        ([("roles.group", {"command": ["x"]})], "roles: key group is a name that the job has itself"),
        ([("roles.rollout", ["x"])], "rollout must be a map of keys"),
        ([("artifact.role", "judge")], "artifact.role: 'judge' is no role; roles: rollout, trainer"),
        (
            [("roles.learner", JOB["roles"]["trainer"]), ("roles.trainer", None)],
            "artifact.role: is required: no role is named trainer",
        ),
        ([("command", ["x"])], "command: each role has its own"),
        ([("resources.nodes", 3)], "each role has its own number; to change some, give nodes as rollout=2,"),
        ([("roles.rolout", {"nodes": 3})], "roles.rolout: is no role of this job; did you mean rollout?; roles:"),
        (
            [("roles.rollout.launcher.inside_job", "7")],
            "roles.rollout.launcher.inside_job: one job holds all roles; write launcher.inside_job at the top",
        ),
        (
            [("launcher", {"inside_job": "7", "inside_nodes": ["a"]})],
            "launcher.inside_nodes: 1 different nodes for resources.nodes 6; name 6",
        ),
        ([("container", {**PYXIS, "level": "job"})], "container.level: does not go with roles"),
        ([("roles.rollout.container.level", "job")], "roles.rollout.container.level: is of the whole launch"),
        ([("roles.rollout.container", {"runtime": "pyxis"})], "roles.rollout.container.image: is required"),
        (
            [("roles.rollout.container", PYXIS), ("preflight.imports", ["torch"])],
            "preflight.imports: looks with one Python for all, and the roles have not all the same container",
        ),
        (
            [("roles.rollout.container", PYXIS), ("environment.mode", "wheelhouse")],
            "environment.mode: wheelhouse is made once for all",
        ),
        (
            [
                ("container", {"runtime": "oci", "build": {"suite": "bookworm"}}),
                ("roles.trainer.container", {"runtime": "none"}),
            ],
            "container.build: trainer, which decides, runs in another image",
        ),
    ],
)  # fmt: skip
def test_mistakes_name_the_role_and_what_is_allowed(changes: list[tuple[str, Any]], said: str) -> None:
    with pytest.raises(SpecError) as error:
        read(changed(*changes))
    assert said in str(error.value)


def test_a_mistake_for_all_roles_is_said_once() -> None:
    with pytest.raises(SpecError) as error:
        read(changed(("resources.time", "soon")))
    assert str(error.value).count("resources.time") == 1


def test_a_job_without_roles_names_none() -> None:
    with pytest.raises(SpecError, match=r"artifact\.role: this job has no roles"):
        read({"name": "job", "command": ["x"], "artifact": {"role": "trainer"}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("roles.rollout.command", ["serve", "--port", "{port}", "--fast"]),
        ("roles.rollout.nodes", 3),
        ("roles.rollout.env.OF_ROLLOUT", "3"),
        ("roles.rollout.on_exit", "ignore"),
        ("roles.rollout.ready", {"port": True}),
        ("roles.trainer.after_ready", None),
    ],
)
def test_what_any_role_does_is_in_the_key_and_among_the_changes(path: str, value: Any) -> None:
    before, after = read(JOB), read(changed((path, value)))
    assert launch_key(before, {}) != launch_key(after, {}) and launch_key(before, {}) == launch_key(read(JOB), {})
    changes = spec_changes(before, after)
    assert changes and all(change.startswith("roles.") for change in changes)


def test_slurms_limits_are_those_of_all_roles() -> None:
    made = planned(JOB)
    assert made.job.nodes == 6 and made.job.cpus_per_node == 6


def test_all_roles_are_in_the_container_of_the_job() -> None:
    made = planned(changed(("container", {**PYXIS, "mounts": ["/data:/data:ro"]})))
    trainer, rollout = made.roles
    for role in made.roles:
        assert role.container and role.container.image == "/images/vllm.sqsh"
        assert dict(role.step)["container-image"] == "/images/vllm.sqsh"
    # What each says of its environment wins over the image's, and the preflight looks into what is everybody's.
    assert trainer.container and "OF_TRAINER" in trainer.container.variables
    assert rollout.container and "OF_ROLLOUT" in rollout.container.variables
    assert "OF_TRAINER" not in rollout.container.variables
    assert made.container and len(container_needs(made)) == 1


def test_a_role_has_a_container_of_its_own_as_a_whole_or_none() -> None:
    job = changed(
        ("container", {**PYXIS, "mounts": ["/data:/data:ro"]}),
        ("roles.rollout.container", {"runtime": "apptainer", "image": "/images/serve.sif"}),
        ("roles.judge", {"command": ["judge"], "container": {"runtime": "none"}}),
    )
    made = planned(job)
    trainer, rollout, judge = made.roles
    assert (
        trainer.container and trainer.container.image == "/images/vllm.sqsh" and "container-image" in dict(trainer.step)
    )
    assert rollout.container and rollout.container.words[-1] == "/images/serve.sif"
    assert "--bind=/data:/data:ro" not in rollout.container.words and "container-image" not in dict(rollout.step)
    assert judge.container is None and "container-image" not in dict(judge.step)
    # There is not one that the preflight could look into.
    assert made.container is None
    assert [needs.image for needs in container_needs(made)] == ["/images/vllm.sqsh", "/images/serve.sif"]
    lines = summary(made)
    assert any("role rollout" in line and "in /images/serve.sif by apptainer" in line for line in lines)
    assert any("role judge" in line and "no container" in line for line in lines)
    assert dict(images_of(made.spec)) == {
        "roles.trainer.container.image": "/images/vllm.sqsh",
        "roles.rollout.container.image": "/images/serve.sif",
    }


def test_nothing_is_copied_to_the_nodes_where_any_role_is_in_a_container() -> None:
    assert not stages(read(changed(("roles.rollout.container", PYXIS)))) and stages(read(JOB))


def test_what_the_cluster_declares_of_any_role_is_in_the_key() -> None:
    settings = ClusterSettings(launchers=OWN_LAUNCHERS.parse({"own": {"per": "rank", "command": ["own", "{rank}"]}}))
    job = changed(("roles.rollout.launcher", {"kind": "own"}))
    spec = validated(merge([Layer("job.yml", job)]), (), settings)
    keyed = Site("/s", "/t", settings).keyed
    assert [*keyed(spec)] == ["roles.rollout.launcher"] and [*keyed(read(JOB))] == []
