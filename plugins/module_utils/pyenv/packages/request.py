# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action of `uv_environment` sends to the host for a set of packages. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Tree
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.trees import trees_of


@dataclass(frozen=True)
class Offer:
    """A finished set on the controller: its folder there, which the host may see, and the sha256 of its manifest."""

    folder: str
    sha256: str


@dataclass(frozen=True)
class PackagesRequest:
    """The texts of the project.

    `uv`: the controller's own uv. `offer`: a set that the controller has made. `sent`: an archive of it on the host.
    `trees`: the project's folders that are packages.
    """

    pyproject: str = ""
    uv_lock: str | None = None
    uv: str | None = None
    offer: Offer | None = None
    sent: str | None = None
    trees: Sequence[Tree] = ()

    @classmethod
    def of(cls, given: JsonObject) -> PackagesRequest:
        """Build the request from the module's argument. Raises RankzeroError."""
        offer = given.get("offer")
        trees = trees_of(given.get("trees") or ())
        return replace(made_of(cls, given), offer=made_of(Offer, offer) if offer else None, trees=trees)

    def arguments(self) -> JsonObject:
        """Return the request as it is sent to the module."""
        return asdict(self)
