# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import re
from dataclasses import fields
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import (
    override_layer,
    parse,
    parse_cluster,
    split_cluster,
)

MINIMAL = {"name": "job", "command": ["train.py"]}


def read(data: dict[str, Any], lines: dict[str, int] | None = None) -> LaunchSpec:
    return validated(merge([Layer("job.yml", data, lines or {})]))


def mistakes(data: dict[str, Any], lines: dict[str, int] | None = None) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(data, lines)
    assert caught.value.partial == {"error_code": "job_spec", "problems": caught.value.problems}
    return caught.value.problems


def test_a_minimal_job_has_all_defaults() -> None:
    spec = read(MINIMAL)
    assert spec == LaunchSpec(name="job", command=("train.py",))
    assert (spec.resources.nodes, spec.launcher.kind, spec.environment.mode, spec.artifact) == (1, "srun", "none", None)


def test_text_alone_gives_the_same_spec_as_typed_values() -> None:
    typed = {
        **MINIMAL,
        "resources": {"nodes": 2, "exclusive": True, "time": "01:00:00"},
        "seed": 7,
        "debug": False,
        "env": {"A": 1},
        "artifact": {"require": {"loss": {"lt": 4.5}, "same": {"eq": True}}, "grace": 0},
        "command": ["train.py", 1000],
    }
    text = {
        **MINIMAL,
        "resources": {"nodes": "2", "exclusive": "yes", "time": "01:00:00"},
        "seed": "7",
        "debug": "no",
        "env": {"A": "1"},
        "artifact": {"require": {"loss": {"lt": "4.5"}, "same": {"eq": "true"}}, "grace": "0"},
        "command": ["train.py", "1000"],
    }
    assert read(typed) == read(text)


def test_an_artifact_may_be_all_defaults() -> None:
    spec = read({**MINIMAL, "artifact": {}})
    assert spec.artifact is not None
    assert spec.artifact.path == "result.json"


@pytest.mark.parametrize(
    ("given", "path"),
    [("./result.json", "result.json"), ("a//b/../c", "a/c"), ("out/", "out"), ("..x/y", "..x/y"), ("a b", "a b")],
)
def test_an_artifacts_path_has_one_spelling(given: str, path: str) -> None:
    spec = read({**MINIMAL, "artifact": {"path": given}})
    assert spec.artifact is not None
    assert spec.artifact.path == path


def test_ten_mistakes_in_one_spec_give_ten_messages() -> None:
    found = mistakes(
        {
            "name": "a b",
            "comand": ["x"],
            "resources": {"nodes": 0, "nods": 3, "time": 43200, "memory": "lots"},
            "launcher": {"kind": "torchrn"},
            "env": {"1A": "x"},
            "secrets": {"TOKEN": "abc"},
            "artifact": "result.json",
            "debug": "maybe",
        },
        {"name": 1, "comand": 2, "resources.nodes": 4, "resources.time": 6},
    )
    expected = [
        r"name: must be letters, digits, .* not 'a b' \(set in job.yml:1\)",
        r"comand: unknown key; did you mean command\?; known here: name, command, .* \(set in job.yml:2\)",
        r"resources.nodes: must be a whole number of at least 1, not 0 \(set in job.yml:4\)",
        r"resources.nods: unknown key; did you mean nodes\?; known here: nodes, .* \(set in job.yml\)",
        r'resources.time: must be quoted: YAML read it as 43200; write it like "04:00:00" \(set in job.yml:6\)',
        r"resources.memory: must be a size such as 64G, .*, not 'lots' \(set in job.yml\)",
        r"env: key '1A' must be the name of an environment variable: letters, digits and _, .* \(set in job.yml\)",
        r"secrets: TOKEN must be one of \{from_env: NAME\}, .* \(set in job.yml\)",
        r"artifact: must be a map with some of the keys path, .* not 'result.json'; write \{path: \"result.json\"\} .*",
        r"debug: must be true or false, not 'maybe' \(set in job.yml\)",
        r"command: is required .*",
        r"launcher.kind: must be one of srun, torchrun, .*; not 'torchrn'; did you mean torchrun\?.*in job.yml\)",
    ]
    assert len(found) == len(expected)
    for message, pattern in zip(found, expected):
        assert re.fullmatch(pattern, message), message


def test_the_error_counts_and_lists() -> None:
    with pytest.raises(
        SpecError, match=r"^2 mistakes in the job spec:\n  - name: is required: .*\n  - command: is req"
    ):
        read({})
    with pytest.raises(SpecError, match=r"^1 mistake in the job spec:\n  - command: is req"):
        read({"name": "x"})


@pytest.mark.parametrize(
    "path", sorted({"", *(info.path.rpartition(".")[0] for info in fields_of(LaunchSpec) if "." in info.path)})
)
def test_an_unknown_key_is_a_mistake_at_every_level(path: str) -> None:
    data: dict[str, Any] = {"zzz": 1}
    for part in reversed(path.split(".") if path else []):
        data = {part: data}
    (found,) = mistakes({**MINIMAL, **data})
    assert found.startswith(f"{path + '.' if path else ''}zzz: unknown key; known here: ")


def test_a_wrong_value_is_not_blamed_twice() -> None:
    """Rules between values keep silent where one of the values is wrong already."""
    found = mistakes({**MINIMAL, "resources": {"gpus_per_node": "many"}, "launcher": {"ranks_per_node": 3}})
    assert len(found) == 1
    assert found[0].startswith("resources.gpus_per_node: ")


def test_who_set_a_wrong_value_is_said_also_across_layers() -> None:
    layers = [
        Layer("launch_cluster", {"resources": {"gpus_per_node": 8}}),
        Layer("job.yml", {**MINIMAL, "launcher": {"ranks_per_node": 2}}, {"launcher.ranks_per_node": 7}),
    ]
    with pytest.raises(SpecError, match=r"\(set in job.yml:7, launch_cluster\)$"):
        validated(merge(layers))


def test_mistakes_that_are_known_already_come_first() -> None:
    with pytest.raises(SpecError) as caught:
        validated(merge([Layer("job.yml", {"name": "x", "command": []})]), ["override nods: unknown"])
    assert [message.split(":")[0] for message in caught.value.problems] == ["override nods", "command"]


# --- overrides


def test_overrides_by_short_name_and_by_path() -> None:
    data, problems = override_layer(
        {"nodes": "8", "launcher": "torchrun", "artifact.then": "end", "resources.time": "00:10:00", "debug": "true"}
    )
    assert problems == []
    assert data == {
        "resources": {"nodes": "8", "time": "00:10:00"},
        "launcher": {"kind": "torchrun"},
        "artifact": {"then": "end"},
        "debug": "true",
    }


def test_overrides_by_section() -> None:
    data, problems = override_layer(
        {"resources": {"time": "00:10:00"}, "nodes": 4, "launcher": {"ranks_per_node": 2}, "launcher.port": 1}
    )
    assert problems == []
    assert data == {"resources": {"time": "00:10:00", "nodes": 4}, "launcher": {"ranks_per_node": 2, "port": 1}}


def test_the_short_names_are_a_closed_list() -> None:
    assert short_names() == {
        "preflight": "preflight.enabled",
        "offline": "offline",
        "seed": "seed",
        "fabric": "fabric",
        "inside_job": "launcher.inside_job",
        "nodes": "resources.nodes",
        "spares": "resources.spares",
        "gpus_per_node": "resources.gpus_per_node",
        "cpus_per_rank": "resources.cpus_per_rank",
        "memory": "resources.memory",
        "time": "resources.time",
        "partition": "resources.partition",
        "account": "resources.account",
        "qos": "resources.qos",
        "constraint": "resources.constraint",
        "reservation": "resources.reservation",
        "segment": "resources.segment",
        "switches": "resources.switches",
        "exclude": "resources.exclude",
        "exclusive": "resources.exclusive",
        "mpi": "launcher.srun.mpi",
        "launcher": "launcher.kind",
        "ranks_per_node": "launcher.ranks_per_node",
        "debug": "debug",
        "tp": "parallelism.tensor",
        "pp": "parallelism.pipeline",
        "cp": "parallelism.context",
        "ep": "parallelism.expert",
        "mbs": "parallelism.micro_batch",
        "gbs": "parallelism.global_batch",
        "samples": "sweep.samples",
        "parallel": "sweep.parallel",
    }


def test_a_short_name_of_a_list_takes_its_only_element() -> None:
    data, problems = override_layer({"exclude": "node07,node[01-02]", "mpi": "pmix"})
    assert problems == []
    assert data == {"resources": {"exclude": ["node07,node[01-02]"]}, "launcher": {"srun": {"mpi": "pmix"}}}
    spec = validated(
        merge([Layer("job.yml", {**MINIMAL, "launcher": {"srun": {"mem-bind": "local"}}}), Layer("x", data)])
    )
    assert spec.launcher.srun == {"mem-bind": "local", "mpi": "pmix"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        *((name, "unknown; short names: account, constraint, cp, ") for name in ("resources", 7, "")),
        ("nods", "; short names: account, constraint, cp, cpus_per_rank, debug, "),
        ("resources.nods", "; known there: resources.account, "),
        ("nowhere.x", "; sections: artifact, "),
        ("env.A", "env is set as a whole; give all of its value as env"),
        ("artifact.require.loss.lt", "artifact.require is set as a whole"),
    ],
)
def test_an_unknown_override_is_a_mistake(name: Any, told: str) -> None:
    data, (problem,) = override_layer({name: "1"})
    assert data == {}
    assert problem.startswith(f"override {name}: ") and told in problem
    near = {"nods": "nodes", "resources.nods": "resources.nodes"}.get(name)
    assert (f"did you mean {near}?" in problem) if near else "did you mean" not in problem


def test_an_override_may_delete() -> None:
    data, _problems = override_layer({"partition": None})
    spec = validated(merge([Layer("a", {**MINIMAL, "resources": {"partition": "x"}}), Layer("b", data)]))
    assert spec.resources.partition is None


# --- the cluster


def test_settings_of_a_cluster_are_no_part_of_the_job() -> None:
    own, below = split_cluster({"state_root": "/s", "templates": "t", "resources": {"partition": "p"}, "nods": 1})
    assert own == {"state_root": "/s", "templates": "t"}
    assert below == {"resources": {"partition": "p"}, "nods": 1}


def test_a_misspelt_setting_of_a_cluster_is_reported_as_one() -> None:
    own, below = split_cluster({"state_rot": "/s", "resorces": {}, 7: 8})
    assert (own, below) == ({"state_rot": "/s"}, {"resorces": {}, 7: 8})
    _settings, problems = parse_cluster(merge([Layer("c", own)]))
    known = ", ".join(field.name for field in fields(ClusterSettings))
    assert known.startswith("state_root, store_root, ")
    assert problems == [f"state_rot: unknown key; did you mean state_root?; known here: {known} (set in c)"]


@pytest.mark.parametrize("root", ["/s", "~/x", "$SCRATCH/x", "~", "/with space/$x"])
def test_good_roots(root: str) -> None:
    settings, problems = parse_cluster(merge([Layer("c", {"state_root": root})]))
    assert problems == []
    assert settings.state_root == root


@pytest.mark.parametrize("root", ["relative", "", "/a\nb", "/a%j", "/a\\b", 7, None, ["/a"]])
def test_bad_roots(root: Any) -> None:
    settings, problems = parse_cluster(merge([Layer("c", {"store_root": root})]))
    assert settings == ClusterSettings()
    assert len(problems) == (0 if root is None else 1)


# --- the table itself


def test_every_field_has_what_the_generators_need() -> None:
    for info in fields_of(LaunchSpec):
        assert info.meta["doc"].endswith("."), info.path
        assert info.meta["type"].title, info.path
        assert info.meta["type"].schema, info.path


def test_every_default_and_every_example_is_a_good_value() -> None:
    for info in [*fields_of(LaunchSpec), *fields_of(ClusterSettings)]:
        example = info.meta["example"]
        if example is not None:
            info.meta["type"].parse(example)
        if info.default is not None and not info.meta["required"] and info.path != "command":
            assert info.meta["type"].parse(info.default) == info.default, info.path


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        read(MINIMAL).name = "other"  # type: ignore[misc]


def test_parse_tells_where_the_mistakes_stand() -> None:
    parsed = parse(merge([Layer("x", {"resources": {"nodes": 0}, "zzz": 1})]))
    assert parsed.bad_paths == {"resources.nodes", "zzz", "name"}
    assert parsed.spec.resources.nodes == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([{"path": "/shared/platform", "owners": ["platform", "60011"]}], ""),
        ([], ""),
        ([{"path": "/shared/platform"}], "item 1 needs owners"),
        ([{"owners": ["platform"]}], "item 1 needs path"),
        ([{"path": "/shared/platform", "owners": []}], "item 1 owners must not be empty"),
        ([{"path": "/shared/platform", "owner": "platform"}], "item 1 has the key 'owner'; did you mean owners"),
        ([{"path": "~/platform", "owners": ["platform"]}], "item 1 path must be an absolute path of letters"),
        ([{"path": "/plat form", "owners": ["platform"]}], "item 1 path must be an absolute path of letters"),
        ([{"path": "/p", "owners": ["a b"]}], "item 1 owners item 1 must be the name"),
        (["/shared/platform"], "item 1 must be a map with path and owners"),
        ("/shared/platform", "must be a list"),
    ],
)
def test_stores_of_others_have_a_path_and_owners(value: object, said: str) -> None:
    settings, problems = parse_cluster(merge([Layer("c", {"stores": value})]))
    assert (said in problems[0]) if said else not problems
    if not said:
        assert [{**one, "owners": list(one["owners"])} for one in settings.stores] == value


@pytest.mark.parametrize("field", dataclasses.fields(LaunchSpec), ids=lambda field: field.name)
def test_a_text_in_the_place_of_a_section_is_a_mistake_and_no_error(field: dataclasses.Field[Any]) -> None:
    for value in ("foo", 7, True, [1], None):
        try:
            validated(merge([Layer("job", {"name": "a", "command": ["a"], field.name: value})]))
        except SpecError as error:
            assert field.name in error.message
