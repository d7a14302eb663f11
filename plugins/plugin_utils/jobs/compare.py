# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a launch that is new with the nearest launch of its name, as the module found it on the cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import first, recorded
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import changes
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import small_text
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Predecessor
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import MANIFEST, Prepared, code_digests

# Files up to this size are compared line by line.
MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Change:
    """What a launch differs in from an earlier one of its name, which key, generation and run_dir name."""

    key: str
    generation: int | None
    run_dir: str
    changes: Sequence[str]
    text: str


@dataclass(frozen=True)
class _Manifest:
    """The parts of launch.json that are compared: the spec, and which layer each value is from."""

    spec: JsonObject
    origins: Mapping[str, str]


def compared(prepared: Prepared, before: Predecessor | None) -> tuple[Change | None, dict[str, str]]:
    """(what has changed since the earlier launch, None without one; the difference in the form of Ansible's diff)."""
    plan = prepared.plan
    record = record_of(_Manifest, json.loads(prepared.files[MANIFEST]))
    spec = changes.recorded_spec(record.spec)
    lines = changes.spec_lines(spec)
    header = f"{plan.name} {short_key(plan.key)}"
    if before is None:
        code = f"code: {len(prepared.snapshot.files)} files, {prepared.snapshot.digest}"
        return None, difference("(no launch of this name)", "", _text([*lines, code]), header)
    earlier = changes.recorded_spec(before.spec)
    files, old, new = _code(prepared, before)
    diff = difference(
        f"{before.name} {before.key}, generation {before.generation}",
        _text([*changes.spec_lines(earlier), *(f"code {line}" for line in old)]),
        _text([*lines, *(f"code {line}" for line in new)]),
        header,
    )
    differences = [
        *(_with_origin(change, record.origins) for change in changes.spec_changes(earlier, spec)),
        *files,
        *changes.input_changes(recorded(before.refs), plan.refs),
    ]
    text = changes.sentence(before.key, differences)
    return Change(before.key, before.generation, before.run_dir, differences, text), diff


def _with_origin(change: str, origins: Mapping[str, str]) -> str:
    """Say of a change that the cluster's defaults make it: then nothing in the user's own files has changed."""
    path = change.partition(" ")[0]
    above = [name for name in origins if f"{path}.".startswith(f"{name}.")]
    return f"{change} (launch_cluster)" if above and origins[max(above, key=len)] == "launch_cluster" else change


def _code(prepared: Prepared, before: Predecessor) -> tuple[list[str], list[str], list[str]]:
    """As changes.code_changes; only the two digests if the files of the earlier code are unknown."""
    code = first(recorded(before.refs), CODE)
    digest = code.key if code else "none"
    now = prepared.snapshot.digest or "none"
    if digest == now:
        return [], [], []
    if not before.code:
        return [f"code {short_key(digest)[:8]} -> {short_key(now)[:8]}"], [digest], [now]

    def text_of(path: str) -> str | None:
        return small_text(os.path.join(prepared.snapshot.src, path), MOST_BYTES)

    return changes.code_changes(before.code, code_digests(prepared.snapshot), text_of)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
