# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers of a job on the controller: job files, cluster settings, overrides.

A job file is data: every plain scalar stays text (YAML's own types would turn 12:00:00 into 43200), nothing in it is
templated, tags and merge keys are refused. `null`, `~` and an empty value delete what a lower layer has set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.checks import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.merge import Layer, Merged, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.reading import (
    override_layer,
    parse_cluster,
    split_cluster,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.spec import ClusterSettings, LaunchSpec

# Far more than any job needs; aliases of aliases could otherwise fill the memory of the controller.
MOST_VALUES = 20_000


class _TextLoader(yaml.BaseLoader):
    """BaseLoader that keeps text as text, knows null, and refuses tags, merge keys and doubled keys."""

    lines: dict[str, int]
    values = 0

    def build(self, node: Any, path: str) -> Any:
        if node.tag.startswith("!") or (
            node.tag.startswith("tag:yaml.org") and node.tag.rsplit(":", 1)[1] not in ("str", "map", "seq")
        ):
            raise yaml.constructor.ConstructorError(
                None, None, f"the tag {node.tag} is not allowed: a job file is plain data", node.start_mark
            )
        self.values += 1
        if self.values > MOST_VALUES:
            raise yaml.constructor.ConstructorError(
                None, None, f"it holds more than {MOST_VALUES} values; do its aliases multiply?", node.start_mark
            )
        if path:
            self.lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        if node.style is None and node.value in ("", "~", "null", "Null", "NULL"):
            return None
        return node.value

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key_node.start_mark)
            if key in result:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands here twice", key_node.start_mark
                )
            below = f"{path}.{key}" if path else key
            result[key] = self.build(value_node, below)
            self.lines[below] = key_node.start_mark.line + 1
        return result


def parse_job_text(text: str, name: str) -> Layer:
    """The layer of a job file's text; raises RankzeroError with file and line where it is no YAML map."""
    manifest = _manifest(text)
    if manifest is not None:
        # launch.json of an earlier run carries the spec that made it.
        if not isinstance(manifest.get("spec"), dict):
            raise RankzeroError(f"job: {name} is a launch manifest without a `spec`")
        return Layer(name, manifest["spec"])
    lines: dict[str, int] = {}
    try:
        loader = _TextLoader(text)
        loader.lines = lines
        node = loader.get_single_node()
        data = loader.build(node, "") if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        raise RankzeroError(f"job: {where} is not a job file: {getattr(error, 'problem', None) or error}") from error
    except RecursionError as error:
        raise RankzeroError(f"job: {name} is not a job file: an alias stands inside of what it names") from error
    if not isinstance(data, dict):
        raise RankzeroError(
            f"job: {name} must hold a map with at least `name` and `command`, not {type(data).__name__}"
        )
    return Layer(name, data, lines)


def _manifest(text: str) -> dict[str, Any] | None:
    """The document of a launch.json, or None. Read as JSON: YAML would not join the halves of an escaped character."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "rankzero_launch" in document else None


def load_job_file(path: str, cwd: str) -> tuple[Layer, str]:
    """(layer, folder of the file). A relative path is looked up from `cwd`."""
    full = os.path.join(cwd, os.path.expanduser(path))
    try:
        with open(full, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        raise RankzeroError(
            f"job: there is no file {full} on the controller; give a path relative to {cwd} or an absolute one"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RankzeroError(f"job: {full} cannot be read: {error}") from error
    return parse_job_text(text, os.path.relpath(full, cwd) if full.startswith(cwd + os.sep) else full), os.path.dirname(
        full
    )


@dataclass(frozen=True)
class Job:
    """A launch as its layers say it: the spec, who set what, the cluster's settings, and where paths start; `folder` is
    the job file's.
    """

    spec: LaunchSpec
    merged: Merged
    settings: ClusterSettings
    code_src: str
    project: str
    folder: str
    containerfile: str | None = None
    context: str | None = None


def read_job(
    job: str | Mapping[str, Any] | None,
    cluster: Mapping[str, Any] | None,
    overrides: Mapping[str, Any] | None,
    command_line: Mapping[str, Any] | None,
    cwd: str,
) -> Job:
    """Merge and check every layer: cluster -> job -> overrides of the task -> overrides of the command line.

    job: path of a job file, or the spec itself. All mistakes of all layers are raised together (SpecError).
    """
    problems: list[str] = []
    if job is None or job == "":
        raise RankzeroError(
            "job: is required: the path of a job file (-e job=jobs/train.yml), or a job spec as a map (launch_job)"
        )
    if isinstance(job, Mapping):
        layer, base = Layer("the job", job), cwd
    elif not isinstance(job, str):
        raise RankzeroError(f"job: must be the path of a job file or a job spec as a map, not {job!r}")
    else:
        layer, base = load_job_file(job, cwd)
    own, below = split_cluster(cluster or {})
    settings, found = parse_cluster(merge([Layer("launch_cluster", own)]))
    problems += [f"launch_cluster.{text}" for text in found]
    layers = [Layer("launch_cluster", below), layer]
    for name, values in (("overrides", overrides), ("command line", command_line)):
        data, found = override_layer(values or {})
        problems += found
        layers.append(Layer(name, data))
    merged = merge(layers)
    spec = validated(merged, problems, settings.fabrics)

    def located(path: str, dotted: str) -> str:
        # A path in a job file, and a default, is relative to that file; any other one to where the command was given.
        origin = merged.origins.get(dotted)
        start = base if origin is None or origin == layer.name or origin.startswith(layer.name + ":") else cwd
        return os.path.normpath(os.path.join(start, os.path.expanduser(path)))

    def build_path(name: str) -> str | None:
        path = getattr(spec.container.build, name, None)
        return located(path, f"container.build.{name}") if path else None

    return Job(
        spec,
        merged,
        settings,
        code_src=located(spec.code.src, "code.src"),
        project=located(spec.environment.project, "environment.project"),
        folder=base,
        containerfile=build_path("containerfile"),
        context=build_path("context"),
    )
