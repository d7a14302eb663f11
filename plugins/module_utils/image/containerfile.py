# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The external inputs of a Containerfile: base images, context files, build arguments, secrets. Pure.

Only the structure of the instructions is parsed (Containerfile(5), Dockerfile reference); RUN is left to the engine.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion

INSTRUCTIONS = (
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER",
    "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
)  # fmt: skip
# Engines accept these without an ARG.
PREDEFINED = frozenset(
    name
    for word in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
    for name in (word, word.upper())
)
#: The name by which a Containerfile refers to the base that the module makes.
BASE = "base"
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::([-+])([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1")


@dataclass(frozen=True)
class Instruction:
    """`name` in capitals, `text`: the rest on one line, `line`: where it begins (from 1)."""

    name: str
    text: str
    line: int


@dataclass(frozen=True)
class Needs:
    """The external inputs of a build.

    `bases`: images of FROM that are no earlier stage and not `scratch`. `sources`: (line, path or pattern) in the
    context; `whole`: they cannot be determined, so the complete context is needed. `secrets`: ids of
    RUN --mount=type=secret.
    """

    bases: tuple[str, ...]
    sources: tuple[tuple[int, str], ...]
    whole: bool
    secrets: tuple[str, ...]


def parse(text: str) -> list[Instruction]:
    """The instructions of a Containerfile. Raises RankzeroError that names the line."""
    escape = "\\"
    instructions: list[Instruction] = []
    lines = text.lstrip("\ufeff").splitlines()
    number = 0
    while number < len(lines):
        begin, stripped = number, lines[number].strip()
        number += 1
        directive = re.fullmatch(r"#\s*escape\s*=\s*([\\`])", stripped, re.IGNORECASE)
        if directive and not instructions:
            escape = directive[1]
        if not stripped or stripped.startswith("#"):
            continue
        joined = stripped
        while joined.endswith(escape):
            joined = joined[:-1].rstrip() + " "
            # Comments and empty lines do not end a continued line.
            while number < len(lines) and (not lines[number].strip() or lines[number].lstrip().startswith("#")):
                number += 1
            if number == len(lines):
                break
            joined += lines[number].strip()
            number += 1
        name, _blank, rest = joined.strip().partition(" ")
        if name.upper() not in INSTRUCTIONS:
            raise _wrong(begin + 1, f"{name} is not an instruction{suggestion(name.upper(), INSTRUCTIONS)}")
        if name.upper() in ("RUN", "COPY", "ADD"):
            for word in _HEREDOC.findall(rest):
                while number < len(lines) and lines[number].strip() != word[1]:
                    number += 1
                number += 1
        instructions.append(Instruction(name.upper(), rest.strip(), begin + 1))
    first = next((instruction for instruction in instructions if instruction.name != "ARG"), None)
    if first is None or first.name != "FROM":
        raise _wrong(
            first.line if first else 1,
            "the first instruction of a Containerfile must be FROM (only ARG may precede it)",
        )
    return instructions


def needs(text: str, build_args: Mapping[str, str], target: str | None = None) -> Needs:
    """The external inputs of a Containerfile's build. Raises RankzeroError for what cannot work."""
    instructions = parse(text)
    _check_args(instructions, build_args)
    head: dict[str, str] = {}
    values: dict[str, str] = {}
    stages: list[str] = []
    bases: dict[str, None] = {}
    sources: list[tuple[int, str]] = []
    secrets: dict[str, None] = {}
    whole_context = False
    for instruction in instructions:
        if instruction.name == "ARG":
            name, _equal, default = instruction.text.partition("=")
            name = name.split()[0] if name.split() else ""
            given = build_args.get(name, head.get(name) if stages and not _equal else None)
            value = given if given is not None else _expand(_unquoted(default), values) if _equal else None
            if value is not None:
                (values if stages else head)[name] = value
        elif instruction.name == "FROM":
            image, alias = _from(instruction, head)
            if image.lower() not in stages and image != "scratch":
                bases[image] = None
            stages.append(alias or str(len(stages)))
            values = {}
        elif instruction.name == "ENV":
            values.update(_pairs(instruction, values))
        elif instruction.name in ("COPY", "ADD"):
            flags, paths = _paths(instruction)
            origin = flags.get("from")
            if origin is not None:
                if origin.lower() not in stages and not origin.isdigit():
                    bases[_expand(origin, head)] = None
                continue
            for path in paths[:-1]:
                if path.startswith("<<") or (instruction.name == "ADD" and re.match(r"[a-z+]+://|git@", path)):
                    continue
                source = _expand(path, values)
                if "$" in source:
                    whole_context = True
                else:
                    sources.append((instruction.line, _inside(instruction.line, source)))
        elif instruction.name == "RUN":
            for mount in re.findall(r"--mount=(\S+)", instruction.text):
                fields = dict(part.partition("=")[::2] for part in mount.split(","))
                kind = fields.get("type", "bind")
                if kind == "bind" and "from" not in fields:
                    whole_context = True
                elif kind == "secret":
                    secrets[fields.get("id", posixpath.basename(fields.get("target", "")))] = None
    if target is not None and target.lower() not in stages:
        hint = suggestion(target, stages)
        raise RankzeroError(f"target: {target!r} is not a stage of the Containerfile{hint}; it has {', '.join(stages)}")
    return Needs(tuple(bases), tuple(dict.fromkeys(sources)), whole_context, tuple(secrets))


def _check_args(instructions: Iterable[Instruction], build_args: Iterable[str]) -> None:
    declared = {
        instruction.text.split("=", 1)[0].split()[0]
        for instruction in instructions
        if instruction.name == "ARG" and instruction.text
    }
    for name in build_args:
        if name not in declared | PREDEFINED:
            hint = suggestion(name, sorted(declared))
            known = ", ".join(sorted(declared)) or "none"
            raise RankzeroError(f"build_args: {name} is not an ARG of the Containerfile{hint}; it has {known}")


def select(wanted: Needs, paths: Iterable[str], ignored: Sequence[str] = ()) -> list[str]:
    """The paths of a context that the build may read; `ignored`: the lines of .containerignore.

    Raises RankzeroError where a source of COPY or ADD matches no path.
    """
    leave_out = _ignorer(ignored)
    kept = sorted(path for path in paths if not leave_out(path))
    if wanted.whole:
        return kept
    chosen: set[str] = set()
    for line, source in wanted.sources:
        if source == ".":
            chosen.update(kept)
            continue
        pattern = re.compile(_glob(source) + r"(/.*)?")
        matching = [path for path in kept if pattern.fullmatch(path)]
        if not matching:
            raise _wrong(line, f"the context has no file {source} (empty folders are not part of it)")
        chosen.update(matching)
    return sorted(chosen)


def _from(instruction: Instruction, head: Mapping[str, str]) -> tuple[str, str | None]:
    words = [word for word in instruction.text.split() if not word.startswith("--")]
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        raise _wrong(instruction.line, f"FROM IMAGE [AS NAME], not FROM {instruction.text}")
    image = _expand(words[0], head)
    if "$" in image:
        raise _wrong(
            instruction.line, f"FROM {words[0]}: its ARG has no default and is not given; name it in build_args"
        )
    return image, words[2].lower() if len(words) == 3 else None


def _paths(instruction: Instruction) -> tuple[dict[str, str], list[str]]:
    flags: dict[str, str] = {}
    rest = instruction.text
    while True:
        flag = re.match(r"--([a-z-]+)(?:=(\S+))?\s+", rest)
        if flag is None:
            break
        flags[flag[1]] = flag[2] or ""
        rest = rest[flag.end() :]
    try:
        listed = json.loads(rest) if rest.startswith("[") else None
    except ValueError:
        listed = None
    words = [str(word) for word in listed] if isinstance(listed, list) else rest.split()
    if len(words) < 2:
        raise _wrong(instruction.line, f"{instruction.name} needs a source and a destination")
    return flags, words


def _inside(line: int, path: str) -> str:
    clean = posixpath.normpath("/" + path.lstrip("/"))[1:] or "."
    if ".." in path.split("/") and posixpath.normpath(path).startswith(".."):
        raise _wrong(line, f"{path} is outside the context; choose a context that contains it")
    return clean


def _pairs(instruction: Instruction, values: Mapping[str, str]) -> dict[str, str]:
    try:
        words = shlex.split(instruction.text)
    except ValueError as error:
        raise _wrong(instruction.line, f"ENV {instruction.text}: {error}") from error
    if words and "=" not in words[0]:
        return {words[0]: _expand(" ".join(words[1:]), values)}
    return {word.split("=", 1)[0]: _expand(word.split("=", 1)[1], values) for word in words if "=" in word}


def _expand(text: str, values: Mapping[str, str]) -> str:
    """Replace known variables; others are left as they are."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[4]
        if match[2] == "-":
            return values.get(name) or match[3]
        if match[2] == "+":
            return match[3] if values.get(name) else ""
        return values.get(name, match[0])

    return _VARIABLE.sub(value, text)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _ignorer(lines: Sequence[str]) -> Callable[[str], bool]:
    """A function that tells whether a path is excluded, by the rules of .dockerignore: the last match decides."""
    rules = []
    for line in lines:
        text = line.strip()
        if text and not text.startswith("#"):
            pattern = posixpath.normpath(text.lstrip("!").strip()).lstrip("/")
            rules.append((re.compile(_glob(pattern) + r"(/.*)?"), text.startswith("!")))

    def ignored(path: str) -> bool:
        verdict = False
        for pattern, again in rules:
            if pattern.fullmatch(path):
                verdict = not again
        return verdict

    return ignored


def _glob(pattern: str) -> str:
    """A pattern of Go's filepath.Match, with `**`, as a regular expression."""
    result, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            result, at = result + r"(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            result, at = result + r".*", at + 2
        elif pattern[at] == "*":
            result, at = result + r"[^/]*", at + 1
        elif pattern[at] == "?":
            result, at = result + r"[^/]", at + 1
        elif pattern[at] == "[" and "]" in pattern[at + 1 :]:
            end = pattern.index("]", at + 1)
            result, at = result + pattern[at : end + 1], end + 1
        else:
            result, at = result + re.escape(pattern[at]), at + 1
    return result


def _wrong(line: int, sentence: str) -> RankzeroError:
    return RankzeroError(f"containerfile: line {line}: {sentence}.")
