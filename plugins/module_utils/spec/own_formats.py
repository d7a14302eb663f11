# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An artifact format that a cluster declares as data: a program that judges the file in the job. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import digest_of

#: What {name} in a word of `command` may be; runtime/artifact/declared.py puts the values in.
PLACES = ("path", "python", "code", "run_dir")
_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class OwnFormat:
    """A format of the cluster. `command`: the words of the program, without a shell. `values`: it prints one JSON
    object, which `require` refers to. `seconds`, `memory` (bytes): what it may take.
    """

    name: str
    doc: str
    command: tuple[str, ...]
    values: bool
    seconds: int
    memory: int

    def record(self) -> JsonObject:
        """Return the record as launch.json has it."""
        return dataclasses.asdict(self)

    def keyed(self) -> dict[str, str]:
        """Return its part of the launch key, by name: another judge may accept another artifact."""
        return {"artifact_format": digest_of(self.record())}

    def reader(self) -> JsonObject:
        """Return what the job must know to read an artifact."""
        return {"command": list(self.command), "values": self.values, "seconds": self.seconds, "memory": self.memory}


def _word(value: object) -> str:
    word = t.to_text(value)
    for name in _PLACE.findall(word):
        if name not in PLACES:
            known = ", ".join(f"{{{place}}}" for place in PLACES)
            raise t.Invalid(f"has the unknown {{{name}}}{t.suggestion(name, PLACES)}; known: {known}")
    return word


#: The keys of a cluster's record, with the type of each.
_KEYS: Mapping[str, t.Type] = {
    "doc": t.text(lines=False),
    "command": t.listed(t.Type("word", _word, {"type": list(t.SCALARS)}), filled=True),
    "values": t.BOOLEAN,
    "seconds": t.integer(1, 600, seconds=True),
    "memory": t.text(r"[1-9][0-9]{0,9}[KMGT]", "a size such as 500M or 2G", meant=t.size_meant),
}


def _contradictions(fields: Mapping[str, Any]) -> list[str]:
    """What is wrong with the program itself."""
    first = fields["command"][0]
    if first == "{python}" or first.startswith(("/", "{code}/")) or not ("/" in first or "{" in first):
        return []
    return [f"command begins with {t.shown(first)}, not with {{python}}, a name in PATH, an absolute path or {{code}}/"]


_RECORDS = t.mapped(
    t.DECLARED_NAME, t.DECLARED_WORDS, t.record("artifact format", _KEYS, ("command",), _contradictions)
)


def _parse_own(value: object) -> dict[str, OwnFormat]:
    records = _RECORDS.parse(value)
    if "directory" in records:
        raise t.Invalid("directory is the name of what is no file; give the format another name")
    return {
        name: OwnFormat(
            name,
            fields.get("doc", "the cluster's own"),
            fields["command"],
            fields.get("values", False),
            fields.get("seconds", 60),
            (t.memory_mib(fields.get("memory", "2G")) or 1) << 20,
        )
        for name, fields in records.items()
    }


OWN_FORMATS = t.Type("map of artifact formats", _parse_own, dict(_RECORDS.schema))
