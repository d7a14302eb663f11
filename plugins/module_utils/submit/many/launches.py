# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launches of a batch, as the controller sends them in one argument. Data only."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import text_replaced
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Predecessor


@dataclass(frozen=True)
class Before:
    """A launch that others follow: the token of its generation, the generation, and the jobs to wait for.

    `hinders`: the reason why nothing that follows it can be submitted now.
    """

    token: str
    generation: str = ""
    jobs: Sequence[str] = ()
    hinders: str = ""


@dataclass(frozen=True)
class BatchLaunch:
    """A launch of a batch: its request, as module `job` or `job_sweep` gets it, and the names that it follows.

    `elements`: the elements of a sweep to submit, by key; without any, all.
    """

    name: str
    request: JsonObject
    follows: Sequence[str] = ()
    elements: Sequence[str] = ()

    @property
    def is_sweep(self) -> bool:
        """Whether it is a sweep."""
        return "array" in self.request

    @property
    def token(self) -> str:
        """The placeholder of its generation."""
        return str(self.request.get("array", self.request)["token"])

    def submitted(self, generations: Mapping[str, str], waits: Sequence[str]) -> JsonObject:
        """Return the request once the generations of the launches before are known, and the jobs to wait for."""
        shared = self.request.get("array", self.request)
        own = text_replaced({"files": shared["files"]}, generations) if generations else {}
        own["waits_for"] = [f"afterok:{':'.join(waits)}"] if waits else []
        if not self.is_sweep:
            return {**self.request, **own}
        more = {name: self.request[name] for name in ("elements", "manifest")}
        return {**self.request, **text_replaced(more, generations), "array": {**shared, **own}}


@dataclass(frozen=True)
class LaunchMade:
    """A launch of a batch, with the fields that module `job` documents."""

    generation: int | None
    job_id: str | None
    run_dir: str | None
    submission: str


@dataclass(frozen=True)
class SweepMade:
    """A sweep of a batch. `counts`: elements by state. `arrays`: its new jobs. `active`: key, job_id and run_dir of
    each active element.
    """

    counts: Mapping[str, int]
    sweep_dir: str
    arrays: Sequence[str]
    active: Sequence[Mapping[str, str | None]]


@dataclass
class Answer:
    """The outcome of one launch of a batch, with what the controller has to know.

    `msg`: why it was not possible, or empty. `missing`: what must be built first. `job` or `sweep`: the launch.
    `diff`, `predecessor`: in check mode only.
    """

    name: str
    msg: str = ""
    missing: list[dict[str, str]] = field(default_factory=list)
    job: LaunchMade | None = None
    sweep: SweepMade | None = None
    diff: list[dict[str, str]] = field(default_factory=list)
    predecessor: Predecessor | None = None

    @classmethod
    def of(cls, given: JsonObject) -> Answer:
        """Read an answer from the result of the module."""
        kinds = {"job": LaunchMade, "sweep": SweepMade, "predecessor": Predecessor}
        return record_of(cls, given, **{name: partial(record_of, kind) for name, kind in kinds.items()})


def packed(launches: Sequence[BatchLaunch], known: Mapping[str, Before]) -> str:
    """Return a batch as text for a module's argument. Launches of a folder resemble each other: they pack well."""
    document = {
        "launches": [asdict(launch) for launch in launches],
        "known": {name: asdict(before) for name, before in known.items()},
    }
    return base64.b64encode(zlib.compress(json.dumps(document).encode("utf-8"))).decode("ascii")


def unpacked(text: str) -> tuple[list[BatchLaunch], dict[str, Before]]:
    """Return the launches and what is known of others, from the text that `packed` has made."""
    document = json.loads(zlib.decompress(base64.b64decode(text)))
    launches = [BatchLaunch(**launch) for launch in document["launches"]]
    return launches, {name: Before(**before) for name, before in document["known"].items()}
