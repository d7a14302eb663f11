# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Register which launches belong to a folder of specs: <state_root>/sets/<set>/<name>/<key>.json.

There is one small file per launch. A sweep has a file with the sweep's key, which lists the launches of its elements. A
file is created completely by rename and never updated in place, so two reconcilers at once cannot lose each other's
entries. A reconciliation may cancel only registered launches.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import TypedDict, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

PLACE = "sets"


class Entry(TypedDict, total=False):
    """One launch of a set.

    `time`: epoch seconds. `elements`: the keys of a sweep's elements. `gone`: a plan has said that its spec is gone. An
    entry also contains facts about the origin of the folder.
    """

    set: str
    name: str
    key: str
    file: str
    time: float
    elements: list[str]
    gone: bool


def folder(state_root: str, name: str) -> str:
    """Return the folder of a set's entries. The set's name may contain any character, so a hash of it is appended."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-60:]
    return os.path.join(state_root, PLACE, f"{readable}-{digest}" if readable else digest)


def entries(state_root: str, set_name: str) -> dict[tuple[str, str], Entry]:
    """Return (name, key) -> entry for every launch of the set. Incomplete files are ignored.

    Raises `Untrusted` for an entry that another user could have written.
    """
    registered: dict[tuple[str, str], Entry] = {}
    root, place = state_files.own(state_root), folder("", set_name)
    for name in _shown(root.names(place)):
        for file in _shown(root.names(os.path.join(place, name))):
            if not file.endswith(".json"):
                continue
            entry = state_files.document(root, os.path.join(place, name, file))
            if entry and entry.get("set") == set_name and state_files.is_time(entry.get("time") or 0):
                registered[name, file[: -len(".json")]] = cast("Entry", entry)
    return registered


def elements(registered: Mapping[tuple[str, str], Entry]) -> dict[tuple[str, str], str]:
    """Return (name, key) of every element of the set's sweeps -> the sweep's key. If several sweeps match, the newest
    wins.
    """
    sweeps = {}
    for (name, sweep), entry in sorted(registered.items(), key=lambda item: float(item[1].get("time") or 0)):
        for key in entry.get("elements") or ():
            sweeps[name, str(key)] = sweep
    return sweeps


def keep(state_root: str, set_name: str, name: str, key: str, facts: Mapping[str, object]) -> None:
    """Register one launch, which must happen before it is submitted. Raises `RankzeroError` if the entry cannot be
    written.
    """
    place = os.path.join(folder(state_root, set_name), name)
    target = os.path.join(place, f"{key}.json")
    try:
        entry = {**facts, "set": set_name, "name": name, "key": key}
        state_files.write(target, json.dumps(entry, sort_keys=True), durably=True)
    except OSError as error:
        raise RankzeroError(
            f"state_root: cannot write {target}: {error.strerror}. Nothing was launched that would not be found again."
        ) from error


def _shown(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]
