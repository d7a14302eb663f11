# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text from files and from the cluster as it may go to a terminal. Pure.

A terminal obeys control characters: they clear the screen, retype what stands there, or set the clipboard. Marks of
text direction show a path in another order than it has. Half a surrogate pair ends the program that prints it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

# The longest line that is shown: a megabyte of it hides what stands above.
LONGEST = 4000
# The same for a message of several lines. It may be a diff, of which nothing is to be missed: the cut says how much.
LONGEST_OF_LINES = 100_000
# Colours and movements of the cursor, as progress bars and loggers write them; they are dropped from lines of logs.
_SEQUENCES = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_BLANKS = "\t\r\n\v\f"
# Controls, formats (direction, joiners, tags), halves of pairs, ends of lines and of paragraphs.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def _seen(character: str) -> str:
    """One character, or its escape where a terminal would do anything else than show it."""
    if character.isprintable() or unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode("ascii")


def printable(value: object, width: int = LONGEST) -> str:
    """A value as one line: colours dropped, blanks for ends of lines, escapes for all else that is no sign; cut."""
    # What is cut anyway is not looked at: a value may have megabytes.
    text = str(value)[: 4 * width + 1000]
    if not text.isprintable():
        text = _SEQUENCES.sub("", text)
        text = "".join(" " if character in _BLANKS else _seen(character) for character in text)
    text = text.rstrip()
    return text if len(text) <= width else text[: width - 1] + "…"


def printable_lines(value: object) -> str:
    """A message of several lines. The lines stay, each as it is, with escapes for all that is no sign."""
    return "\n".join(_line(line) for line in str(value).split("\n"))


def _line(text: str) -> str:
    more = len(text) - LONGEST_OF_LINES
    shown = text[:LONGEST_OF_LINES]
    if not shown.isprintable():
        shown = "".join(character if character == "\t" else _seen(character) for character in shown)
    return shown if more <= 0 else f"{shown}… ({more} characters more)"


# What of a result people read: Ansible and the playbooks print it as it is. All else is data, and stays as it is.
SHOWN = frozenset({"msg", "message", "lines", "diff", "explain", "notes", "problems", "summary", "table", "warnings"})


def printable_result(result: Mapping[str, object]) -> dict[str, object]:
    """A result whose texts for people may be printed, at any depth but in an artifact's values."""
    return {
        key: _texts(value) if key in SHOWN else value if key == "values" else _inside(value)
        for key, value in result.items()
    }


def _inside(value: object) -> object:
    if isinstance(value, dict):
        return printable_result(value)
    return [_inside(one) for one in value] if isinstance(value, list) else value


def _texts(value: object) -> object:
    if isinstance(value, str):
        return printable_lines(value)
    if isinstance(value, dict):
        return {key: _texts(one) for key, one in value.items()}
    return [_texts(one) for one in value] if isinstance(value, (list, tuple)) else value
