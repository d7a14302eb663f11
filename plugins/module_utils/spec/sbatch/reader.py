# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reader of the options of sbatch and srun: #SBATCH lines and command lines as getopt_long(3) takes them apart.

An option may be abbreviated, short ones may stand together, and a value may be the next word. Imports nothing of the
collection: the command `rankzero` loads this file by its path, where Ansible is not started. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FIRST, DIRECTIVE = "#!", "#SBATCH"
# What sbatch reads as well, with a warning.
_OLD_DIRECTIVE = "#SLURM"
# What parts words for sbatch. Python's own list has more, such as the blank of web pages (U+00A0).
_BLANKS = " \t\n\v\f\r"
# The longest name of a launch.
_LONGEST = 64


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LETTERS = {
    "A": "account", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task", "D": "chdir",
    "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "h": "help", "i": "input",
    "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos", "S": "core-spec",
    "s": "oversubscribe", "t": "time", "V": "version", "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_OF_SBATCH = {"a": "array", "W": "wait"}
_OF_SRUN = {
    "E": "preserve-env", "I": "immediate", "K": "kill-on-bad-exit", "l": "label", "r": "relative", "T": "threads",
    "u": "unbuffered", "W": "wait", "X": "disable-status", "Z": "no-allocate",
}  # fmt: skip
# Options that never have a value, and those that have one only after `=` (22.05 to 26.05).
_SWITCHES = _names(
    "autocomplete consolidate-segments contiguous container-entrypoint container-mount-home container-readonly "
    "container-remap-root container-writable exact help hold ignore-pbs interactive label no-container-entrypoint "
    "no-container-mount-home no-container-remap-root no-requeue overcommit overlap oversubscribe parsable quiet reboot "
    "requeue share spread-job spread-segments stepmgr test-only unbuffered usage use-min-nodes verbose version whole"
)
_SWITCHES_OF_SRUN = _names("disable-status no-allocate preserve-env pty")
_OPTIONAL = _names("exclusive get-user-env kill-on-bad-exit nice no-kill oom-kill-step propagate x11")


@dataclass(frozen=True)
class Command:
    """A command of Slurm: its short options, its long ones without a value, and those with a value only after `=`."""

    letters: Mapping[str, str]
    switches: frozenset[str]
    optional: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The long names in these tables."""
        return frozenset(self.letters.values()) | self.switches | self.optional


SBATCH = Command({**_LETTERS, **_OF_SBATCH}, _SWITCHES | {"wait"}, _OPTIONAL)
SRUN = Command({**_LETTERS, **_OF_SRUN}, _SWITCHES | _SWITCHES_OF_SRUN, _OPTIONAL | {"immediate"})


@dataclass(frozen=True)
class Given:
    """An option as it was given: the number of its line (0 for a command line), its long name, and its value; True for
    one without a value.
    """

    line: int
    name: str
    value: str | bool


#: Where something is wrong (a line number), and a sentence about it.
Problem = tuple[int, str]


def head(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over the numbered lines of a script before its first command."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip(_BLANKS) and not line.lstrip(_BLANKS).startswith("#"):
            return
        yield number, line


def directives(text: str, problems: list[Problem]) -> list[tuple[int, str]]:
    """Return the numbered words of the #SBATCH lines of a script, which are one list for sbatch."""
    numbered: list[tuple[int, str]] = []
    for number, line in head(text):
        prefix = next((prefix for prefix in (DIRECTIVE, _OLD_DIRECTIVE) if line.startswith(prefix)), None)
        if prefix is None:
            continue
        try:
            numbered += [(number, word) for word in words(line[len(prefix) :])]
        except ValueError as error:
            problems.append((number, str(error)))
    return numbered


def words(text: str) -> list[str]:
    """Split a line into words as sbatch does: quotes group, a backslash escapes, # begins a comment. Outside of quotes
    a backslash does not keep a blank, and an empty word ends the line.

    Raises ValueError for a quote that is not closed.
    """
    result: list[str] = []
    word: str | None = None
    quote, escaped = "", False
    for character in text:
        if escaped and (quote or character not in _BLANKS):
            word, escaped = (word or "") + character, False
        elif character == "\\":
            escaped = True
        elif quote:
            word, quote = (word or "") + ("" if character == quote else character), "" if character == quote else quote
        elif character in "'\"":
            word, quote = word or "", character
        elif character == "#":
            break
        elif character in _BLANKS:
            if word == "":
                return result
            result += [] if word is None else [word]
            word, escaped = None, False
        else:
            word = (word or "") + character
    if quote:
        raise ValueError(f"the quote {quote} is not closed")
    return [*result, word] if word else result


def abbreviated(name: str, known: frozenset[str]) -> list[str]:
    """Return the options that getopt_long would accept an abbreviated name for; empty for a complete name."""
    return [] if name in known else sorted(option for option in known if option.startswith(name))


def options(
    rest: list[tuple[int, str]], command: Command, known: frozenset[str], problems: list[Problem]
) -> Iterator[Given]:
    """Iterate over the options at the beginning of the numbered words `rest`, and take them out of it.

    known: the long names that an abbreviation may mean. The first word that is no option stays in `rest`, with all that
    follow.
    """
    while rest:
        number, word = rest[0]
        if word == "--":
            del rest[0]
            return
        if not word.startswith("-") or word == "-":
            return
        del rest[0]
        if not word.startswith("--"):
            yield from _letters(number, word[1:], rest, command, problems)
            continue
        name, equals, given = word[2:].partition("=")
        meant = abbreviated(name, known)
        if len(meant) > 1:
            problems.append((number, f"--{name}: may mean {', '.join(meant[:5])}; write the full name"))
            continue
        name = meant[0] if meant else name
        yield Given(number, name, given if equals else _value(name, rest, command))


def _value(name: str, rest: list[tuple[int, str]], command: Command) -> str | bool:
    """Take the value of an option from the words that follow."""
    return True if name in command.switches or name in command.optional or not rest else rest.pop(0)[1]


def _letters(
    number: int, letters: str, rest: list[tuple[int, str]], command: Command, problems: list[Problem]
) -> Iterator[Given]:
    """Iterate over short options that are written together, the last one with its value: -N4, -Hk, -t 10."""
    while letters:
        letter, letters = letters[0], letters[1:]
        name = command.letters.get(letter)
        if name is None:
            problems.append((number, f"-{letter} is no option of Slurm's command; remove it"))
            return
        if name in command.switches or (name in command.optional and not letters):
            yield Given(number, name, True)
            continue
        # getopt_long leaves an `=` in the value of a short option, and Slurm then refuses most of them.
        yield Given(number, name, letters.removeprefix("=") or _value(name, rest, command))
        return


def launch_name(text: str, otherwise: str = "script") -> str:
    """Return a name for the launch that is as close as can be to the text that a script uses."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:_LONGEST] or otherwise


def job_name(text: str) -> str | None:
    """Return the name that the #SBATCH lines of a script give to its job; None for a script without one."""
    problems: list[Problem] = []
    rest, name = directives(text, problems), None
    while rest:
        for given in options(rest, SBATCH, SBATCH.names, problems):
            name = str(given.value) if given.name == "job-name" else name
        del rest[:1]
    return name
