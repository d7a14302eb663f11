# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request that the action of module `uv_environment` sends from the controller to the host. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    made_of,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Tree
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.trees import trees_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import WheelFile


@dataclass(frozen=True)
class Brought:
    """What the controller has resolved and downloaded: a lock, and wheels with `path` on the controller.

    `tool`: the wheel of uv itself, None if the host has uv. `folder`: the folder on this host with the wheels sent.
    """

    lock_key: str
    lock: str
    wheels: Sequence[WheelFile]
    tool: WheelFile | None = None
    folder: str | None = None

    @classmethod
    def of(cls, given: JsonObject) -> Brought:
        """Read what a request holds. Raises TypeError if the fields do not match."""
        return record_of(cls, given, wheels=partial(records_of, WheelFile), tool=partial(record_of, WheelFile))


@dataclass(frozen=True)
class EnvironmentRequest:
    """The request that the action of module `uv_environment` sends to the host: the texts of the project.

    `uv`: the controller's own uv; `sources`: the identity of its package sources; `brought`: what it has downloaded.
    `trees`: the project's folders that are packages.
    """

    pyproject: str = ""
    uv_lock: str | None = None
    uv: str | None = None
    sources: str | None = None
    brought: Brought | None = None
    trees: Sequence[Tree] = ()

    @classmethod
    def of(cls, given: JsonObject) -> EnvironmentRequest:
        """The request from the module's argument. Raises RankzeroError."""
        request = made_of(cls, given)
        brought = given.get("brought")
        made = made_of(Brought.of, {"given": brought}) if brought else None
        return replace(request, brought=made, trees=trees_of(given.get("trees") or ()))
