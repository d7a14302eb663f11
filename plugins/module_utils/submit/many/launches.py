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
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Predecessor, Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import SweepRequest


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
    """A launch of a batch: its request, and the names that it follows.

    `elements`: the elements of a sweep to submit, by key; without any, all.
    """

    name: str
    request: Request | SweepRequest
    follows: Sequence[str] = ()
    elements: Sequence[str] = ()

    @classmethod
    def of(cls, given: JsonObject) -> BatchLaunch:
        """Read a launch that `packed` has written."""
        kind = SweepRequest if "array" in given["request"] else Request
        return cls(**{**given, "request": kind.of(given["request"])})


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
        "launches": [{**vars(launch), "request": launch.request.arguments()} for launch in launches],
        "known": {name: asdict(before) for name, before in known.items()},
    }
    return base64.b64encode(zlib.compress(json.dumps(document).encode("utf-8"))).decode("ascii")


def unpacked(text: str) -> tuple[list[BatchLaunch], dict[str, Before]]:
    """Return the launches and what is known of others, from the text that `packed` has made."""
    document = json.loads(zlib.decompress(base64.b64decode(text)))
    launches = [BatchLaunch.of(launch) for launch in document["launches"]]
    return launches, {name: Before(**before) for name, before in document["known"].items()}
