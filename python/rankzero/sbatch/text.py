# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An sbatch script as commands: lines joined, blocks kept together, plain variables replaced. Runs nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
VARIABLE = re.compile(r"\$(?:\{(\w+)(?:(:?-)([^}]*))?\}|([A-Za-z_]\w*))")
# How many characters the values of variables may add to a text.
LONGEST = 20_000
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
#: What opens and what closes a block of the shell.
OPENS = re.compile(r"(?:^|[;&|]\s*|\bthen\s+|\bdo\s+|\belse\s+)(if|for|while|until|case)\b")
CLOSES = re.compile(r"(?:^|[;\s])(fi|done|esac)\b")
FUNCTION = re.compile(r"^\s*(?:function\s+\w+|\w+\s*\(\))\s*\{?")


def names(text: str) -> frozenset[str]:
    """The words in a text."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Command:
    """A command of the script, or a block such as `if ... fi`. `line`: the number of its first line, from 1."""

    line: int
    text: str
    block: bool = False


def commands(script: str) -> Iterator[Command]:
    """The commands after the header, without comments."""
    waiting: list[str] = []
    looked = 0
    start, depth, end_of_heredoc, quote = 0, 0, "", ""
    for number, line in enumerate(script.splitlines(), 1):
        if not waiting:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            start = number
        waiting.append(line)
        if end_of_heredoc:
            if line.strip() != end_of_heredoc:
                continue
            end_of_heredoc = ""
        elif line.rstrip().endswith("\\"):
            continue
        else:
            heredoc = HEREDOC.search(line)
            depth += _depth(line)
            if heredoc:
                end_of_heredoc = heredoc[2]
                continue
        # Each line is looked at once: a quote may stay open to the end of a long script.
        for part in waiting[looked:]:
            quote = _quote_after(part, quote)
        looked = len(waiting)
        if depth > 0 or quote:
            continue
        text = "\n".join(waiting)
        block = len(waiting) > 1 and not _continued(waiting)
        block = block or bool(OPENS.search(text) or FUNCTION.match(text)) or "<<" in text
        joined = re.sub(r"\\\n\s*", " ", text).strip()
        yield Command(start, joined, block and "'" not in text[:-1].split("\n", maxsplit=1)[0])
        waiting, depth, looked = [], 0, 0
    if waiting:
        yield Command(start, "\n".join(waiting).strip(), True)


def _depth(line: str) -> int:
    bare = re.sub(r"(?<!\\)#.*|'[^']*'|\"[^\"]*\"", "", line)
    opened = len(OPENS.findall(bare)) + len(re.findall(r"\{\s*$", bare))
    return opened - len(CLOSES.findall(bare)) - len(re.findall(r"^\s*\}", bare))


def _continued(lines: list[str]) -> bool:
    return all(line.rstrip().endswith("\\") for line in lines[:-1])


def _quote_after(line: str, quote: str) -> str:
    """The quote that is open after a line; empty if none is. `quote`: the one that is open before it."""
    escaped = False
    for character in line:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character == "#":
            break
        elif character in "'\"":
            quote = character
    return quote


def words(text: str) -> list[str]:
    """The words of a command, without quotes."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def filled(text: str, known: Mapping[str, str]) -> str:
    """The text with the variables that the script itself sets replaced. Others stay, and what would become too long."""
    added = 0

    def value(match: re.Match[str]) -> str:
        nonlocal added
        name = match[1] or match[4]
        if name in known:
            added += len(known[name])
            return known[name] if added <= LONGEST else match[0]
        return filled(match[3], known) if match[2] else match[0]

    return VARIABLE.sub(value, text)


def is_plain(text: str) -> bool:
    """Whether the shell would pass the text on unchanged."""
    return "$" not in text and "`" not in text


def options(given: list[str], switches: frozenset[str], letters: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(options by long name, the words after them) of a command such as srun.

    switches: long names without a value; their value is "". letters: short option -> long name.
    """
    values: dict[str, str] = {}
    rest = list(given)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name = letters.get(word[:2], word[1:2])
            value = word[2:].removeprefix("=")
            equals = "=" if value else ""
        if not equals and name not in switches and rest:
            value = rest.pop(0)
        values[name] = f"{values[name]},{value}" if name in values and name == "bind" else value
    return values, rest
