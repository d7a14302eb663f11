# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch key: golden keys, what is in it and what is not.

A golden key never changes: a changed one means that an upgrade of the collection launches everybody's jobs again.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import key_inputs, launch_key, short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse

INPUTS = {"code": "c" * 64, "environment": "e" * 32}
BASE: dict[str, Any] = {"name": "job", "command": ["train.py", "--steps", "10"]}


def key(data: dict[str, Any], inputs: dict[str, str] | None = None) -> str:
    given = {**BASE, **data}
    if "shell" in data:
        del given["command"]
    # Not `validated`: one changed value need not make a job that could run.
    parsed = parse(merge([Layer("job", given)]))
    assert not parsed.problems
    return launch_key(parsed.spec, INPUTS if inputs is None else inputs)


GOLDEN = [
    ("813758443cae61f3db1a5347975cbb673e758a381ba47fd64d3492fc1ea54236", {}),
    ("f109300054233e6ae0a081dc1298d5607e4d50d5deab2b9168bb975848475487", {"resources": {"nodes": 4}}),
    (
        "b9d4511c951e8a4296465ead9bcf5ec9bfe729973b007dacdf534fa11eae9861",
        {"resources": {"nodes": "4", "gpus_per_node": 8, "gpu_type": "h100"}},
    ),
    (
        "faad807303f71bb8b93c9d1aaf8c19acf2130584a24aa2802595cb966fffdc5b",
        {"launcher": {"kind": "torchrun", "ranks_per_node": 2, "srun": {"mpi": "pmix", "label": True}}},
    ),
    (
        "b8277035f875727cfd43eaf879cb98a308c46cb2d5f93975b51f8c3881ac81a7",
        {"command": ["train.py", "é 日本 🚀", "", "a\nb"]},
    ),
    ("2b2c446ee5386d56a16519c1b908089c34a8a181c7b02fa87e58dd6190c73c28", {"shell": "python train.py | tee log"}),
    (
        "45bc80b0e85809b53ed4e1f0498c7dd98755aade8261bfcb3227beddff89c9c8",
        {"setup": {"modules": ["cuda/12.4"], "commands": ["ulimit -l unlimited"]}},
    ),
    (
        "8cb1f1e3b68bd90017127d42eb004ed7959f05d5d152376e59a4b4b1553964dc",
        {"env": {"B": "2", "A": "1"}, "secrets": {"T": {"from_env": "T"}, "S": {"from_file": "/s"}}},
    ),
    ("4c78ef23d087049abdbfe713c7491bf0b2aa7bfb53bb83b51080fdfaf9409b48", {"seed": 0}),
    ("b4d6a4114a61f8e8d933378956fae7663ce570ee43ebd92158856d0ed067125d", {"environment": {"mode": "venv"}}),
    ("6e2927183f2920c7290b6a5f52f745c4f254ce9142af64a7a099474ec735bd69", {"artifact": {}}),
    (
        "4407d7f485aac70c702ad945f5447c2bcce1ef28fb66ffaa5f005ba85306bc9e",
        {"artifact": {"path": "out/x.json", "require": {"loss": {"lt": 4.5}, "same": {"eq": True}, "n": {"ge": 3}}}},
    ),
    ("279bb89c79085a9c7ef6c28b88d7595140597d5a92f863d90a594f38d9d3cd18", {"artifact": {"format": "any"}}),
]


@pytest.mark.parametrize(("golden", "data"), GOLDEN)
def test_golden_key(golden: str, data: dict[str, Any]) -> None:
    assert key(data) == golden


def test_golden_keys_of_other_inputs() -> None:
    assert key({}, {"code": "c"}) == "d3ee63eb5ab74127dcd0dc8140c1b0af6c50162af0197a4741210b0277bfeaa7"
    assert short_key("0123456789abcdef0123") == "0123456789abcdef"


#: A second value for every field, by dotted path.
OTHER: dict[str, Any] = {
    "name": "other",
    "command": ["train.py", "--steps", "11"],
    # Not the text: the digest of the part that counts is among the inputs.
    "script": "#!/bin/sh\n",
    "script_args": ["a"],
    "environment.path": "/shared/envs/torch",
    "offline": True,
    "resources.nodes": 2,
    "resources.spares": 1,
    "resources.gpus_per_node": 1,
    "resources.gpu_type": "a100",
    "resources.gres": ["lscratch:500"],
    "resources.cpus_per_rank": 2,
    "resources.memory": "4G",
    "resources.time": "02:00:00",
    "resources.partition": "p",
    "resources.account": "a",
    "resources.qos": "q",
    "resources.constraint": "c",
    "resources.reservation": "r",
    "resources.dependency": "afterok:1",
    "resources.segment": 1,
    "resources.switches": "1@02:00:00",
    "resources.exclude": ["n1"],
    "resources.exclusive": True,
    "resources.sbatch": {"mail-type": "END"},
    "resources.any_of": [{"account": "a"}, {"account": "b"}],
    "launcher.kind": "torchrun",
    "launcher.ranks_per_node": 2,
    "launcher.gpus": "node",
    "launcher.rendezvous": "c10d",
    "launcher.port": 29500,
    "launcher.inside_job": "1234",
    "launcher.inside_nodes": ["node01"],
    "launcher.srun": {"mpi": "pmix"},
    "launcher.wait": 60,
    "setup.modules": ["cuda"],
    "setup.commands": ["true"],
    "setup.before_ranks": ["true"],
    "setup.after_ranks": ["true"],
    "setup.budget": 60,
    "code.src": "..",
    "code.exclude": ["*.ipynb"],
    "code.include": ["jobs/"],
    "code.in_place": "/home/me/gpt",
    "code.writable": True,
    "code.dirty": "refuse",
    "environment.mode": "venv",
    "environment.project": "..",
    "environment.extras": ["cpu"],
    "environment.platform": "x86_64-manylinux_2_28",
    "environment.file": "environment.yml",
    "environment.conda": "torch",
    "environment.requirements": "requirements.txt",
    "environment.python": "3.11",
    "environment.torch": "cpu",
    "environment.compression": "lz4",
    "environment.interpreter": "node",
    "environment.local_copy": "never",
    "container.runtime": "pyxis",
    "container.level": "job",
    "container.image": "/i.sqsh",
    "container.build.containerfile": "Containerfile",
    "container.build.context": "images",
    "container.build.target": "run",
    "container.build.build_args": {"A": "b"},
    "container.build.secrets": {"pip": "/s"},
    "container.build.suite": "bookworm",
    "container.build.packages": ["python3"],
    "container.build.mirror": "copy:///d",
    "container.build.reference": "example.org/torch:1",
    "container.build.env": {"A": "b"},
    "container.mounts": ["/d:/d:ro"],
    "container.workdir": "/w",
    "container.mount_home": True,
    "container.remap_root": True,
    "container.writable": True,
    "container.env": ["A"],
    # The versions are among the inputs.
    "data": {"text": "/data/text"},
    "env": {"A": "1"},
    "secrets": {"T": {"from_env": "T"}},
    "parallelism.strategy": "fsdp",
    "parallelism.tensor": 2,
    "parallelism.pipeline": 2,
    "parallelism.context": 2,
    "parallelism.expert": 2,
    "parallelism.expert_overlap": True,
    "parallelism.attention_heads": 32,
    "parallelism.query_groups": 8,
    "parallelism.experts": 8,
    "parallelism.expert_parameters": 1000,
    "parallelism.purpose": "infer",
    "parallelism.gpu_memory": 80,
    "parallelism.global_batch": 8,
    "parallelism.micro_batch": 2,
    "seed": 1,
    "fabric": "ethernet",
    "debug": True,
    "preflight.enabled": False,
    "preflight.imports": ["torch"],
    "preflight.budget": 30,
    "preflight.on_failure": "requeue",
    "preflight.exclude_for": 60,
    "preflight.free_run": "1G",
    "preflight.free_tmp": "1G",
    "preflight.gpu_health": "off",
    "preflight.all_reduce": 64,
    "preflight.slow": "fail",
    "checkpoint.dir": "/c",
    "checkpoint.fresh": True,
    "preflight.stage": "never",
    "preflight.stage_budget": 900,
    "checkpoint.signal_before_end": 60,
    "checkpoint.signal": "USR1",
    "checkpoint.requeue": True,
    "checkpoint.max_restarts": 1,
    "checkpoint.progress": "p",
    "monitor.host": 0,
    "monitor.gpu": 0,
    "monitor.timestamps": 60,
    "logs.style": "slurm",
    "logs.follow": "last",
    "logs.per": "node",
    "artifact.path": "other.json",
    "artifact.format": "any",
    "artifact.complete": "metadata.json",
    "artifact.require": {"loss": {"lt": 4}},
    "artifact.together": "required",
    "artifact.then": "end",
    "artifact.grace": 0,
    "trackers": {"wandb": {"project": "p"}},
    "notify": [{"url_file": "~/slack"}],
    "after": ["before.yml"],
    "sweep.method": "zip",
    "sweep.parameters": {"lr": ["1"]},
    "sweep.points": [{"lr": "1"}],
    "sweep.samples": 3,
    "sweep.seed": 1,
    "sweep.metric": "loss",
    "sweep.goal": "max",
    "sweep.parallel": 2,
}
IN_KEY = {
    "code.in_place",
    "code.writable",
    "script_args",
    "command",
    "environment.path",
    "resources.nodes",
    "resources.gpus_per_node",
    "resources.gpu_type",
    "launcher.kind",
    "launcher.ranks_per_node",
    "launcher.gpus",
    "launcher.rendezvous",
    "launcher.srun",
    "parallelism.strategy",
    "parallelism.tensor",
    "parallelism.pipeline",
    "parallelism.context",
    "parallelism.expert",
    "parallelism.expert_overlap",
    "parallelism.attention_heads",
    "parallelism.query_groups",
    "parallelism.experts",
    "parallelism.expert_parameters",
    "parallelism.global_batch",
    "parallelism.micro_batch",
    "setup.modules",
    "setup.commands",
    "setup.before_ranks",
    "setup.after_ranks",
    "environment.mode",
    # What the program sees of the nodes and of its image.
    "container.runtime",
    "container.image",
    "container.mounts",
    "container.workdir",
    "container.mount_home",
    "container.remap_root",
    "container.writable",
    "container.env",
    "env",
    # The names of secrets, not where their values are.
    "secrets",
    "seed",
    # Where it goes on from.
    "checkpoint.dir",
    "checkpoint.fresh",
    "artifact.path",
    "artifact.format",
    "artifact.complete",
    "artifact.require",
    "artifact.together",
}


def nested(path: str, value: Any) -> dict[str, Any]:
    section, _dot, name = path.rpartition(".")
    data = {name: value}
    if path == "resources.gpu_type":
        data["gpus_per_node"] = 1
    for part in reversed(section.split(".") if section else []):
        data = {part: data}
    return data


# Roles are in test_roles.py.
OTHERWISE = ("shell", "roles", "artifact.role")


@pytest.mark.parametrize("path", [info.path for info in fields_of(LaunchSpec) if info.path not in OTHERWISE])
def test_what_is_in_the_key_changes_it_and_nothing_else_does(path: str) -> None:
    section = path.rpartition(".")[0]
    base: dict[str, Any] = {}
    if path == "resources.gpu_type":
        base = {"resources": {"gpus_per_node": 1}}
    elif section == "artifact":
        base = {"artifact": {}}
    assert (key(nested(path, OTHER[path])) != key(base)) is (path in IN_KEY)


def test_that_an_artifact_is_asked_for_at_all_is_in_the_key() -> None:
    assert key({"artifact": {}}) != key({})


def test_names_of_secrets_are_in_the_key_and_their_sources_are_not() -> None:
    one = key({"secrets": {"T": {"from_env": "A"}}})
    assert one == key({"secrets": {"T": {"from_file": "/b"}}})
    assert one != key({"secrets": {"U": {"from_env": "A"}}})


def test_input_keys_are_in_the_key() -> None:
    assert len({key({}), key({}, {}), key({}, {**INPUTS, "code": "d"}), key({}, {"code": INPUTS["code"]})}) == 4


def test_a_default_that_is_written_out_changes_nothing() -> None:
    written: dict[str, Any] = {}
    for info in fields_of(LaunchSpec):
        section, _dot, name = info.path.rpartition(".")
        if section in ("artifact", "container.build") or info.path in ("name", "command", "shell"):
            continue
        value = "auto" if info.path in ("launcher.ranks_per_node", "launcher.port") else info.default
        target = written.setdefault(section, {}) if section else written
        target[name] = list(value) if isinstance(value, tuple) else value
    assert key(written) == key({})
    assert key({"artifact": {"path": "./result.json", "format": "json", "require": {}}}) == key({"artifact": {}})


def test_text_and_typed_values_have_one_key() -> None:
    typed = {"resources": {"nodes": 4}, "seed": 7, "command": ["x", 1], "artifact": {"require": {"n": {"ge": 3}}}}
    text = {
        "resources": {"nodes": "4"},
        "seed": "7",
        "command": ["x", "1"],
        "artifact": {"require": {"n": {"ge": "3"}}},
    }
    assert key(typed) == key(text)
    assert key({"artifact": {"require": {"n": {"lt": 4.0}}}}) == key({"artifact": {"require": {"n": {"lt": "4"}}}})
    assert key({"command": ("x", "1")}) == key({"command": ["x", "1"]})


def test_the_order_of_fields_does_not_matter_and_the_order_of_arguments_does() -> None:
    data = {"env": {"A": "1", "B": "2", "C": "3"}, "seed": 1, "resources": {"nodes": 2, "gpus_per_node": 1}}

    def shuffled(tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        items = list(tree.items())
        random.Random(4).shuffle(items)
        return {name: shuffled(value) for name, value in items}

    assert list(shuffled(data)) != list(data)
    assert key(shuffled(data)) == key(data)
    assert key({"command": ["a", "b"]}) != key({"command": ["b", "a"]})


def test_neighbouring_values_cannot_be_confused() -> None:
    commands = [["a b"], ["a", "b"], ["a,b"], ['a","b'], ["a", "b", ""], ["b", "a"]]
    assert len({key({"command": command}) for command in commands}) == len(commands)
    assert key({"shell": "a"}) != key({"command": ["a"]})
    # One letter, composed in two ways: two programs may treat it differently.
    assert key({"command": ["x", "\u00e9"]}) != key({"command": ["x", "e\u0301"]})


def test_what_is_hashed_names_only_what_is_not_the_default() -> None:
    spec = parse(merge([Layer("job", {**BASE, "resources": {"nodes": 2, "time": "5"}})])).spec
    assert key_inputs(spec, {"code": "c"}) == {
        "version": 1,
        "spec": {"command": ("train.py", "--steps", "10"), "resources.nodes": 2},
        "inputs": {"code": "c"},
    }
