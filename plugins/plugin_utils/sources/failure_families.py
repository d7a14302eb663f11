# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failure families, the collection's and a site's: YAML files on the controller, checked and compiled.

They are data and cannot run code. Every mistake is reported with file, family and key. A compiled family is what the
cluster reads (diagnosis/signatures/model.py): patterns in one piece, the fixed strings of each, and no examples.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, Union

import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import model
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.documents import typed_document
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.fixed_strings import fixed_strings

# A regular expression, or its alternatives.
Pattern = Union[str, Sequence[str]]
_TEXTS = ("family", "what", "remedy")
_SWITCHES = ("retry", "blames_node")
_KEYS = (*_TEXTS, "evidence", "look", "parts", *model.WHERE, "examples", *_SWITCHES)
_OF_A_MATCH = ("regex", "strength", "what", "evidence", "remedy", "retry", "printed_by", "examples")
_MATCH_KEYS = {"says": (*_OF_A_MATCH, "needles"), "raises": (*_OF_A_MATCH, "frames")}
STRENGTHS = {
    "decisive": model.DECISIVE,
    "cause": model.CAUSE,
    "limit": model.LIMIT,
    "meant": model.MEANT,
    "raised": model.RAISED,
    "weak": model.WEAK,
    "hint": model.HINT,
    "echo": model.ECHO,
}
_STRENGTH = re.compile(rf"({'|'.join(STRENGTHS)})([+-]\d)?\Z")
# A program and its release.
_RELEASE = re.compile(r"\w[^\n]* v?\d[\w.+-]*\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]{1,39}\Z")
# A shorter one would match so many lines that Python would process complete logs.
SHORTEST_NEEDLE = 4
_HOLE = re.compile(r"\{(\w+)\}")
# A part of a pattern that the family names once. Behind a backslash the brace is a brace.
_PART = re.compile(r"(?<!\\)\{([a-z]\w*)\}")


def load_families(paths: Sequence[str], cwd: str, roots: Roots = ANYWHERE) -> list[JsonObject]:
    """A site's families in files, and in the *.yml and *.yaml files of folders, compiled. Paths are relative to `cwd`.

    Raises one `RankzeroError` that lists the mistakes of all files.
    """
    return [compiled(family) for family in declared(paths, cwd, roots)]


def declared(
    paths: Sequence[str], cwd: str, roots: Roots = ANYWHERE, ours: Sequence[model.Signature] = SIGNATURES
) -> list[JsonObject]:
    """The same as they stand in the files. `ours` are the families whose names are taken."""
    problems: list[str] = []
    families: list[dict[str, Any]] = []
    for path in _files(paths, cwd, problems):
        stranger = roots.problem("families", path)
        if stranger:
            problems.append(stranger.removeprefix("families: "))
            continue
        for place, family in _families_in(path, problems):
            mistakes = _mistakes(family, {signature.family for signature in ours})
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


def compiled(family: JsonObject) -> JsonObject:
    """A declared family as the cluster reads it."""
    data: JsonObject = {key: family[key] for key in (*_TEXTS, "look", *_SWITCHES) if key in family}
    parts = family.get("parts") or {}
    for kind in model.WHERE:
        data[kind] = [_compiled_match(match, parts, kind) for match in family.get(kind) or ()]
    return data


def _compiled_match(match: JsonObject, parts: Mapping[str, Pattern], kind: str) -> JsonObject:
    data: JsonObject = {key: match[key] for key in ("what", "remedy", "retry") if key in match}
    data.update({key: pattern(match[key], parts) for key in ("regex", "frames") if key in match})
    base, more = _STRENGTH.findall(match.get("strength", "cause"))[0]
    data["strength"] = STRENGTHS[base] + int(more or 0)
    if kind == "says":
        data["needles"] = match.get("needles") or fixed_strings(data["regex"])
    return data


def pattern(given: Pattern, parts: Mapping[str, Pattern]) -> str:
    """A pattern in one piece: a list holds its alternatives, and `{name}` stands for the part of that name.

    Raises `KeyError` with the name of a part that is unknown, or that contains itself.
    """

    def part(place: re.Match[str]) -> str:
        others = {name: value for name, value in parts.items() if name != place[1]}
        return f"(?:{pattern(parts[place[1]], others)})"

    return _PART.sub(part, given if isinstance(given, str) else "|".join(given))


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


def _mistakes(family: Mapping[str, Any], taken: Container[str]) -> list[str]:
    """The mistakes of one family, each with its key."""
    mistakes = _unknown(family, _KEYS, "")
    mistakes += [f"{key} is required, as text" for key in _TEXTS if not _text(family.get(key))]
    name = family.get("family")
    if isinstance(name, str) and name.strip() and not _NAME.match(name):
        mistakes.append(f"family {name!r} is not a valid name: lower-case letters, digits and _, at most 40")
    if name in taken:
        mistakes.append(f"family {name!r} is one of the collection's: choose another name")
    mistakes += _switch_mistakes(family, "")
    parts = family.get("parts") or {}
    if not isinstance(parts, Mapping) or not all(_text(part) or _texts(part) for part in parts.values()):
        return [*mistakes, "parts must be a map: the name of each part, and its pattern or a list of alternatives"]
    mistakes += _evidence_mistakes(family, "")
    matches = 0
    for kind, keys in _MATCH_KEYS.items():
        given = family.get(kind) or []
        if not isinstance(given, list) or not all(isinstance(match, Mapping) for match in given):
            mistakes.append(f"{kind} must be a list of maps with regex")
            continue
        matches += len(given)
        for number, match in enumerate(given):
            mistakes += [f"{kind}[{number}]{mistake}" for mistake in _match_mistakes(match, keys, parts)]
    if not matches:
        mistakes.append("says or raises is required: a pattern for its log lines")
    return mistakes or _unproven(dict(family), bool(taken))


def _match_mistakes(match: Mapping[str, Any], keys: Sequence[str], parts: Mapping[str, Pattern]) -> list[str]:
    mistakes = [f": {mistake}" for mistake in _unknown(match, keys, "")]
    for key in ("regex", "frames"):
        given = match.get(key)
        if key not in match and key == "frames":
            continue
        if not _text(given) and not _texts(given):
            mistakes.append(f".{key} is required, as text or as a list of alternatives")
            continue
        try:
            re.compile(pattern(match[key], parts))
        except KeyError as error:
            mistakes.append(
                f".{key} {given!r} names {{{error.args[0]}}}, which is not in parts; write \\{{ for a brace"
            )
        except re.error as error:
            mistakes.append(f".{key} {given!r} is not a valid regular expression: {error}")
    strength = match.get("strength", "cause")
    if not isinstance(strength, str) or not _STRENGTH.match(strength):
        mistakes.append(
            f".strength {strength!r} is not allowed; allowed are {', '.join(STRENGTHS)}, also with a digit more "
            "or less: cause+1"
        )
    mistakes += _evidence_mistakes(match, ".") + _switch_mistakes(match, ".")
    releases, examples = match.get("printed_by"), match.get("examples")
    if releases is not None and not (_texts(releases) and all(map(_RELEASE.match, releases))):
        mistakes.append(".printed_by must be a list of programs with their releases, such as Slurm 22.05.8")
    if examples is not None and not _texts(examples):
        mistakes.append(".examples must be a list of lines")
    if "needles" in keys and not mistakes:
        given = match.get("needles", fixed_strings(pattern(match["regex"], parts)))
        if not _texts(given) or any(len(str(needle).encode()) < SHORTEST_NEEDLE for needle in given):
            mistakes.append(
                f".needles is required: the pattern has no fixed strings of {SHORTEST_NEEDLE} letters or more of which "
                "each line has one"
            )
    return mistakes


def _switch_mistakes(given: Mapping[str, Any], before: str) -> list[str]:
    return [
        f"{before}{key} must be true or false, not {given[key]!r}"
        for key in _SWITCHES
        if key in given and not isinstance(given[key], bool)
    ]


def _evidence_mistakes(given: Mapping[str, Any], before: str) -> list[str]:
    """What is wrong with the words that prove a sentence."""
    words = given.get("evidence")
    if words is None:
        return []
    if not _text(words) and not _texts(words):
        return [f"{before}evidence must be a regular expression, or a list of alternatives"]
    try:
        re.compile(pattern(words, {}))
    except (KeyError, re.error) as error:
        return [f"{before}evidence {words!r} is not a valid regular expression: {error}"]
    return [] if "what" in given else [f"{before}evidence proves a sentence: give what beside it"]


def evidence_of(family: JsonObject) -> dict[str, re.Pattern[str]]:
    """Sentence -> the words of a log that prove it, where a declared family names them."""
    matches = [match for kind in model.WHERE for match in family.get(kind) or ()]
    proven = [(given.get("what", ""), given.get("evidence")) for given in (family, *matches)]
    return {sentence: re.compile(pattern(words, {})) for sentence, words in proven if words}


def examples_of(family: JsonObject) -> list[str]:
    """The lines that show a declared family: its own, and those of its patterns."""
    matches = [match for kind in model.WHERE for match in family.get(kind) or ()]
    return [line for given in (family, *matches) for line in given.get("examples") or ()]


def _unproven(family: JsonObject, alone: bool) -> list[str]:
    """Reasons why a family contradicts itself. `alone`: its examples are read without any other family."""
    signature = model.signature(compiled(family))
    groups = {name for match in signature.matches for name in match.regex.groupindex} | {"node", "place"}
    mistakes = [
        f"{key} names {{{hole}}}, which no regex captures"
        for key in ("what", "remedy")
        for hole in _HOLE.findall(getattr(signature, key))
        if hole not in groups
    ]
    if not _texts(examples_of(family)):
        mistakes.append("examples is required: a list of lines as the program writes them")
    for sentence, words in evidence_of(family).items():
        if not any(map(words.search, examples_of(family))):
            mistakes.append(f"the evidence of {sentence!r} is in none of the examples")
    for example in examples_of(family) if alone and not mistakes else ():
        if not any(_diagnosed(signature, text) for text in (example, _raised(example))):
            mistakes.append(f"the example {example!r} is not recognised as this family")
    return mistakes


def _raised(example: str) -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    main()\n{example}'


def _diagnosed(signature: model.Signature, text: str) -> bool:
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
