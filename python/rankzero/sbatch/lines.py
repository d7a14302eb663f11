# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of a script as bash has printed them: one a line, without comments, with a fixed layout. Pure.

Bash has parsed the script; here only its own output is taken apart. What does not look as expected is a command that
nothing explains, and is then kept in the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
#: What begins a command that contains others.
BLOCKS = ("if", "for", "while", "until", "case", "select", "function", "coproc", "{", "(", "((", "[[", "!", "time")
INDENT = "    "
_OPERATORS = (" && ", " || ", " | ", " & ", "; ")
_HERE_DOCUMENT = re.compile(r"<<(?!<)-?[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([^\s;&|<>()]+))")
_REDIRECTION = re.compile(r"(?:\d|&)?(?:>>|>&|<&|>\||>|<<<|<<-?|<|&>>|&>)")


@dataclass(frozen=True)
class Piece:
    """A simple command or a block. `before`: the operator between it and the piece before it, "" at the beginning of a
    line; `after`: the one behind it; `line`: the number of its line in the script, as near as it is known.
    """

    text: str
    before: str
    after: str
    line: int = 0

    @property
    def words(self) -> list[str]:
        """The words as they are written, without redirections."""
        result, skip = [], False
        for word in _split(self.text, (" ", "\n", "\t")):
            redirection = _REDIRECTION.match(word)
            if redirection:
                skip = redirection.end() == len(word)
            elif not skip:
                result.append(word)
            else:
                skip = False
        return result

    @property
    def redirections(self) -> list[str]:
        """The redirections: `>log`, `2>&1`, `<<EOF`."""
        result: list[str] = []
        wanted = False
        for word in _split(self.text, (" ", "\n", "\t")):
            match = _REDIRECTION.match(word)
            if wanted:
                result[-1] += word
            elif match:
                result.append(word)
            wanted = not wanted and match is not None and match.end() == len(word)
        return result

    @property
    def head(self) -> str:
        """The name of the command, without variables before it; "" for assignments alone."""
        return next((word for word in self.words if not ASSIGNMENT.match(word)), "")

    @property
    def block(self) -> bool:
        """Whether it contains other commands."""
        first = self.text.split(maxsplit=1)[0] if self.text.split() else ""
        return first in BLOCKS or first.startswith(("((", "[[", "(")) or re.match(r"\S+ \(\)", self.text) is not None


def pieces(parsed: str, script: str) -> Iterator[Piece]:
    """Iterate over the commands in what `declare -f` has printed of a script."""
    lines, at = script.split("\n"), -1
    for command in _commands(parsed):
        before = ""
        at += 1
        for text, after in _parts(command):
            at = _line(lines, at, text)
            yield Piece(text, before, after, at + 1)
            before = after


def _commands(parsed: str) -> Iterator[str]:
    """The commands of the function's body, each with the lines that belong to it: also those of its quotes and of its
    here-documents, however they look.
    """
    waiting: list[str] = []
    open_ones: list[str] = []
    ends: list[str] = []
    for line in parsed.split("\n")[2:]:
        if ends:
            waiting.append(line)
            if line.lstrip("\t") == ends[0]:
                ends.pop(0)
            continue
        if not open_ones:
            if line == "}":
                break
            if waiting and _begins(waiting, line):
                yield "\n".join(waiting)
                waiting = []
        waiting.append(line if open_ones else line.removeprefix(INDENT))
        text = f"{line}\n"
        for at in _outside(text, open_ones):
            match = _HERE_DOCUMENT.match(text, at)
            if match and text[at - 1 : at] != "<":
                ends.append(match[1] or match[2] or match[3] or "")
    else:
        # Not read as bash has read it: a block, which nothing explains.
        waiting.insert(0, "{")
    if waiting:
        yield "\n".join(waiting)


def _begins(waiting: list[str], line: str) -> bool:
    """Whether a line begins another command."""
    outer = line.startswith(INDENT) and not line.startswith((INDENT + " ", INDENT + "}"))
    return outer and not _goes_on(waiting, line)


def _goes_on(waiting: list[str], line: str) -> bool:
    """Whether a line at the outer level closes or continues the block before it."""
    first = line.split(maxsplit=1)[0].rstrip(";")
    return bool(waiting) and first in ("then", "do", "else", "elif", "fi", "done", "esac", "{", "}", ")", ";;", "in")


def _parts(command: str) -> Iterator[tuple[str, str]]:
    """The parts of a command and the operators behind them. A block is one part, with all behind it."""
    rest = command
    while rest:
        if Piece(rest, "", "").block:
            end = _end_of_block(rest)
            at, operator = _cut(rest[end:], _OPERATORS)
            text = rest[: end + at].strip().rstrip(";")
            rest = rest[end + at + len(operator) :].lstrip() if operator else ""
            yield text.removesuffix(" &"), operator.strip() or ("&" if text.endswith(" &") else "")
            continue
        at, operator = _cut(rest, _OPERATORS)
        text = rest[:at].strip()
        rest = rest[at + len(operator) :].lstrip()
        if not operator:
            background = text.endswith(" &")
            text = text.rstrip(";").removesuffix(" &").rstrip()
            operator = "&" if background else ""
        if text:
            yield text, operator.strip()


def _end_of_block(text: str) -> int:
    """Where the last line of a block begins: the first one without an indentation that closes; else the whole text."""
    match = re.search(r"^(?:fi|done|esac|\}|\))(?=\W|$)", text, re.M)
    return match.start() if match else len(text)


def _cut(text: str, operators: tuple[str, ...]) -> tuple[int, str]:
    """(where the first operator outside quotes and substitutions begins, the operator)."""
    for at in _outside(text):
        for operator in operators:
            if text.startswith(operator, at):
                return at, operator
    return len(text), ""


def _split(text: str, separators: tuple[str, ...]) -> list[str]:
    """The parts between separators outside quotes and substitutions, without empty ones."""
    cuts = [at for at in _outside(text) if text[at] in separators]
    return [part for start, end in zip([-1, *cuts], [*cuts, len(text)]) if (part := text[start + 1 : end])]


def _outside(text: str, open_ones: list[str] | None = None) -> Iterator[int]:
    """The places of the characters outside quotes, `$( )`, `( )`, `${ }` and backquotes, and not behind a backslash.

    open_ones: what closes each that is open where the text begins, the inner ones last. Changed: where it ends.
    """
    open_ones = [] if open_ones is None else open_ones
    at = 0
    while at < len(text):
        character, before, inner = text[at], text[at - 1 : at], open_ones[-1] if open_ones else ""
        if character == "\\" and inner != "'":
            at += 2
            continue
        if inner and character == inner[-1]:
            open_ones.pop()
        elif inner.endswith("'"):
            pass  # nothing has a meaning here
        elif opened := _opened(character, before, open_ones):
            open_ones.append(opened)
        elif character == "#" and inner in (")", "`") and before in ("", " ", "\n", "\t", "("):
            at = (text + "\n").index("\n", at)
        elif not inner:
            yield at
        at += 1


def _opened(character: str, before: str, open_ones: list[str]) -> str:
    """What closes what a character opens; "" if it opens nothing."""
    inner = open_ones[-1] if open_ones else ""
    if character in '"`':
        return character
    if character == "'":
        return "" if inner == '"' else "$'" if before == "$" else "'"
    if character in "({":
        starts = before == "$" if inner in ('"', "}") else inner == ")" or (before and before in "$=<>")
        return {"(": ")", "{": "}"}[character] if starts else ""
    return ""


def substitutions(text: str) -> Iterator[str]:
    """The commands inside `$( )`, backquotes and `<( )`. Arithmetic is none."""
    for match in re.finditer(r"`([^`]*)`", text):
        yield match[1]
    for match in re.finditer(r"[$<>]\((?!\()", text):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        yield text[match.end() : at - 1]


def heads(text: str) -> list[str]:
    """The names of all commands of a line with operators, blocks included."""
    parts, rest = [], text
    while rest:
        at, operator = _cut(rest, (" && ", " || ", " | ", "; ", "|", ";", "\n"))
        parts.append(Piece(rest[:at].strip(), "", "").head)
        rest = rest[at + len(operator) :] if operator else ""
    return [head for head in parts if head]


def operands(text: str) -> list[str]:
    """The words of the first command of a line, without its name and its options."""
    at, _operator = _cut(text, (*_OPERATORS, "|", ";", "\n"))
    return [word for word in _split(text[:at], (" ", "\n", "\t"))[1:] if not word.startswith("-")]


def _line(lines: list[str], at: int, text: str) -> int:
    """The place of a command in the script, from `at` on: where its first word is, else `at`."""
    first = next((word for word in text.split() if word != "function"), "")
    for number in range(at, len(lines)):
        line = lines[number].strip()
        if not line.startswith("#") and first and first in line:
            return number
    return min(max(at - 1, 0), len(lines) - 1)
