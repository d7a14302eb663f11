# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's failure families: YAML files on the controller, fully checked before anything is sent.

They are data and cannot run code. Every mistake is reported with file, family and key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines, site_families
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import Signature
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.documents import typed_document

_TEXTS = ("family", "what", "remedy")
_KEYS = (*_TEXTS, "says", "raises", "examples", "retry", "blames_node")
_SAYS, _RAISES = ("regex", "needles", "strength"), ("regex", "frames", "strength")
_NAME = re.compile(r"[a-z][a-z0-9_]{1,39}\Z")
# A shorter one would match so many lines that Python would process complete logs.
SHORTEST_NEEDLE = 4
_HOLE = re.compile(r"\{(\w+)\}")


def load_families(paths: Sequence[str], cwd: str, roots: Roots = ANYWHERE) -> list[JsonObject]:
    """The families in files, and in the *.yml and *.yaml files of folders. Relative paths start at `cwd`.

    Raises one `RankzeroError` that lists the mistakes of all files.
    """
    problems: list[str] = []
    families: list[dict[str, Any]] = []
    for path in _files(paths, cwd, problems):
        stranger = roots.problem("families", path)
        if stranger:
            problems.append(stranger.removeprefix("families: "))
            continue
        for place, family in _families_in(path, problems):
            mistakes = list(_mistakes(family))
            problems += [f"{place}: {mistake}" for mistake in mistakes]
            if not mistakes:
                families.append(dict(family))
    names = [str(family.get("family")) for family in families]
    problems += [
        f"family {name!r} is defined {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1
    ]
    if problems:
        raise RankzeroError("families: " + "; ".join(problems))
    return families


def _files(paths: Sequence[str], cwd: str, problems: list[str]) -> list[str]:
    files: list[str] = []
    for path in paths:
        full = os.path.join(cwd, os.path.expanduser(path))
        if os.path.isdir(full):
            inside = [name for name in sorted(os.listdir(full)) if name.endswith((".yml", ".yaml"))]
            files += [os.path.join(full, name) for name in inside]
            if not inside:
                problems.append(f"the folder {full} contains no *.yml")
        elif os.path.exists(full):
            files.append(full)
        else:
            problems.append(f"there is no file {full} on the controller; give a YAML file, or a folder of them")
    return files


def _families_in(path: str, problems: list[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """(location for messages, family) for each family of a file."""
    try:
        data = typed_document(named_text(path, "families"))
    except RankzeroError as error:
        problems.append(error.message.removeprefix("families: "))
        return []
    except (OSError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else path
        problems.append(f"{where} is not YAML: {getattr(error, 'problem', None) or error}")
        return []
    if isinstance(data, Mapping) and set(data) == {"families"}:
        (data,) = data.values()
    if isinstance(data, Mapping):
        data = [data]
    if not isinstance(data, list) or not all(isinstance(family, Mapping) for family in data):
        problems.append(f"{path} must hold one family as a map, or a list of them")
        return []
    return [(f"{path}, family {family.get('family', number)!r}", family) for number, family in enumerate(data, 1)]


def _mistakes(family: Mapping[str, Any]) -> list[str]:
    """The mistakes of one family, each with its key."""
    mistakes = _unknown(family, _KEYS, "")
    mistakes += [f"{key} is required, as text" for key in _TEXTS if not _text(family.get(key))]
    name = family.get("family")
    if isinstance(name, str) and name.strip() and not _NAME.match(name):
        mistakes.append(f"family {name!r} is not a valid name: lower-case letters, digits and _, at most 40")
    if name in {signature.family for signature in SIGNATURES}:
        mistakes.append(f"family {name!r} is one of the collection's: choose another name")
    for key in ("retry", "blames_node"):
        if key in family and not isinstance(family[key], bool):
            mistakes.append(f"{key} must be true or false, not {family[key]!r}")
    if not _texts(family.get("examples")):
        mistakes.append("examples is required: a list of lines as the program writes them")
    matches = 0
    for kind, keys in (("says", _SAYS), ("raises", _RAISES)):
        given = family.get(kind) or []
        if not isinstance(given, list) or not all(isinstance(match, Mapping) for match in given):
            mistakes.append(f"{kind} must be a list of maps with regex")
            continue
        matches += len(given)
        for number, match in enumerate(given):
            mistakes += [f"{kind}[{number}]{mistake}" for mistake in _match_mistakes(match, keys)]
    if not matches:
        mistakes.append("says or raises is required: a pattern for its log lines")
    return mistakes or _unproven(site_families.signature(dict(family)))


def _match_mistakes(match: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    mistakes = [f": {mistake}" for mistake in _unknown(match, keys, "")]
    for key in ("regex", "frames"):
        if key not in match and key == "frames":
            continue
        if not _text(match.get(key)):
            mistakes.append(f".{key} is required, as text")
            continue
        try:
            re.compile(match[key])
        except re.error as error:
            mistakes.append(f".{key} {match[key]!r} is not a valid regular expression: {error}")
    needles = match.get("needles")
    if "needles" in keys and not (
        _texts(needles) and all(len(str(needle)) >= SHORTEST_NEEDLE for needle in needles or [])
    ):
        mistakes.append(
            f".needles is required: fixed strings of {SHORTEST_NEEDLE} letters or more; each line has one of them"
        )
    strength = match.get("strength", "cause")
    if strength not in site_families.STRENGTHS:
        mistakes.append(f".strength {strength!r} is not allowed; allowed are {', '.join(site_families.STRENGTHS)}")
    return mistakes


def _unproven(signature: Signature) -> list[str]:
    """Reasons why a family's own examples contradict it."""
    groups = {name for match in signature.matches for name in match.regex.groupindex} | {"node"}
    mistakes = [
        f"{key} names {{{hole}}}, which no regex captures"
        for key in ("what", "remedy")
        for hole in _HOLE.findall(getattr(signature, key))
        if hole not in groups
    ]
    for example in signature.examples:
        if not any(_diagnosed(signature, text) for text in (example, _raised(example))):
            mistakes.append(f"the example {example!r} is not recognised as this family")
    return mistakes


def _raised(example: str) -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    main()\n{example}'


def _diagnosed(signature: Signature, text: str) -> bool:
    read = events.Reader([signature]).read("example", lines.parse(f"start\n{text}\n".encode().split(b"\n")))
    return cause.find_cause([read]).family == signature.family


def _unknown(given: Mapping[str, Any], keys: Sequence[str], below: str) -> list[str]:
    return [
        f"the key {below}{key} is unknown{suggestion(str(key), keys)}; known are {', '.join(keys)}"
        for key in given
        if key not in keys
    ]


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_text(item) for item in value)
