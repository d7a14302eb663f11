# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request is typed from its making to the module, and what it is made of is asked once."""

from __future__ import annotations

import json
import subprocess
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import AllocationNeeds, ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds, StorageNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Placement, Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import SweepRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import (
    prepare,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.sweep import prepare_sweep
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import checkout
from tests.unit.jobs.projects import job, ready


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"launcher": {"inside_job": "12"}, "resources": {"gres": ["lscratch:5"]}},
        {"container": {"runtime": "pyxis", "image": "/images/torch.sqsh", "mounts": ["/data:/data"]}},
    ],
)
def test_a_request_arrives_as_it_was_sent(project: Path, more: dict[str, Any]) -> None:
    sent = ready(job(project, **more)).changed(secrets_file="/secrets").sent()
    arrived = Request.of(json.loads(json.dumps(sent)))
    assert (arrived.stores.store_root, arrived.secrets_file) == ("/store", "/secrets")
    assert isinstance(arrived.limits, ResourceNeeds) and isinstance(arrived.places, StorageNeeds)
    assert isinstance(arrived.inside_job, AllocationNeeds) == ("launcher" in more)
    assert isinstance(arrived.placement, Placement) == ("launcher" not in more)
    assert [type(needs) for needs in arrived.containers] == ([ContainerNeeds] if "container" in more else [])
    assert json.loads(json.dumps(arrived.arguments())) == json.loads(json.dumps(sent))


def test_a_sweep_arrives_as_it_was_sent(project: Path) -> None:
    read = job(project, sweep={"parameters": {"lr": ["1", "2"]}}, command=["train.py", "{lr}"])
    site = Site("/state", "/store", read.settings)
    made = prepare_sweep(
        read, "/state", lambda element, all_: prepare(element, site, relaunch="never", facts={}, elements=all_)
    )
    sent = json.loads(json.dumps(made.sent()))
    arrived = SweepRequest.of(sent)
    assert arrived.array.stores.store_root == "/store"
    assert [element.point for element in arrived.elements] == [{"lr": "1"}, {"lr": "2"}]
    assert [element.key for element in arrived.elements] == made.keys
    assert json.loads(json.dumps(arrived.arguments())) == sent


def test_the_repository_is_opened_once_for_all_that_a_launch_asks_of_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files, its commit, its origin and its diff come from one Checkout."""
    ask = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q"], ["remote", "add", "origin", "ssh://h/x"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*ask, *words], check=True)
    (project / "train.py").write_text("print('y')\n", encoding="utf-8")
    finds, opens = [], []
    find, opened = checkout.find, checkout.opened
    monkeypatch.setattr(checkout, "find", lambda folder: finds.append(folder) or find(folder))
    monkeypatch.setattr(checkout, "opened", lambda tree, *more: opens.append(tree) or opened(tree, *more))
    made = ready(job(project))
    about = json.loads(made.files["launch.json"])["code"]
    assert about["repository"] == "ssh://h/x" and about["commit"] and "+print('y')" in made.files["code.diff"]
    assert len(finds) == 1
    # The second view is that of the diff, whose index gets the new files.
    assert len(opens) == 2


def test_another_request_is_made_and_nothing_is_written_into_a_finished_one(project: Path) -> None:
    made = ready(job(project))
    later = made.changed(waits_for=["afterok:7"], supersedes=True)
    assert (later.sent()["waits_for"], later.sent()["supersedes"]) == (["afterok:7"], True)
    assert not made.request.waits_for and "supersedes" not in made.sent()
    with pytest.raises(FrozenInstanceError):
        made.request.relaunch = "always"  # type: ignore[misc]
