# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container runtimes that a cluster declares: read, planned, keyed, recorded and checked as ours are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.course.key import key_of
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_containers import OWN_CONTAINERS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import container_needs
from tests.unit.plan.containers import planned, problems

RECORD: dict[str, Any] = {
    "commands": ["boxer", "boxer-run"],
    "command": ["run", "{mounts}", "{root}", "{gpus}", "--in={workdir}", "{image}", "--"],
    "mounts": ["-v", "{source}:{target}"],
    "mounts_read_only": ["-v", "{source}:{target}:ro"],
    "root": ["--root"],
    "gpus": {"nvidia": ["--gpu"]},
    "images": ["root", "squashfs"],
    "overriding": ["BOXER_"],
    "log": ["^boxer: "],
}
ROOTLESS = {**RECORD, "command": [word for word in RECORD["command"] if word != "{root}"]}
del ROOTLESS["root"]
WANTED = {"runtime": "boxer", "image": "/images/{workdir}"}


def declared(**records: Any) -> ClusterSettings:
    return ClusterSettings(containers=OWN_CONTAINERS.parse(records))


def test_a_runtime_of_the_cluster_is_planned_as_ours_are() -> None:
    """What a job names is put into words one by one: a path that looks like a place stays a path."""
    assert "container.runtime: must be one of none, pyxis" in problems(WANTED)[0]
    assert problems(WANTED, declared(boxer=RECORD)) == []
    made = planned({**WANTED, "remap_root": True, "mounts": ["/data:/d:ro"]}, settings=declared(boxer=RECORD))
    assert made.container is not None
    words = list(made.container.words)
    assert words[:1] == ["run"] and words[-4:] == ["--root", f"--in={made.runs_dir()}", WANTED["image"], "--"]
    assert words[words.index("/data:/d:ro") - 1] == "-v" and f"{made.runs_dir()}:{made.runs_dir()}" in words
    text = render_script(made)
    assert '"$RANKZERO_BOXER"' in text and f"'{WANTED['image']}'" in text and "container/enter.sh" in text
    facts = dict(made.exports)["RANKZERO_CONTAINER_FACTS"].splitlines()
    told = {"boxer images root squashfs", "boxer command boxer", "boxer command boxer-run", "boxer log ^boxer: "}
    assert told <= set(facts)
    (needs,) = container_needs(made)
    assert needs.own is not None
    assert (needs.own["commands"], needs.own["images"]) == (RECORD["commands"], RECORD["images"])
    assert made.container.kind.record is not None and json.loads(json.dumps(made.container.kind.record)) == RECORD


def test_it_is_in_the_key_and_in_the_record() -> None:
    first = planned(WANTED, settings=declared(boxer=RECORD))
    assert planned(WANTED, settings=declared(boxer={**RECORD, "doc": "for people"})).key == first.key
    assert planned(WANTED, settings=declared(boxer={**RECORD, "root": ["--uid=0"]})).key != first.key
    layers = merge([Layer("job", {"name": "job", "command": ["train.py"], "container": WANTED})])
    document = json.loads(json.dumps(manifest(first, layers, {})))
    assert key_of(document) == first.key
    document["container"]["root"] = []
    assert key_of(document) != first.key


def test_the_rules_of_a_runtime_hold_for_it() -> None:
    own = declared(boxer=ROOTLESS)
    assert any(text.startswith("container.remap_root") for text in problems({**WANTED, "remap_root": True}, own))
    assert any("BOXER_X" in text for text in problems(WANTED, own, env={"BOXER_X": "1"}))
    assert any(text.startswith("container.level") for text in problems({**WANTED, "level": "job"}, own))


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ({**RECORD, "images": []}, "images must not be empty"),
        ({**RECORD, "images": ["docker"]}, "images item 1 must be one of root, squashfs, sif; not 'docker'"),
        ({**RECORD, "comands": []}, "has no key 'comands'; did you mean command"),
        ({name: value for name, value in RECORD.items() if name != "mounts"}, "mounts is required"),
        ({**RECORD, "command": ["{mounts}", "{image}", "{root}", "{gpus}"]}, "command must have {workdir}"),
        ({**RECORD, "command": [*RECORD["command"], "{home}"]}, "home and the word {home} of command need each other"),
        ({**RECORD, "command": [*RECORD["command"], "{user}"]}, "command item 8 has {user} in '{user}'; known here"),
        ({**RECORD, "mounts": ["{image}"]}, "mounts item 1 has {image} in '{image}'; known here: {source}, {target}"),
        ({**RECORD, "log": ["("]}, "log '(' is no regular expression"),
        ({**RECORD, "commands": ["a b"]}, "commands item 1 must be the name of a command"),
    ],
)
def test_a_wrong_record_is_refused_with_its_name_its_key_and_what_is_allowed(record: Any, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        OWN_CONTAINERS.parse({"boxer": record})
    assert str(caught.value).startswith("boxer ") and part in str(caught.value)
