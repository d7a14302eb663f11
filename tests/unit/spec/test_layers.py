# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, Merged, merge


def merged(*data: dict[Any, Any]) -> Merged:
    return merge([Layer(f"layer{number}", values) for number, values in enumerate(data)])


@pytest.mark.parametrize(
    ("lower", "upper", "result"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        # maps merge by key, to any depth
        (
            {"m": {"a": 1, "n": {"x": 1}}},
            {"m": {"b": 2, "n": {"y": 2}}},
            {"m": {"a": 1, "b": 2, "n": {"x": 1, "y": 2}}},
        ),
        # lists replace
        ({"l": [1, 2, 3]}, {"l": [4]}, {"l": [4]}),
        ({"l": [1]}, {"l": []}, {"l": []}),
        ({"l": (1, 2)}, {}, {"l": [1, 2]}),
        # null deletes what is below, a whole map too, and leaves nothing behind
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"m": {"a": 1, "b": 2}}, {"m": {"a": None}}, {"m": {"b": 2}}),
        ({"m": {"a": 1}}, {"m": None}, {}),
        ({}, {"a": None}, {}),
        # one kind replaces the other; the type check of the spec names the mistake
        ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        ({}, {"a": {}}, {"a": {}}),
        # what looks like nothing is a value
        ({"a": 1}, {"a": False}, {"a": False}),
        ({"a": 1}, {"a": 0}, {"a": 0}),
        ({"a": 1}, {"a": ""}, {"a": ""}),
    ],
)
def test_merge(lower: dict[str, Any], upper: dict[str, Any], result: dict[str, Any]) -> None:
    before = copy.deepcopy((lower, upper))
    assert merged(lower, upper).data == result
    # What was given is left alone.
    assert (lower, upper) == before


def test_a_result_shares_nothing_with_its_layers() -> None:
    lower: dict[str, Any] = {"m": {"a": 1}, "l": [1]}
    found = merged(lower).data
    found["m"]["b"] = 2
    found["l"].append(2)
    assert lower == {"m": {"a": 1}, "l": [1]}


def test_each_value_knows_who_set_it() -> None:
    found = merge(
        [
            Layer("launch_cluster", {"resources": {"partition": "batch", "qos": "low"}, "env": {"A": "1", "B": "1"}}),
            Layer(
                "jobs/gpt.yml",
                {"name": "gpt", "resources": {"nodes": 2, "qos": None}, "env": {"B": "2"}},
                {"name": 1, "resources": 2, "resources.nodes": 3, "env": 5, "env.B": 6},
            ),
            Layer("command line", {"resources": {"nodes": 8}}),
        ]
    )
    assert found.origins == {
        "name": "jobs/gpt.yml:1",
        # A map belongs to whoever gave it first.
        "resources": "launch_cluster",
        "env": "launch_cluster",
        "resources.partition": "launch_cluster",
        "resources.nodes": "command line",
        "env.A": "launch_cluster",
        "env.B": "jobs/gpt.yml:6",
    }
    assert found.origin("resources.nodes") == "command line"
    # The nearest one above or below, for what has no value of its own.
    assert found.origin("resources") == "launch_cluster"
    assert found.origin("name.x") == "jobs/gpt.yml:1"
    assert found.origin("artifact") is None
    assert found.origin("nam") is None


def test_a_value_that_replaces_a_map_ends_what_was_known_of_it() -> None:
    found = merged({"a": {"b": 1, "c": 2}, "ab": 1}, {"a": 3})
    assert found.origins == {"a": "layer1", "ab": "layer0"}
    assert merged({"a": 3}, {"a": {"b": 1}}).origins["a.b"] == "layer1"
    assert merged({"a": {"b": 1}}, {"a": None}).origins == {}


@pytest.mark.parametrize(("key", "shown"), [(7, "7"), (True, "True"), (None, "None"), (1.5, "1.5")])
def test_a_key_that_is_no_text_is_a_mistake(key: Any, shown: str) -> None:
    found = merged({"env": {key: "x", "B": "y"}})
    assert found.data == {"env": {"B": "y"}}
    assert found.problems == [f"env.{shown}: a key must be text, not {shown}; quote it (set in layer0)"]
