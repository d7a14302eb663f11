# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent for a launch, and what of it must be on the lab before: its code and job runtime."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import bundle_key, publish_files
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs import prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, read_job

if TYPE_CHECKING:
    from benchmarks.faults.ground import Ground

#: The version of the collection whose launches are adopted, and of the one that adopts them.
VERSION, ANOTHER = "0.0.0", "0.0.1"
#: Like `prepare`, for a launch or a sweep: the launch whose code and runtime are needed, and what is sent.
Prepare = Callable[..., tuple[Prepared, dict[str, Any]]]


def send(ground: Ground, job: dict[str, Any], prepared: Prepare, version: str) -> tuple[str, dict[str, Any]]:
    """Write the request for a launch as the controller sends it, and bring to the lab what it needs. Returns its path
    there, and what it says.
    """
    state, store = f"{ground.inside}/state", f"{ground.inside}/store"
    read = read_job(job, {"state_root": state, "store_root": store}, None, None, str(ground.code))
    with ground.lock, _version(version):
        made, sent = prepared(
            read, site=Site(state, store, read.settings), relaunch="on_failure", facts={"collection": version}
        )
        launch = sent.get("array", sent)
        for ref in launch["refs"]:
            _bring(ground, ref, made)
    name = f"{job['name']}-{version}.json"
    (ground.outside / "requests" / name).write_text(json.dumps(sent), encoding="utf-8")
    return f"{ground.inside}/requests/{name}", sent


def _bring(ground: Ground, ref: dict[str, Any], made: Prepared) -> None:
    there = ground.outside / Path(ref["path"]).relative_to(ground.inside)
    if there.exists():
        return
    above = [folder for folder in there.parents if not folder.exists()]
    if ref["kind"] == "runtime":
        publish_files(str(there), made.runtime)
    elif ref["kind"] == "code":
        shutil.copytree(ground.code, there)
    else:
        raise FileNotFoundError(f"{ref['kind']} {there} has not been built")
    # Jobs work in other folders at the same time: only what is new changes its owner.
    for folder in above:
        ground.give_only(folder)
    ground.give(there)


@contextlib.contextmanager
def _version(version: str) -> Iterator[None]:
    """Prepare as another version of the collection does: its job runtime has another digest."""
    if version == VERSION:
        return (yield)
    _key, files = prepare.runtime_bundle()
    files = {name: f"{text}# {version}\n" if name.endswith(".py") else text for name, text in files.items()}
    with mock.patch.object(prepare, "runtime_bundle", lambda: (bundle_key(files), files)):
        yield


def job_of(job: Job, **options: Any) -> tuple[Prepared, dict[str, Any]]:
    """`Prepare` for a launch."""
    made = prepare.prepare(job, **options)
    return made, made.sent()
