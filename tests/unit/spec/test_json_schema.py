# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema of a job file: what an editor accepts, and where it underlines a mistake."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import parse_job_text

# A dependency of ansible-lint. The oldest Pythons test the library without it.
jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema for this Python")

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs" / "job-spec.schema.json"
SCHEMA: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
EXAMPLES = sorted((ROOT / "examples").glob("*/jobs/*.yml"))


class CoreSchema(yaml.SafeLoader):
    """Scalars as an editor reads them: YAML 1.2, in which 12:00:00 and yes are text."""


CoreSchema.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("bool", "int", "timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for tag, pattern, firsts in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
):
    CoreSchema.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(firsts))


def mistakes(document: object) -> list[tuple[list[Any], str]]:
    """The paths that an editor underlines, and what the validator says."""
    errors = jsonschema.Draft7Validator(SCHEMA).iter_errors(document)
    return [(list(error.absolute_path), error.message) for error in errors]


def sections(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The maps with fixed keys, with their paths."""
    if "properties" in schema and schema.get("additionalProperties") is False:
        yield path, schema
        for name, inner in schema["properties"].items():
            yield from sections(inner, (*path, name))


def test_schema_is_valid() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_example_is_accepted_and_names_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert mistakes(yaml.load(text, CoreSchema)) == []
    name = text.splitlines()[0].partition("# yaml-language-server: $schema=")[2]
    assert (path.parent / name).resolve() == FILE


@pytest.mark.parametrize("info", list(fields_of(LaunchSpec)), ids=lambda info: str(info.path))
def test_every_documented_value_and_null_are_accepted(info: Any) -> None:
    for value in [info.meta["example"]] * (info.meta["example"] is not None) + [None] * (not info.meta["required"]):
        document: Any = json.loads(json.dumps(value))
        for part in reversed(info.path.split(".")):
            document = {part: document}
        document = {"name": "a", **document}
        assert mistakes(document) == []


@pytest.mark.parametrize(
    "text",
    [
        "command: [train.py, --lr, 0.1, --resume, true]",
        "env: {LR: 1e-4, DEBUG: 1, FAST: true}",
        "resources: {time: 30, memory: 500}",
        "resources: {time: 12:00:00, exclusive: yes}",
        "sweep: {parameters: {lr: [0.03, 1e-4], depth: [1, two]}}",
        "sweep: {method: random, samples: 3, parameters: {lr: {min: 1e-4, max: 0.1, scale: log}}}",
        "sweep: {method: list, points: [{lr: 0.1}]}",
        "artifact: {path: a.json, require: {loss: {lt: 4.0}, equal: {eq: true}}}",
        "$schema: ../job-spec.schema.json",
    ],
)
def test_values_that_a_job_file_may_hold_are_accepted(text: str) -> None:
    assert mistakes({"name": "a", **yaml.load(text, CoreSchema)}) == []


@pytest.mark.parametrize("path", [path for path, _ in sections(SCHEMA)], ids=lambda path: ".".join(path) or "top")
def test_misspelt_key_is_underlined_in_its_own_section(path: tuple[str, ...]) -> None:
    document: dict[str, Any] = {"name": "a"}
    inner = document
    for part in path:
        inner = inner.setdefault(part, {})
    inner["mispelt"] = 1
    where = [said for at, said in mistakes(document) if at == list(path)]
    assert any("mispelt" in said for said in where)
    assert all(at[: len(path)] == list(path) for at, _ in mistakes(document))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("resources: {nodes: many}", ["resources", "nodes"]),
        ("launcher: {rendezvous: etcd}", ["launcher", "rendezvous"]),
        ("artifact: {require: {loss: {less: 4}}}", ["artifact", "require", "loss"]),
        ("sweep: {parameters: {lr: [[1]]}}", ["sweep", "parameters", "lr", 0]),
        ("sweep: {parameters: {lr: {min: 1, max: 2, scales: log}}}", ["sweep", "parameters", "lr"]),
        ("data: {text: {path: /a, digests: x}}", ["data", "text"]),
    ],
)
def test_only_the_wrong_value_is_underlined(text: str, path: list[Any]) -> None:
    assert [at for at, _ in mistakes({"name": "a", **yaml.load(text, CoreSchema)})] == [path]


def test_no_alternatives_blur_a_mistake_and_every_pattern_is_one_of_javascript() -> None:
    stack: list[Any] = [copy.deepcopy(SCHEMA)]
    while stack:
        entry = stack.pop()
        if isinstance(entry, dict):
            assert not {"anyOf", "oneOf"} & set(entry), entry.get("description")
            pattern = entry.get("pattern")
            # Flags and named groups are written differently in JavaScript: an editor would ignore the pattern.
            assert not isinstance(pattern, str) or "(?" not in pattern.replace("(?:", "").replace("(?!", "")
            stack += entry.values()
        elif isinstance(entry, list):
            stack += entry


def test_job_file_may_name_its_schema_in_yaml_and_in_json() -> None:
    for text in ('$schema: "x"\nname: a\n', '{"$schema": "x", "name": "a"}'):
        assert dict(parse_job_text(text, "a.yml").data) == {"name": "a"}
