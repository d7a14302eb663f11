# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `reconcile` asks its module: first for a plan, then to prepare the steps of one. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import Step
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import Policies, Wanted


@dataclass(frozen=True)
class ReconcileRequest:
    """`set` names the folder of job files, and `facts` say where it comes from. The keys in `wanted` are whole.
    `steps`: those to carry out; None asks for the plan.
    """

    state_root: str
    set: str
    facts: Mapping[str, object]
    policies: Policies
    wanted: Sequence[Wanted]
    steps: Sequence[Step] | None = None

    @classmethod
    def of(cls, given: JsonObject) -> ReconcileRequest:
        """From the module's argument, as `arguments` has made it."""
        wanted = [
            Wanted(**{**one, **{name: tuple(one[name]) for name in ("elements", "after")}}) for one in given["wanted"]
        ]
        steps = None if given["steps"] is None else [Step(**step) for step in given["steps"]]
        return cls(**{**given, "policies": Policies(**given["policies"]), "wanted": wanted, "steps": steps})

    def arguments(self) -> JsonObject:
        """As it is sent to the module."""
        return asdict(self)
