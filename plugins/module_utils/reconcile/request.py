# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of the action `reconcile` to its module: first for a plan, then to prepare a plan's steps. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import Step
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import DeclaredLaunch, Policies


@dataclass(frozen=True)
class ReconcileRequest:
    """A request for a reconciliation.

    `set`: the name of the folder of job files; `facts`: its origin. The keys in `wanted` are complete. `steps`: the
    steps to carry out; None requests the plan. `launches`: their launches (submit/many). `runtime`: the job runtime
    of all launches. `runtime_files`: its files, by name, if they are to be copied.
    """

    state_root: str
    set: str
    facts: Mapping[str, object]
    policies: Policies
    wanted: Sequence[DeclaredLaunch]
    steps: Sequence[Step] | None = None
    launches: str = ""
    runtime: Ref | None = None
    runtime_files: Mapping[str, str] | None = None

    @classmethod
    def of(cls, given: JsonObject) -> ReconcileRequest:
        """Build a request from the module's argument, as `arguments` returns it."""
        wanted = [
            DeclaredLaunch(**{**spec, **{name: tuple(spec[name]) for name in ("elements", "after")}})
            for spec in given["wanted"]
        ]
        steps = None if given["steps"] is None else [Step.of(step) for step in given["steps"]]
        runtime = Ref.of(given["runtime"]) if given.get("runtime") else None
        typed = {"policies": Policies(**given["policies"]), "wanted": wanted, "steps": steps, "runtime": runtime}
        return cls(**{**given, **typed})

    def arguments(self) -> JsonObject:
        """Return the argument for the module."""
        return asdict(self)
