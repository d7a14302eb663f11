# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pattern for relative paths, as in .gitignore, matched in time proportional to pattern times path. Pure.

A job file of somebody else may have any pattern. A regular expression with many wildcards tries all ways to divide a
path among them, which can take for ever. Such a pattern is followed through the path in all its states at once.
"""

from __future__ import annotations

import re

_PARTS = re.compile(r"(\*\*/|/\*\*$|\*|\?|\[[^\]]+\])")


class Wildcards:
    """A pattern. A trailing `/` means folders only; without another `/`, it matches a name at any depth."""

    def __init__(self, pattern: str) -> None:
        self.folder_only = pattern.endswith("/")
        body = pattern.rstrip("/")
        self.parts = [part for part in _PARTS.split(body.lstrip("/")) if part]
        if "/" not in body:
            self.parts.insert(0, "**/")
        # Bits of the states that stay at any character, that stay but at a slash, and that go on without a character.
        self._stays = self._in_name = self._skips = self._skips_two = 0
        self._moves: list[re.Pattern[str] | None] = []
        self._of: dict[str, tuple[int, int]] = {}
        for part in self.parts:
            self._add(part)

    @property
    def few(self) -> bool:
        """Whether an expression tries few ways: one part at any depth, and two `*` between slashes."""
        deep = sum(part in ("**/", "/**") for part in self.parts)
        names = "".join("/" if part == "**/" else part for part in self.parts if part[0] != "[").split("/")
        return deep <= 1 and all(name.count("*") <= 2 for name in names)

    def expression(self) -> str:
        """The pattern as a regular expression for the beginning of a path."""
        return "".join(map(_expression, self.parts)) + ("/" if self.folder_only else r"(?:/|\Z)")

    def matches(self, path: str) -> bool:
        """Whether the path, or a folder that it is in, matches."""
        end, states = 1 << len(self._moves), self._closed(1)
        for character in path:
            if states & end and character == "/":
                return True
            moves, stays = self._of.get(character) or self._learn(character)
            states = self._closed((states & moves) << 1 | states & stays)
            if not states:
                return False
        return bool(states & end) and not self.folder_only

    def _add(self, part: str) -> None:
        """Append the states of a part."""
        if part == "**/":
            # Skipped, or anything up to a slash.
            self._skips_two |= 1 << len(self._moves)
            self._skips |= 1 << len(self._moves)
            self._state(None)
            self._stays |= 1 << len(self._moves)
            self._state("/")
        elif part in ("*", "/**"):
            if part == "/**":
                self._state("/")
            here = 1 << len(self._moves)
            self._skips |= here
            if part == "/**":
                self._stays |= here
            else:
                self._in_name |= here
            self._state(None)
        elif part == "?" or (part[0] == "[" and part[-1] == "]" and len(part) > 2):
            self._state(_expression(part))
        else:
            for character in part:
                self._state(re.escape(character))

    def _state(self, expression: str | None) -> None:
        self._moves.append(None if expression is None else re.compile(expression, re.DOTALL))

    def _learn(self, character: str) -> tuple[int, int]:
        """The states that go on at a character, and those that stay."""
        moves = sum(1 << index for index, move in enumerate(self._moves) if move is not None and move.match(character))
        stays = self._stays | (0 if character == "/" else self._in_name)
        self._of[character] = moves, stays
        return moves, stays

    def _closed(self, states: int) -> int:
        """The states with all that follow without a character."""
        while True:
            more = states | (states & self._skips) << 1 | (states & self._skips_two) << 2
            if more == states:
                return states
            states = more


def _expression(part: str) -> str:
    if part in ("**/", "/**", "*", "?"):
        return {"**/": "(?:.*/)?", "/**": "/.*", "*": "[^/]*", "?": "[^/]"}[part]
    if part[0] == "[" and part[-1] == "]" and len(part) > 2:
        inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return "[^" + inside[1:] + "]" if inside[0] == "!" else "[" + inside + "]"
    return re.escape(part)
