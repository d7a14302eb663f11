# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container runtime that a cluster declares as data: a command around each of Slurm's tasks. Pure.

Its record becomes the same `Runtime` as one of ours, so nothing else knows whose it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import TROUBLE, Command, Runtime, Wish

#: Words of `command` that stand for several words, or for none: the keys of a record with the same name.
PARTS = ("mounts", "home", "root", "writable", "gpus")
#: What {name} in a word becomes, and in a word of `mounts`.
PLACES, MOUNT_PLACES = ("image", "workdir"), ("source", "target")
_PLACE = re.compile(r"\{([a-z_]+)\}")


def _words_with(*places: str, parts: tuple[str, ...] = ()) -> t.Type:
    """A list of words in which these names may stand in braces, and these parts as words."""

    def parse(value: object) -> str:
        word = t.to_text(value)
        for name in _PLACE.findall(word):
            if name not in places and word not in {f"{{{part}}}" for part in parts}:
                known = ", ".join(f"{{{place}}}" for place in (*places, *parts)) or "none"
                raise t.Invalid(f"has {{{name}}} in {t.shown(word)}; known here: {known}")
        return word

    return t.listed(t.Type("word", parse, {"type": list(t.SCALARS)}))


_KEYS: Mapping[str, t.Type] = {
    "doc": t.text(lines=False),
    "commands": t.listed(t.text(r"[A-Za-z0-9_.+-]+", "the name of a command"), filled=True),
    "command": _words_with(*PLACES, parts=PARTS),
    "mounts": _words_with(*MOUNT_PLACES),
    "mounts_read_only": _words_with(*MOUNT_PLACES),
    "home": _words_with(),
    "root": _words_with(),
    "writable": _words_with(),
    "gpus": t.mapped("nvidia|amd", "one of nvidia, amd", _words_with()),
    "images": t.listed(t.choice("root", "squashfs", "sif"), filled=True),
    "overriding": t.listed(t.text(r"[A-Za-z_][A-Za-z0-9_]*", "the beginning of a variable's name")),
    "log": t.listed(t.text(r"[^\n]+", "a regular expression")),
}
_REQUIRED = ("commands", "command", "mounts", "images")


def _contradictions(fields: Mapping[str, Any]) -> list[str]:
    """What is wrong between the keys of a record, and with its patterns."""
    text = "".join(fields["command"])
    problems = [f"command must have {{{place}}}" for place in PLACES if f"{{{place}}}" not in text]
    problems += [
        f"{part} and the word {{{part}}} of command need each other"
        for part in PARTS
        if (part in fields) != (f"{{{part}}}" in fields["command"])
    ]
    for pattern in fields.get("log", ()):
        try:
            re.compile(pattern)
        except re.error as error:
            problems.append(f"log {t.shown(pattern)} is no regular expression: {error}")
    return problems


def _filled(word: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), word)


def _words(record: Mapping[str, Any], wish: Wish) -> tuple[str, ...]:
    """The arguments of the command, from its record."""
    read_only = record.get("mounts_read_only", record["mounts"])
    parts: dict[str, list[str]] = {
        "{mounts}": [
            _filled(word, {"source": mount.source, "target": mount.target})
            for mount in wish.mounts
            for word in (read_only if "ro" in mount.flags else record["mounts"])
        ],
        "{home}": list(record.get("home", ())) if wish.mount_home else [],
        "{root}": list(record.get("root", ())) if wish.remap_root else [],
        "{writable}": list(record.get("writable", ())) if wish.writable else [],
        "{gpus}": list(record.get("gpus", {}).get(wish.gpus, ())),
    }
    values = {"workdir": wish.workdir, "image": wish.image}
    return tuple(
        filled for word in record["command"] for filled in (parts[word] if word in parts else [_filled(word, values)])
    )


def _runtime(name: str, record: Mapping[str, Any]) -> Runtime:
    """Return the runtime of a checked record."""
    images = tuple(record["images"])
    return Runtime(
        name=name,
        doc=record.get("doc", "the cluster's own"),
        takes=" or ".join(images),
        needs=f"the command `{record['commands'][0]}`",
        each="Slurm task",
        suffix=".sqsh" if "squashfs" in images else ".sif" if "sif" in images else "",
        refuses=f"is not an image of {name}: {' or '.join(images)}",
        images=images,
        commands=tuple(Command(command) for command in record["commands"]),
        words=functools.partial(_words, record),
        built="image.sif" if "squashfs" not in images and "sif" in images else "image.sqsh",
        log=(*record.get("log", ()), TROUBLE),
        remaps="root" in record,
        flags=("ro", "rw") if "mounts_read_only" in record else ("rw",),
        overriding=tuple(record.get("overriding", ())),
        record=dict(record),
    )


_RECORDS = t.mapped(t.DECLARED_NAME, t.DECLARED_WORDS, t.record("container runtime", _KEYS, _REQUIRED, _contradictions))


def _parse_own(value: object) -> dict[str, Runtime]:
    records = _RECORDS.parse(value)
    if "none" in records:
        raise t.Invalid("none is the name of no container; give the runtime another name")
    return {name: _runtime(name, record) for name, record in records.items()}


OWN_CONTAINERS = t.Type("map of container runtimes", _parse_own, dict(_RECORDS.schema))
