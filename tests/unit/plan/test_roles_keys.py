# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every key of the spec in a role: it reaches the processes of that role and of no other, or it is refused by name."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import digest_token
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import plan as real
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site, Standing
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import OF_A_ROLE, OF_ITS_NODES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import with_absolute_paths, words_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import request_of
from tests.plans import plan
from tests.unit.plan.test_key import OTHER
from tests.unit.plan.test_roles import PYXIS, changed

ROLLOUT = "roles.rollout"
#: What a key is nothing without.
WITH: dict[str, dict[str, Any]] = {
    "environment.path": {"environment.mode": "path"},
    "environment.conda": {"environment.mode": "path"},
    "environment.mode": {"environment.path": "/envs/torch"},
    "environment.file": {"environment.mode": "conda"},
    **{
        f"environment.{key}": {"environment.mode": "venv"}
        for key in ("project", "requirements", "extras", "python", "torch")
    },
    **{f"environment.{key}": {"environment.mode": "sealed"} for key in ("compression", "interpreter", "local_copy")},
    **{
        f"container.{key}": {f"container.{name}": value for name, value in PYXIS.items()}
        for key in ("mounts", "workdir", "mount_home", "remap_root", "env", "writable")
    },
    "resources.gpu_type": {"resources.gpus_per_node": 3},
    "launcher.gpus": {"resources.gpus_per_node": 3, "launcher.ranks_per_node": None},
    "launcher.rendezvous": {"launcher.kind": "torchrun"},
    "container.image": {"container.runtime": "pyxis"},
    "container.runtime": {"container.image": "/i.sqsh"},
}
#: Other values than those of the test of keys: with these, a role can have the key.
VALUES: dict[str, Any] = {
    "command": ["serve", "{port}", "--fast"],
    "shell": "serve {port}",
    "environment.mode": "path",
    "launcher.ranks_per_node": 4,
    "launcher.gpus": "node",
    "resources.cpus_per_rank": 3,
    "resources.nodes": 3,
    "resources.gpus_per_node": 3,
}


#: It looks at nodes for all roles.
OF_THE_PREFLIGHT = ("RANKZERO_STAGE", "RANKZERO_PREFLIGHT", "RANKZERO_GPU_")


def planned(job: dict[str, Any]) -> real.Plan:
    read = read_job(job, None, None, None, "/").at_environments({"torch": "/envs/torch"})
    standing = {"/envs/conda": Standing("a", True)}
    roots = {"state_root": "/s", "store_root": "/t"}
    own = {role.spec.environment for role in read.spec.roles.values() if role.spec.environment.built}
    # As the packages differ that an environment of these options has.
    keys = {environment: hashlib.sha256(repr(environment).encode()).hexdigest() for environment in own}
    return plan(read.spec, read.merged, code_key="c", runtime_key="r", adopted=standing, of_roles=keys, **roots)


def reached(made: real.Plan) -> dict[str, tuple[Any, ...]]:
    """What the processes of each role get: variables, words, options, container and Python."""
    of_all = {**dict(made.exports), **{item.name: item.value for item in made.variables}}
    result = {}
    # A component of the job for the nodes of each kind: its lines, by the number that its roles are told.
    asked = [made.header, *made.further]
    of_all.pop("RANKZERO_COMPONENTS", None)
    for role in made.roles:
        env = {name: value for name, value in of_all.items() if name not in role.unset}
        env |= {**dict(role.exports), **{item.name: item.value for item in role.variables}}
        # Where any role is in a container, nothing is copied to the nodes.
        given = {name: env[name] for name in env if not name.startswith(OF_THE_PREFLIGHT)}
        lines = dict(asked[int(given.pop("RANKZERO_COMPONENT", "0"))])
        given |= {name: lines[name] for name in (*OF_ITS_NODES, "mem", "gpus-per-node") if name in lines}
        given |= {"RANKZERO_SECRETS": env.get("RANKZERO_SECRETS", "")}
        entered = (role.container, role.python, role.environment, role.modules, role.commands)
        result[role.name] = (given, role.step, role.argv, role.topology, *entered)
    return result


def own(path: str) -> list[tuple[str, Any]]:
    """The changes by which the servers have a key, and what it needs."""
    if path == "shell":
        return [(f"{ROLLOUT}.command", None), (f"{ROLLOUT}.shell", VALUES[path])]
    rows = {**WITH.get(path, {}), path: VALUES.get(path, OTHER.get(path))}
    return [(f"{ROLLOUT}.{name}", value) for name, value in rows.items()]


@pytest.mark.parametrize("path", sorted({*OTHER, "shell"}))
def test_a_key_in_a_role_reaches_that_role_alone_or_is_refused_by_its_name(path: str) -> None:
    needed = [(f"{ROLLOUT}.{name}", value) for name, value in WITH.get(path, {}).items()]
    try:
        before = planned(changed(*needed))
    except SpecError:
        before = planned(changed())
    job = changed(*own(path))
    allowed = any(path == known or path.startswith(f"{known}.") for known in OF_A_ROLE)
    try:
        after = planned(job)
    except SpecError as error:
        sentences = str(error).splitlines()
        assert any(re.search(rf"\b{re.escape(path)}(\.[\w-]+)*: ", text) for text in sentences), error
        assert not allowed or "does not go with roles" in str(error) or "launcher.inside_job" in str(error), error
        assert allowed or "write it at the top of the job" in str(error), error
        return
    assert allowed, f"{path} is accepted in a role, and stands in no list of what a role may have"
    was, now = reached(before), reached(after)
    assert now["rollout"] != was["rollout"], f"{path} is accepted in a role and does nothing there"
    # The job's own size is what all need.
    if path not in ("resources.gpus_per_node", "resources.gpu_type"):
        assert now["trainer"] == was["trainer"], f"{path} of one role reaches another one"
    of_nodes = [f"resources.{name}" for name in OF_ITS_NODES]
    assert after.key != before.key or path in (
        "launcher.wait",
        "resources.cpus_per_rank",
        "fabric",
        "offline",
        *of_nodes,
    )


def test_a_role_has_its_own_environment_as_a_whole() -> None:
    """Also a conda environment of a role is entered as one, and what is built is for those that say nothing."""
    job = changed(
        ("environment", {"mode": "sealed"}),
        (f"{ROLLOUT}.environment", {"mode": "path", "path": "/envs/conda"}),
        ("roles.judge", {"command": ["judge.py"], "environment": {"mode": "none"}}),
    )
    merged = merge([Layer("job.yml", job)])
    made = plan(
        validated(merged), merged, code_key="c", runtime_key="r", state_root="/s", store_root="/t",
        environment_key="e", adopted={"/envs/conda": Standing("a", True)},
    )  # fmt: skip
    pythons = {role.name: role.python for role in made.roles}
    built = "/t/environments/e/bin/python"
    assert pythons == {"trainer": built, "rollout": "/envs/conda/bin/python", "judge": "python3"}
    of_rollout = {item.name: item.value for item in made.roles[1].variables}
    assert of_rollout["CONDA_PREFIX"] == "/envs/conda" and made.roles[2].argv[0] == "python3"
    lines = {line.split(":")[0]: line for line in summary(made) if line.startswith("role")}
    assert "sealed environment e from pyproject.toml" in lines["role trainer"]
    assert "the environment /envs/conda" in lines["role rollout"] and "no environment" in lines["role judge"]


def test_roles_have_environments_that_are_built_of_different_projects() -> None:
    """Each is an input of its own, and what a role's program, its key and its line of the plan name is its own."""
    serving = {"mode": "venv", "project": "serving"}
    job = changed(("environment", {"mode": "sealed"}), (f"{ROLLOUT}.environment", serving))
    merged = merge([Layer("job.yml", job)])
    spec = validated(merged)

    def made(key: str) -> real.Plan:
        of_roles = {spec.roles["rollout"].spec.environment: key}
        return plan(
            spec, merged, code_key="c", runtime_key="r", state_root="/s", store_root="/t", environment_key="e",
            of_roles=of_roles,
        )  # fmt: skip

    first, other = made("f" * 64), made("0" * 64)
    of_rollout = {item.name: item.value for item in first.roles[1].variables}
    folder = "/t/environments/" + "f" * 64
    assert [ref.path for ref in first.refs if ref.kind == "environment"] == ["/t/environments/e", folder]
    assert (first.environment_dir, first.roles[1].environment) == ("/t/environments/e", folder)
    assert (first.roles[1].python, of_rollout["VIRTUAL_ENV"]) == (f"{folder}/bin/python", folder)
    assert first.key != other.key
    assert [ref.key for ref in made("e").refs if ref.kind == "environment"] == ["e"]
    lines = [line for line in summary(first) if line.startswith("role rollout")]
    assert "venv environment ffffffffffff from pyproject.toml of serving" in lines[0]


def test_roles_with_the_same_sealed_environment_have_it_mounted_once() -> None:
    """Its file is checked against the digest that it was published with, and the launch's own is another one."""
    serving = {"mode": "sealed", "project": "serving", "local_copy": "never"}
    job = changed(
        ("environment", {"mode": "venv"}),
        (f"{ROLLOUT}.environment", serving),
        ("roles.judge", {"command": ["judge.py"], "environment": serving}),
    )
    merged = merge([Layer("job.yml", job)])
    spec = validated(merged)
    made = plan(
        spec, merged, code_key="c", runtime_key="r", state_root="/s", store_root="/t", environment_key="e",
        of_roles={spec.roles["rollout"].spec.environment: "f" * 64},
    )  # fmt: skip
    assert [role.sealed for role in made.roles] == ["", "rollout", "rollout"]
    assert [ref.sha256 for ref in made.refs if ref.kind == "environment"] == ["", digest_token("f" * 64)]
    script = render_script(made)
    assert script.count("\nrankzero_seal ") == 1
    assert f"rankzero_seal /t/environments/{'f' * 64} {digest_token('f' * 64)} rollout never\n" in script
    assert script.count('export RANKZERO_SEALED="$RANKZERO_ROLLOUT_SEALED"\n') == 2


def test_the_kept_spec_has_the_folder_of_each_role_s_project() -> None:
    """What stands at the top is of the roles that say nothing, also where the deciding one says something."""
    job = changed(
        ("environment", {"mode": "venv", "project": "serving"}),
        ("roles.trainer.environment", {"mode": "venv", "project": "training"}),
    )
    read = read_job(job, None, None, None, "/home/me")
    kept = with_absolute_paths(read.merged.data, read)
    assert kept["environment"]["project"] == "/home/me/serving" and "environment" not in kept["roles"]["rollout"]
    assert kept["roles"]["trainer"]["environment"]["project"] == "/home/me/training"
    assert with_absolute_paths(read.merged.data, read.of_role("trainer"))["roles"] == read.merged.data["roles"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            [(f"{ROLLOUT}.environment", {"mode": "cache"})],
            "roles.rollout.environment.mode: only trainer, which decides, may have the mode cache; use venv or sealed",
        ),
        (
            [("environment", {"mode": "cache"}), ("roles.trainer.environment", {"mode": "path", "path": "/e"})],
            "roles.rollout.environment.mode: only trainer, which decides, may have the mode cache; use venv",
        ),
        (
            [("preflight", {"imports": ["torch"]}), (f"{ROLLOUT}.environment", {"mode": "path", "path": "/e"})],
            "preflight.imports: looks with one Python for all, and the roles have not all the same environment",
        ),
        (
            [("secrets", {"A": {"from_env": "A"}}), (f"{ROLLOUT}.secrets", {"A": {"from_env": "B"}})],
            "roles.rollout.secrets.A: trainer has another one of this name",
        ),
        (
            [(f"{ROLLOUT}.data", {"text": "/a"}), ("roles.trainer.data", {"text": "/b"})],
            "roles.rollout.data.text: trainer has another one of this name",
        ),
    ],
)
def test_what_a_launch_has_but_one_of_is_refused(changes: list[tuple[str, Any]], said: str) -> None:
    with pytest.raises(SpecError) as error:
        planned(changed(*changes))
    assert said in str(error.value)


def test_what_roles_have_for_themselves_is_in_the_key_and_known_to_the_cluster() -> None:
    secret, place = {"HUB": {"from_file": "/keys/hub"}}, {"mode": "path", "path": "/envs/conda"}
    job = changed(
        (f"{ROLLOUT}.secrets", secret), (f"{ROLLOUT}.environment", place), (f"{ROLLOUT}.data", {"text": "/d"})
    )
    made = planned(job)
    request = request_of(made, Site("/s", "/t"), made.refs, {}, "never")
    assert request.secret_files == {"HUB": "/keys/hub"}
    assert list(request.places.sources) == [("roles.rollout.environment.path", "/envs/conda"), ("data.text", "/d")]
    other = plan(
        made.spec, merge([Layer("job.yml", job)]), code_key="c", runtime_key="r", state_root="/s", store_root="/t",
        adopted={"/envs/conda": Standing("b", True)},
    )  # fmt: skip
    assert other.key != made.key
    # Whose a dataset is counts, too.
    all_have = changed((f"{ROLLOUT}.data", {"text": "/d"}), ("roles.trainer.data", {"text": "/d"}))
    one_has = changed(("roles.trainer.data", {"text": "/d"}))
    keys = [launch_key(validated(merge([Layer("j", each)])), {}) for each in (all_have, one_has)]
    assert len({*keys}) == 2


def test_paths_and_names_of_environments_of_roles_are_found_as_the_jobs_own_are(tmp_path: Any) -> None:
    job = changed(
        ("environment", {"mode": "path", "conda": "train"}),
        (f"{ROLLOUT}.environment", {"mode": "path", "path": ".venv-serve"}),
        ("roles.judge", {"command": ["judge"], "environment": {"mode": "path", "conda": "judge"}}),
    )
    read = read_job(job, None, None, None, str(tmp_path)).at_environments({"train": "/c/train", "judge": "/c/judge"})
    paths = {name: role.spec.environment.path for name, role in read.spec.roles.items()}
    assert paths == {"trainer": "/c/train", "rollout": f"{tmp_path}/.venv-serve", "judge": "/c/judge"}
    assert read.spec.environment.path == "/c/train"
    # Also the record of the launch, from which it can be launched again, has them.
    again = validated(merge([Layer("again", read.merged.data)]))
    assert {name: role.spec.environment.path for name, role in again.roles.items()} == paths


def test_what_is_set_for_the_whole_launch_is_dropped_in_no_role() -> None:
    """A role drops what follows from keys that it may have itself, and the parallelism of the role that decides."""
    roles = {
        "rollout": {"command": ["serve.py"], "ready": {"port": True}},
        "trainer": {"command": ["train.py"], "launcher": {"ranks_per_node": 8}, "env": {"LR": "1"}},
    }
    top = {"seed": 7, "debug": True, "offline": True, "parallelism": {"tensor": 2}, "artifact": {}}
    resources = {"gpu_type": "h100", "gpus_per_node": 8}
    made = planned({"name": "rl", "roles": roles, "resources": resources, **top})
    trainer, rollout = made.roles
    sources = {each.name: each.source for each in made.variables}
    assert not trainer.unset
    assert {sources[name] for name in rollout.unset} <= {"env", "hangs", "parallelism", "logs"}
    assert {"LR", "CUDA_DEVICE_MAX_CONNECTIONS"} <= {*rollout.unset} and {"seed", "debug"} <= {*sources.values()}


def test_the_set_up_of_a_role_comes_after_that_of_the_job() -> None:
    of_the_job = {"modules": ["site"], "commands": ["ulimit -l unlimited"], "before_ranks": ["stage"]}
    own = {"modules": ["cuda/12"], "commands": ["export A=1"]}
    made = planned(changed(("setup", of_the_job), ("roles.trainer.setup", own)))
    trainer, rollout = made.roles
    assert (trainer.modules, trainer.commands) == (("cuda/12",), ("export A=1",))
    assert (rollout.modules, rollout.commands) == ((), ())
    # The batch script has the job's own alone, also where it is the deciding role that has more.
    assert (made.spec.setup.modules, made.spec.setup.commands) == (("site",), ("ulimit -l unlimited",))
    # A shell in the role's environment is of its spec alone.
    alone = made.spec.roles["trainer"].spec.setup
    assert (alone.modules, alone.commands) == (("site", "cuda/12"), ("ulimit -l unlimited", "export A=1"))
    assert made.spec.setup.before_ranks == ("stage",)
    only = planned(changed(("roles.rollout.setup", own)))
    assert only.spec.setup.modules == () and only.roles[1].modules == ("cuda/12",)


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ({"modules": "cuda"}, "roles.rollout.setup.modules: must be a list"),
        ({"modules": ["a b"]}, "roles.rollout.setup.modules: item 2 "),
        ({"before_ranks": ["x"]}, "roles.rollout.setup.before_ranks: is of the whole launch"),
    ],
)
def test_a_mistake_in_the_set_up_of_a_role_is_named_there(setup: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as error:
        planned(changed(("setup", {"modules": ["site"]}), (f"{ROLLOUT}.setup", setup)))
    assert said in str(error.value)


def test_files_that_a_command_of_any_role_names_are_code() -> None:
    made = planned(changed((f"{ROLLOUT}.setup", {"commands": ["source jobs/env.sh"]})))
    words = words_of(made.spec)
    assert {"train.py", "serve", "source jobs/env.sh", *made.spec.roles["rollout"].spec.env.values()} <= {*words}
