# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nearest other launch of the same name: what the controller compares a new launch with. Reads only."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref, first, recorded
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, generations
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity, keys_of, newest_of_each
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import short_digests, small_text
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Predecessor, Request

# The keys of a name are examined in the order of their folders' times. A sweep may leave thousands.
MOST_KEYS = 64
# Of these, the newest are candidates: those whose manifest is read.
CANDIDATES = 16
# Files whose changed lines are counted, and the size up to which that is done.
MOST_TEXTS = 8
TEXT_BYTES = 64 * 1024


def predecessor(request: Request) -> Predecessor | None:
    """Return the launch of the request's name with another key that differs least from it, of several such the newest;
    None if there is none that can be read.
    """
    candidates = list(_records(request))
    if not candidates:
        return None
    own = _manifest(request.files.get("launch.json", ""))
    # Of equal distances, min returns the first, which is the newest.
    run, record = min(candidates, key=lambda pair: _distance(own, pair[1]))
    who = identity(run.path)
    refs = recorded(record.get("refs"))
    return Predecessor(
        name=who.name,
        key=who.key,
        generation=who.generation,
        run_dir=run.path,
        spec=record["spec"] if isinstance(record.get("spec"), Mapping) else {},
        refs=[{"kind": ref.kind, "key": ref.key} for ref in refs],
        code=_code(request, refs),
    )


def _records(request: Request) -> Iterator[tuple[RunDirectory, Mapping[str, Any]]]:
    """The candidates, newest first, with their manifests."""
    with contextlib.suppress(Untrusted, OSError):
        for run in _others(request)[:CANDIDATES]:
            with contextlib.suppress(Untrusted, OSError):
                record = run.document("launch.json")
                if record:
                    yield run, record


def _others(request: Request) -> list[RunDirectory]:
    name, own = os.path.split(os.path.normpath(request.runs_dir))
    folders = [os.path.join(name, key) for key in keys_of(request.state_root, request.name) if key != own]
    recent = sorted((folder for folder in folders if _time(folder)), key=_time, reverse=True)[:MOST_KEYS]
    return newest_of_each([run for folder in recent for run in generations(folder)[-1:]])


def _manifest(text: str) -> Mapping[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        manifest = json.loads(text)
        return manifest if isinstance(manifest, Mapping) else {}
    return {}


def _distance(own: Mapping[str, Any], record: Mapping[str, Any]) -> int:
    """Return in how many words two manifests differ: of the spec, and of the inputs."""
    ours, theirs = _words(own), _words(record)
    return sum((ours - theirs).values()) + sum((theirs - ours).values())


def _words(record: Mapping[str, Any]) -> Counter[str]:
    words = Counter(f"{ref.kind} {ref.key}" for ref in recorded(record.get("refs")))
    left: list[tuple[str, object]] = [("", record.get("spec"))]
    while left:
        path, value = left.pop()
        if isinstance(value, Mapping):
            left += [(f"{path}.{name}", inner) for name, inner in value.items()]
        elif isinstance(value, list):
            left += [(path, inner) for inner in value]
        else:
            words[f"{path} {value}"] += 1
    return words


def _time(folder: str) -> float:
    try:
        return os.lstat(folder).st_mtime
    except OSError:
        return 0.0


def _code(request: Request, refs: Sequence[Ref]) -> JsonObject | None:
    """Return how the earlier code differs from the request's: {"files": {path: digest} of the files that are gone or
    were different, "added": [path], "texts": {path: text}}. None if that is unknown.
    """
    earlier = first(refs, CODE)
    path = earlier.path if earlier else ""
    if not request.code or not os.path.isabs(path):
        return None
    before = short_digests(path)
    if before is None:
        return None
    files = {name: digest for name, digest in sorted(before.items()) if request.code.get(name) != digest}
    changed = [name for name in files if name in request.code]
    texts = {
        name: text
        for name in changed[:MOST_TEXTS]
        if (text := small_text(os.path.join(path, name), TEXT_BYTES)) is not None
    }
    return {"files": files, "added": sorted(set(request.code) - set(before)), "texts": texts}
