# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make text from files and from the cluster safe to print on a terminal. Pure.

A terminal obeys control characters: they clear the screen, overwrite text, or set the clipboard. Marks of text
direction change the displayed order of a path. Half a surrogate pair raises an error in the program that prints it.
CI systems take `##[` anywhere in a line, and `::name::` at its beginning, for commands: those get a blank.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

# The longest line that is printed. A line of a megabyte would scroll earlier output away.
LONGEST = 4000
# The limit for a message of several lines. It may be a diff that must not lose anything silently, so the cut is marked
# with the number of characters left out.
LONGEST_OF_LINES = 100_000
# Colours and cursor movements, as progress bars and loggers write them. They are removed from log lines.
_SEQUENCES = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_COMMANDS = re.compile(r"##(?=\[|vso\[)|^\s*:(?=:[\w-]+(?: .*)?::)", re.MULTILINE)
_BLANKS = "\t\r\n\v\f"
# Unicode categories: control, format (direction, joiners, tags), surrogate, line separator, paragraph separator.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def _seen(character: str) -> str:
    """Return a character, or its escape sequence if a terminal would not simply display it."""
    if character.isprintable() or unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode("ascii")


def printable(value: object, width: int = LONGEST) -> str:
    """Return a value as one line of at most `width` characters.

    Colours are removed, line breaks and tabs become spaces, and other unprintable characters become escapes.
    """
    # A value may have megabytes, so the part that is cut anyway is not processed.
    text = str(value)[: 4 * width + 1000]
    if not text.isprintable():
        text = _SEQUENCES.sub("", text)
        text = "".join(" " if character in _BLANKS else _seen(character) for character in text)
    text = no_commands(text.rstrip())
    return text if len(text) <= width else text[: width - 1] + "…"


def no_commands(text: str) -> str:
    """Return a text in which no runner of a CI system finds a command."""
    return _COMMANDS.sub(r"\g<0> ", text) if "##" in text or "::" in text else text


def printable_lines(value: object) -> str:
    """Return a message of several lines. The lines are kept; unprintable characters become escapes."""
    return "\n".join(_line(line) for line in str(value).split("\n"))


def _line(text: str) -> str:
    more = len(text) - LONGEST_OF_LINES
    shown = text[:LONGEST_OF_LINES]
    if not shown.isprintable():
        shown = "".join(character if character == "\t" else _seen(character) for character in shown)
    shown = no_commands(shown)
    return shown if more <= 0 else f"{shown}… ({more} characters more)"


# Keys of a result that people read: Ansible and the playbooks print them as they are. Other values are data and are not
# changed.
SHOWN = frozenset(
    {"msg", "message", "lines", "diff", "explain", "notes", "problems", "summary", "table", "warnings", "text", "what",
     "remedy", "reason"}
)  # fmt: skip


def printable_result(result: Mapping[str, object]) -> dict[str, object]:
    """Return a result with its texts for people made printable, at any depth except in an artifact's `scalars`."""
    return {
        key: _texts(value) if key in SHOWN else value if key == "scalars" else _inside(value)
        for key, value in result.items()
    }


def _inside(value: object) -> object:
    if isinstance(value, dict):
        return printable_result(value)
    return [_inside(element) for element in value] if isinstance(value, list) else value


def _texts(value: object) -> object:
    if isinstance(value, str):
        return printable_lines(value)
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    return [_texts(item) for item in value] if isinstance(value, (list, tuple)) else value
