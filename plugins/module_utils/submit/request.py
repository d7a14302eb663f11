# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request for a submission, and how it relates to the launch that exists."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import text_replaced, with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import AllocationNeeds, ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds, StorageNeeds

if TYPE_CHECKING:  # the controller reads requests without the rules of a status
    from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus

SUPERSEDED = "it waited for a launch that is over"


@dataclass(frozen=True)
class Placement:
    """The nodes that the job requests, from its spec."""

    exclude: Sequence[str] = ()
    nodelist: str = ""


@dataclass(frozen=True)
class Predecessor:
    """An earlier launch that a new one of its name is compared with: the recorded `spec` and `refs`, and its code.

    `code`: how it differs from that of the new one (admission/predecessor.py); None if its files are not known.
    """

    name: str
    key: str
    generation: int
    run_dir: str
    spec: Mapping[str, object]
    refs: Sequence[Mapping[str, str]]
    code: JsonObject | None


@dataclass(frozen=True)
class Stores:
    """The stores of a launch, as the options of the modules that use them."""

    store_root: str = ""
    stores: Sequence[JsonObject] = ()
    store_group_writable: bool = False


@dataclass(frozen=True)
class Request:
    """One launch as the controller rendered it. `files` still contain `token` in place of the generation.

    `inside_job` is set for a launch inside a running job, and `placement` for any other launch.
    """

    name: str
    key: str
    token: str
    runs_dir: str
    job_name: str
    files: Mapping[str, str]
    refs: Sequence[Ref]
    relaunch: str
    limits: ResourceNeeds
    submitter: str = ""
    secrets_file: str | None = None
    secret_files: Mapping[str, str] = field(default_factory=dict)
    containers: Sequence[ContainerNeeds] = ()
    inside_job: AllocationNeeds | None = None
    placement: Placement | None = None
    places: StorageNeeds = field(default_factory=StorageNeeds)
    stores: Stores = field(default_factory=Stores)
    checkpoint_dir: str | None = None
    archives: Sequence[Mapping[str, str]] = ()
    # The files of the code with their short digests, for the comparison with an earlier launch; {} if there are many.
    code: Mapping[str, str] = field(default_factory=dict)
    # The script's own --dependency, and additional dependencies of this submission (sbatch(1)), such as afterok:12.
    dependency: str = ""
    waits_for: Sequence[str] = ()
    # A predecessor was submitted again, so a pending job of this launch waits for a launch that is over.
    supersedes: bool = False
    # The last generation that may be submitted, as a plan has named it; 0: any.
    last: int = 0
    # resources.any_of, each with its `time` in minutes as well: the launch is submitted once for each; empty: once.
    any_of: Sequence[Mapping[str, Any]] = ()
    # Several clusters were asked, of which one runs it (run/grants.py): what first.json says, and in `reopens` the
    # generation after which another one may be made here although another cluster ran it; empty: this cluster alone.
    first: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: JsonObject) -> Request:
        """Build a request from the module's arguments, as `arguments` returns them."""
        typed = {name: kind(**given[name]) for name, kind in _TYPED.items() if isinstance(given.get(name), Mapping)}
        containers = [ContainerNeeds(**needs) for needs in given.get("containers", ())]
        return cls(**{**given, **typed, "containers": containers, "refs": [Ref.of(ref) for ref in given["refs"]]})

    def arguments(self) -> JsonObject:
        """Return the arguments for the module. The module adds the submitter itself."""
        values = {**asdict(self), "refs": [ref.record() for ref in self.refs]}
        del values["submitter"]
        return {name: value for name, value in values.items() if value or name not in _IF_ANY}

    @property
    def shared(self) -> Request:
        """What a sweep's elements share; of a single launch, itself."""
        return self

    def changed(self, **changes: object) -> Request:
        """Return the request with other values."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def after(self, generations: Mapping[str, str], waits: Sequence[str]) -> Request:
        """Return the request once the launches before are known: their generations by token, the jobs to wait for."""
        waits_for = [f"afterok:{':'.join(waits)}"] if waits else []
        return self.changed(files=text_replaced(self.files, generations), waits_for=waits_for)

    @property
    def state_root(self) -> str:
        """The state root: the folder above runs/NAME/KEY."""
        return os.path.dirname(os.path.dirname(os.path.dirname(self.runs_dir)))

    @property
    def alternatives(self) -> tuple[tuple[ResourceNeeds, tuple[str, ...]], ...]:
        """Return what each submission of the launch needs, with the options of sbatch that are its own. Usually one."""
        made = []
        for given in self.any_of or ({},):
            needs: dict[str, Any] = {name: value for name, value in given.items() if name != "time"}
            options = tuple(f"--{name}={value}" for name, value in sorted(given.items()) if name != "time_minutes")
            made.append((replace(self.limits, **needs), options))
        return tuple(made)

    def name_of(self, generation: int) -> str:
        """Return the Slurm job name of one generation."""
        return with_generation(self.job_name, self.token, generation)


_TYPED: dict[str, Callable[..., Any]] = {
    "limits": ResourceNeeds.of,
    "inside_job": AllocationNeeds,
    "placement": Placement,
    "places": StorageNeeds,
    "stores": Stores,
}
# Fields that few launches have.
_IF_ANY = ("secrets_file", "waits_for", "supersedes", "last", "any_of", "first")


def superseded(request: Request, status: LaunchStatus | None) -> bool:
    """Return whether a pending generation can never start, because it waits for a launch that is over."""
    return status is not None and status.pending and request.supersedes and request.relaunch != "never"


def dependency_options(request: Request) -> list[str]:
    """Return sbatch's options for the dependencies of a submission. They replace the script's own line.

    A job whose dependency can never be satisfied would wait forever. With --kill-on-invalid-dep Slurm ends it, and the
    next launch submits a new one. Raises RankzeroError if the dependencies cannot be combined.
    """
    if not request.waits_for:
        return []
    if "?" in request.dependency:
        raise RankzeroError(
            f"resources.dependency: {request.dependency} waits for any one of several jobs, and this launch must also "
            f"wait for {', '.join(request.waits_for)}; Slurm cannot combine the two. Omit it."
        )
    both = [*request.waits_for, *([request.dependency] if request.dependency else [])]
    return [f"--dependency={','.join(both)}", "--kill-on-invalid-dep=yes"]
