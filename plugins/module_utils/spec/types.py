# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Value types of the job spec. A type turns text or a YAML value into a typed value, or raises one sentence about the
mistake.

A job file is read as text only (`"12:00:00"`, `"007"`, `"no"`). Ansible variables arrive typed by YAML 1.1 (43200, 7,
False). Each type accepts both, and refuses values that YAML has already changed with the advice "quote it". Pure; no
I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import likeness

#: What a mistake is answered with, under the name of this module as well: whoever reads a spec has that.
nearest, suggestion, did_you_mean = likeness.nearest, likeness.suggestion, likeness.did_you_mean

Parse = Callable[[Any], Any]
# Says what is wrong between the values of a map that are right by themselves, as the ends of sentences.
Contradictions = Callable[[Mapping[str, Any]], list[str]]
# The finding of a rule: the paths of the spec that it checked, and a sentence.
Finding = tuple[Sequence[str], str]
# An option of a Slurm command: its long name, and its value, or True for a switch.
Option = tuple[str, "str | bool"]
Options = tuple[Option, ...]


# A job file is read as text, so a scalar of any kind may stand where text is expected.
SCALARS = ("string", "number", "boolean")


class Invalid(ValueError):
    """A value is wrong. The message is the end of a sentence that starts with the value's path ("must be ...")."""


@dataclass(frozen=True)
class Type:
    """One value type: `title` for people, `parse` (raises `Invalid`), `schema` as a JSON Schema fragment."""

    title: str
    parse: Parse
    schema: Mapping[str, Any]


def shown(value: object) -> str:
    """Return a value as an error message shows it: short and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def to_text(value: object) -> str:
    """Convert a scalar to text. Raises Invalid.

    An int is safe to convert to its digits. A bool, float or date no longer shows what the user wrote.
    """
    if isinstance(value, str):
        if "\0" in value:
            raise Invalid("may not contain a NUL character")
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise Invalid(
                f"contains half a surrogate pair, which no file can hold: {value!a}; write the character itself"
            )
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if value is None or isinstance(value, (list, tuple, Mapping)):
        raise Invalid(f"must be text, not {shown(value)}")
    raise Invalid(f"must be text; YAML read it as {shown(value)}: quote it")


def text(
    pattern: str | None = None, allowed: str = "text", lines: bool = True, meant: Callable[[str], str] = lambda _: ""
) -> Type:
    """Return a type for text.

    `pattern` must match all of the text; `allowed` describes the pattern in words; `lines=False` refuses control
    characters; `meant`: what to write in the place of a text that does not match, as `; write X`, or "".
    """
    regex = re.compile(pattern) if pattern else None

    def parse(value: object) -> str:
        result = to_text(value)
        if not lines and any(ord(char) < 32 or ord(char) == 127 for char in result):
            raise Invalid(f"must be one line without control characters, not {shown(result)}")
        if regex and not regex.fullmatch(result):
            raise Invalid(f"must be {allowed}, not {shown(result)}{meant(result)}")
        return result

    schema: dict[str, Any] = {"type": list(SCALARS)}
    if pattern:
        # A pattern of JSON Schema applies to strings only: an editor does not check `name: 7`.
        schema["pattern"] = f"^(?:{pattern})$"
    return Type(allowed, parse, schema)


def integer(minimum: int, maximum: int | None = None, *, seconds: bool = False) -> Type:
    """Return a type for an integer in minimum..maximum (both included). `seconds`: what it counts."""
    limit = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    limit = f"of seconds {limit}" if seconds else limit

    def parse(value: object) -> int:
        number: int | None = None
        if (isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip())) or (
            isinstance(value, int) and not isinstance(value, bool)
        ):
            number = int(value)
        if number is None or number < minimum or (maximum is not None and number > maximum):
            meant = seconds_in(value) if seconds and isinstance(value, str) else None
            how = "" if meant is None else f"; write {meant}"
            raise Invalid(f"must be a whole number {limit}, not {shown(value)}{how}")
        return number

    schema: dict[str, Any] = {"type": ["integer", "string"], "minimum": minimum, "pattern": "^[+-]?[0-9]+$"}
    if maximum is not None:
        schema["maximum"] = maximum
    return Type(f"whole number {limit}", parse, schema)


def auto_or(other: Type) -> Type:
    """Return a type that accepts `auto` (parsed as None: the plan decides) or a value of the other type."""

    def parse(value: object) -> object:
        return None if value == "auto" else other.parse(value)

    pattern = f"^auto$|{other.schema['pattern']}"
    return Type(f"`auto` or a {other.title}", parse, {**other.schema, "pattern": pattern})


_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def _parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower() if isinstance(value, (str, int)) else ""
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Invalid(f"must be true or false, not {shown(value)}")


BOOLEAN = Type("true or false", _parse_boolean, {"enum": [True, False, *_TRUE, *_FALSE]})


def choice(*names: str) -> Type:
    """Return a type that accepts one of these names."""
    listed = ", ".join(names)

    def parse(value: object) -> str:
        if value not in names:
            raise Invalid(f"must be one of {listed}; not {shown(value)}{suggestion(str(value), names)}")
        return str(value)

    return Type(f"one of `{'`, `'.join(names)}`", parse, {"enum": list(names)})


#: The name of something that a cluster declares in its inventory.
DECLARED_NAME, DECLARED_WORDS = r"[a-z][a-z0-9_]{0,31}", "a name in small letters, digits and _, at most 32"


def declared(option: str, *names: str) -> Type:
    """Return a type that accepts one of these names, or one that the cluster may declare in `launch_cluster.<option>`.

    Whether it does is known only beside the cluster's settings, so a rule of the plan checks it.
    """
    whose = f"a name in launch_cluster.{option}"
    return Type(
        f"one of `{'`, `'.join(names)}`, or {whose}",
        text(DECLARED_NAME, f"one of {', '.join(names)}, or {whose}").parse,
        {"type": "string", "pattern": f"^{DECLARED_NAME}$", "examples": list(names)},
    )


_TIME = re.compile(
    r"(?:(?P<days>\d{1,9})-(?P<dh>\d{1,9})(?::(?P<dm>\d{1,9})(?::(?P<ds>\d{1,9}))?)?)"
    r"|(?P<a>\d{1,9})(?::(?P<b>\d{1,9})(?::(?P<c>\d{1,9}))?)?",
    re.ASCII,
)


def time_minutes(value: str) -> float:
    """Return the minutes in a Slurm time (sbatch(1) --time). Raises Invalid.

    Formats: "30", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS".
    """
    match = _TIME.fullmatch(value)
    if not match:
        meant = seconds_in(value)
        how = f"; write {clock(meant)}" if meant else ""
        raise Invalid(f"must be a Slurm time such as 30 (minutes), 04:00:00 or 1-12:00:00, not {shown(value)}{how}")
    part = {name: int(number) for name, number in match.groupdict().items() if number is not None}
    if "days" in part:
        return part["days"] * 1440 + part["dh"] * 60 + part.get("dm", 0) + part.get("ds", 0) / 60
    if "c" in part:
        return part["a"] * 60 + part["b"] + part["c"] / 60
    return part["a"] + part.get("b", 0) / 60


_LENGTH = re.compile(r"(?P<number>\d{1,7}) ?(?P<unit>s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:rs?|ours?)?|d(?:ays?)?)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_in(text: str) -> int | None:
    """Return the seconds in a time as other tools write it (90s, 5m, 1h30m, 2 days) or on a clock (00:05:00); None for
    another text.
    """
    words = text.strip().lower()
    if ":" in words and _TIME.fullmatch(words):
        return round(time_minutes(words) * 60)
    parts = list(_LENGTH.finditer(words)) if len(words) <= 40 else []
    whole = re.sub(r"[\s,]", "", _LENGTH.sub("", words)) == ""
    return sum(int(part["number"]) * _UNITS[part["unit"][0]] for part in parts) if parts and whole else None


def clock(seconds: int) -> str:
    """Return seconds as a Slurm time: 00:05:00, 1-12:00:00."""
    days, rest = divmod(seconds, 86400)
    return (f"{days}-" if days else "") + f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def size_meant(text: str) -> str:
    """Return `; write 64G` for a size as other tools write it (64GiB, 64 GB, 64g), or ""."""
    match = re.fullmatch(r"(\d{1,12}) ?([kmgt])(?:i?b)?", text.strip().lower())
    return f"; write {match[1]}{match[2].upper()}" if match else ""


def time_shown(value: str | bool) -> str:
    """Return a Slurm time for people: a number alone is in minutes, so 90 is 01:30:00 (90 minutes), and 1:99:00 is
    02:39:00 (1:99:00).
    """
    text = str(value)
    as_a_clock = re.fullmatch(r"(\d+-)?\d+(:[0-5]?\d)*", text, re.ASCII) and not text.isdecimal()
    if as_a_clock or not _TIME.fullmatch(text):
        return text
    seconds = round(time_minutes(text) * 60)
    written = f"{text} minutes" if text.isdecimal() else text
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d} ({written})"


def _parse_time(value: object) -> str:
    if not isinstance(value, str):
        raise Invalid(f'must be quoted: YAML read it as {shown(value)}; write it like "04:00:00"')
    if time_minutes(value) <= 0:
        raise Invalid(f"must be more than zero, not {shown(value)}")
    return value


TIME = Type(
    "Slurm time",
    _parse_time,
    {"type": ["string", "integer"], "pattern": r"^[0-9]{1,9}(-[0-9]{1,9})?(:[0-9]{1,9}){0,2}$"},
)


def memory_mib(text: str | None) -> int | None:
    """Return the MiB in a size for sbatch's --mem: 64G, 500 (MiB), 0; None if it is not given."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in "KMGT" else (text, "M")
    return int(number) * {"K": 1, "M": 2**10, "G": 2**20, "T": 2**30}[unit] // 2**10


def _in_brackets(value: object) -> str:
    """Return `; write [A, B]` for the words of a line of text, `; write [KEY:VALUE]` for a map of texts, or ""."""
    if isinstance(value, Mapping):
        pairs = [f"{key}:{text}" for key, text in value.items() if isinstance(key, str) and isinstance(text, str)]
        return f"; write [{', '.join(pairs)}]" if pairs and len(pairs) == len(value) <= 10 else ""
    words = value.split() if isinstance(value, str) and len(value) <= 100 else []
    if not words:
        return ""
    # Words that YAML would not read as text, or would split, are quoted.
    return f"; write [{', '.join(word if re.fullmatch('[A-Za-z_./-]+', word) else repr(word) for word in words)}]"


def listed(item: Type, filled: bool = False) -> Type:
    """Return a type for a list of values of one type, parsed as a tuple. `filled` refuses the empty list."""

    def parse(value: object) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise Invalid(f"must be a list, not {shown(value)}{_in_brackets(value)}")
        if filled and not value:
            raise Invalid("must not be empty")
        result = []
        for index, element in enumerate(value):
            try:
                result.append(item.parse(element))
            except Invalid as error:
                raise Invalid(f"item {index + 1} {error}") from None
        return tuple(result)

    schema: dict[str, Any] = {"type": "array", "items": dict(item.schema)}
    if filled:
        schema["minItems"] = 1
    return Type(f"list of {item.title}", parse, schema)


def mapped(key_pattern: str, key_words: str, item: Type) -> Type:
    """Return a type for a map whose keys match a pattern and whose values are of one type."""
    regex = re.compile(key_pattern)

    def parse(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Invalid(f"must be a map, not {shown(value)}; write {{NAME: VALUE}}")
        result: dict[str, Any] = {}
        problems = []
        for key, element in value.items():
            name = key if isinstance(key, str) else str(key)
            if not isinstance(key, str) or not regex.fullmatch(name):
                problems.append(f"key {shown(key)} must be {key_words}")
                continue
            try:
                result[str(key)] = item.parse(element)
            except Invalid as error:
                problems.append(f"{name} {error}")
        if problems:
            raise Invalid("; ".join(problems))
        return result

    return Type(
        f"map of {item.title}",
        parse,
        {
            "type": "object",
            "propertyNames": {"pattern": f"^(?:{key_pattern})$"},
            "additionalProperties": dict(item.schema),
        },
    )


def record(
    title: str,
    keys: Mapping[str, Type],
    required: Sequence[str],
    contradictions: Contradictions,
) -> Type:
    """Return a type for a map with known keys, parsed as a dict. All mistakes are reported together."""
    needed = f" ({', '.join(required)} are required)" if required else ""

    def parse(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Invalid(f"must be a map of {', '.join(keys)}" + needed)
        problems, fields = [], {}
        for name, given in value.items():
            if name not in keys:
                near = suggestion(str(name), list(keys))
                problems.append(f"has no key {shown(name)}{near}; known: {', '.join(keys)}")
                continue
            try:
                fields[str(name)] = keys[name].parse(given)
            except Invalid as error:
                problems.append(f"{name} {error}")
        problems += [f"{name} is required" for name in required if name not in value]
        problems = problems or contradictions(fields)
        if problems:
            raise Invalid(", and ".join(problems))
        return fields

    schema = {
        "type": "object",
        "properties": {name: dict(kind.schema) for name, kind in keys.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Type(title, parse, schema)


def _parse_option(value: object) -> str | bool:
    """Parse the value of a free sbatch or srun option: text, or a switch. The texts true and false are switches too."""
    if isinstance(value, bool):
        return value
    result = to_text(value)
    if result.lower() in ("true", "false"):
        return result.lower() == "true"
    if any(ord(char) < 32 or ord(char) == 127 for char in result):
        raise Invalid(f"must be one line without control characters, not {shown(result)}")
    return result


OPTION = Type("option value: text, or true for a switch", _parse_option, {"type": list(SCALARS)})
