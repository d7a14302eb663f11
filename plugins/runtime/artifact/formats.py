# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an artifact says, by its format: a map of values that requirements are checked on, or the reason why it is not
whole. Each reader raises ValueError with the rest of a sentence that begins with the artifact's path.

    json         one object, NaN and Infinity refused
    yaml         one map; with PyYAML where the job's Python has it, else nested `key: value` lines
    csv          a header and rows; the values are those of the last row, and `rows` is how many there are
    safetensors  header and tensors, to the last byte; the values are its metadata, `tensors`, and each tensor's shape
    directory    complete once its completeness file is there; where that is a JSON object, its values

Standard library only; PyYAML is used where it is found.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import struct

from core import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

# What is read whole has at most so many bytes: objects take a multiple of it of the job's memory.
MOST_BYTES = 8 << 20
# A header of more than this is none.
HEADER_BYTES = 100_000_000
# A whole number has at most so many digits.
DIGITS = 40


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def finite(text: str) -> float:
    """A JSON number. One too large for a float would become infinite, and prove as little as NaN."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def whole(text: str) -> int:
    """A whole number of JSON. The time to read one grows with the square of its digits."""
    if len(text) > DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)


def of_json(content: bytes) -> dict[str, Any]:
    try:
        # NaN and Infinity are Python's own extension: a NaN loss would pass as a number and prove nothing.
        document = json.loads(
            content.decode("utf-8"), parse_constant=refuse_constant, parse_float=finite, parse_int=whole
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"must be a JSON object, not a {type(document).__name__}")
    return document


def scalar(text: str) -> str | float | bool | None:
    """A plain value as YAML 1.2 reads it."""
    if re.fullmatch(r"[-+]?[0-9]+", text) and len(text) <= DIGITS:
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return {"true": True, "false": False, "null": None, "~": None, "": None}.get(text.lower(), text)


def of_yaml(content: bytes) -> dict[str, Any]:
    text = content.decode("utf-8")
    # A map that was cut off is often a map as well: the last line at least is whole.
    if not text.endswith("\n"):
        raise ValueError("is incomplete: its last line does not end")
    try:
        import yaml
    except ImportError:
        return checked_numbers(plain_yaml(text))
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise ValueError(f"must be a YAML map, not a {type(document).__name__}")
    return checked_numbers(document)


def plain_yaml(text: str) -> dict[str, Any]:
    """Nested maps of scalars. Lists and flow collections are kept as text: nothing is required of them."""
    result: dict[str, Any] = {}
    levels = [(-1, result)]
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or line in ("---", "..."):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if line.lstrip().startswith("- "):
            continue
        match = re.fullmatch(r" *(\"[^\"]*\"|'[^']*'|[^\s:#'\"\[{&*!|>%@`-][^:#]*|[^\s:]+) *:(?: +(.*))?", line)
        if match is None:
            raise ValueError(f"cannot be read without PyYAML: line {number} is not `key: value`")
        while levels[-1][0] >= indent:
            levels.pop()
        key, value = match[1].strip().strip("\"'"), (match[2] or "").strip()
        holder = levels[-1][1]
        if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
            holder[key] = value[1:-1]
        else:
            value = re.sub(r"(^|\s)#.*$", "", value).strip()
            holder[key] = scalar(value)
            if not value:
                holder[key] = {}
                levels.append((indent, holder[key]))
    return result


def checked_numbers(document: dict[str, Any]) -> dict[str, Any]:
    """The same document. A number that is not finite proves nothing."""
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"contains {value}, which is not a finite number")
    return document


def of_csv(content: bytes) -> dict[str, Any]:
    text = content.decode("utf-8-sig")
    if not text.endswith(("\n", "\r")):
        raise ValueError("is incomplete: its last line does not end")
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if len(rows) < 2:
        raise ValueError("has no row below its header")
    header, last = [name.strip() for name in rows[0]], rows[-1]
    if len(last) != len(header):
        raise ValueError(f"is incomplete: its last row has {len(last)} values, and its header {len(header)}")
    document: dict[str, Any] = {"rows": len(rows) - 1}
    document.update(zip(header, (scalar(value.strip()) for value in last)))
    return checked_numbers(document)


def of_safetensors(path: str) -> dict[str, Any]:
    with open(files.opened(path), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else HEADER_BYTES + 1
        if length > min(HEADER_BYTES, size - 8):
            raise ValueError("is incomplete: its header is missing")
        if length > MOST_BYTES:
            raise ValueError(f"has a header of {length} bytes, and one that is checked may have {MOST_BYTES}")
        try:
            header = json.loads(stream.read(length).decode("utf-8"))
            metadata = header.pop("__metadata__", {})
            shapes = {name: tensor["shape"] for name, tensor in header.items()}
            end = max([tensor["data_offsets"][1] for tensor in header.values()], default=0)
            known = {key: scalar(value) for key, value in metadata.items()}
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
            raise ValueError(f"is not a safetensors file: {error}") from None
    if size != 8 + length + end:
        raise ValueError(f"is incomplete: it has {size} bytes, and its header asks for {8 + length + end}")
    return {**shapes, "tensors": len(shapes), **known}


def of_mark(content: bytes) -> dict[str, Any]:
    """The file that completes a directory is any mark, or a JSON object with values."""
    try:
        return of_json(content)
    except ValueError:
        return {}


class Format:
    """How an artifact is read. `read` makes a map of its values, None where it has none; `content`: of its bytes, which
    are kept for it, else of its path. `closed`: it says by itself whether it is whole, however soon one looks.
    `folder`: the artifact is a folder, and what is read is the file that completes it, which may be empty.
    """

    def __init__(
        self,
        read: Callable[[Any], dict[str, Any]] | None,
        content: bool = True,
        closed: bool = False,
        folder: bool = False,
    ) -> None:
        self.read, self.content, self.closed, self.folder = read, content, closed, folder


# module_utils/spec/sections/artifact.py has the same names, for those who write a job.
FORMATS = {
    "json": Format(of_json, closed=True),
    "yaml": Format(of_yaml),
    "csv": Format(of_csv),
    "safetensors": Format(of_safetensors, content=False),
    "directory": Format(of_mark, folder=True),
    "any": Format(None, content=False),
}


def document_of(kind: str, path: str, content: bytes | None) -> dict[str, Any]:
    """The values of an artifact. `content` is its bytes for the formats that are read whole, else None."""
    form = FORMATS[kind]
    if form.read is None:
        return {}
    try:
        return form.read(content if form.content else path)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not valid UTF-8: {error}") from None
