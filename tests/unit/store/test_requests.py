# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller's half of a producer tells the host: the same after the way through JSON, and checked there."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.request import DatasetRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.manifest import HubRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import ImageRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import CondaRecipe, CondaRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import Brought, EnvironmentRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File

FILES = (File("a/b.txt", "0" * 64, 3), File("c", "1" * 64, 0))
REQUESTS: list[Any] = [
    DatasetRequest(),
    DatasetRequest(FILES, "/here", complete=True),
    DatasetRequest(FILES, "/here", follow=2, again=True),
    HubRequest(),
    HubRequest(FILES, "/here", None, "/tmp/files.tar"),
    HubRequest((), "hub", "0" * 40),
    ImageRequest(),
    ImageRequest("FROM base", (("a/b", "- 0"),), "/tmp/context.tar.gz"),
    EnvironmentRequest("[project]", None, "/usr/bin/uv", "s", Brought("k", "lock", [], None, "/tmp/wheels")),
    CondaRequest(CondaRecipe("archive", path="/here/x.tar", sha256="0" * 64, size=7), "/tmp/x.tar"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=repr)
def test_a_request_arrives_as_it_was_sent(request_: Any) -> None:
    sent = request_.arguments() if hasattr(request_, "arguments") else asdict(request_)
    assert type(request_).of(json.loads(json.dumps(sent))) == request_


@pytest.mark.parametrize(
    "given",
    [{"unknown": 1}, {"files": [["../../etc/passwd", "0", 1]]}, {"files": [["/etc/passwd", "0", 1]]}]
    + [{"files": wrong} for wrong in (7, [7], [["a"]], [["a", "0", "many"]], [["a", "0", None]])],
    ids=repr,
)
def test_what_no_action_plugin_sends_is_refused(given: dict[str, Any]) -> None:
    for kind in (DatasetRequest, HubRequest, ImageRequest, EnvironmentRequest, CondaRequest):
        with pytest.raises(RankzeroError):
            kind.of(given)


@pytest.mark.parametrize(
    "wrong", [{"brought": 7}, {"brought": {"x": 1}}, {"context": [1]}, {"conda": {"form": "x", "y": 1}}]
)
def test_what_is_wrong_inside_is_refused_as_well(wrong: dict[str, Any]) -> None:
    for kind in (ImageRequest, EnvironmentRequest, CondaRequest):
        with pytest.raises(RankzeroError):
            kind.of(wrong)
