# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML and JSON files of a repository, read with limits that are checked before objects are built.

Values behind an alias count each time, nesting is limited, a key may occur only once in a map, and the length of
numbers is limited.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

# Far more than any job needs. Keys and expanded aliases count, because nested aliases could exhaust memory.
MOST_VALUES = 30_000
MOST_LEVELS = 50
MOST_DIGITS = 40
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Bounded(yaml.SafeLoader):
    """A YAML loader that counts values before it builds them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0
        # For each open collection: its anchor, and the number of its values so far.
        self._open: list[tuple[str | None, int]] = []
        self._anchored: dict[str, int] = {}

    def get_event(self) -> Any:
        event: Any = super().get_event()  # type: ignore[no-untyped-call]
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            self._open.append((event.anchor, 1))
            self._count(1, event)
            if len(self._open) > MOST_LEVELS:
                raise _refused(f"it is nested more than {MOST_LEVELS} levels deep", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = self._open.pop()
            self._close(anchor, size)
        elif isinstance(event, yaml.ScalarEvent):
            self._count(1, event)
            self._close(event.anchor, 1)
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _size in self._open):
                raise _refused("an alias refers to a node that contains it", event)
            size = self._anchored.get(str(event.anchor), 1)
            self._count(size, event)
            self._close(None, size)
        return event

    def _count(self, size: int, event: Any) -> None:
        self._values += size
        if self._values > MOST_VALUES:
            raise _refused(f"it contains more than {MOST_VALUES} values (aliases count each time)", event)

    def _close(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchored[anchor] = size
        if self._open:
            above, before = self._open[-1]
            self._open[-1] = (above, before + size)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _value in node.value:
            if key.value in keys and isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} appears twice", key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                keys.add(key.value)
        return dict(super().construct_mapping(node, deep))

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
            raise yaml.constructor.ConstructorError(
                None, None, f"a number may have {MOST_DIGITS} digits: quote what is text", node.start_mark
            )
        return super().construct_object(node, deep)


class _Text(_Bounded):
    """Keeps all text as text, recognises null, and refuses tags, merge keys and duplicate keys."""

    # Without resolvers, every scalar is text.
    yaml_implicit_resolvers: dict[str, Any] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lines: dict[str, int] = {}

    def build(self, node: Any, path: str) -> Any:
        if node.tag.startswith("!") or (
            node.tag.startswith("tag:yaml.org") and node.tag.rsplit(":", 1)[1] not in ("str", "map", "seq")
        ):
            raise _refused(f"the tag {node.tag} is not allowed: a job file is plain data", node)
        if path:
            self.lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        if node.style is None and node.value in ("", "~", "null", "Null", "NULL"):
            return None
        return node.value

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str):
                raise _refused("a key must be text", key_node)
            below = f"{path}.{key}" if path else key
            if key in result:
                raise _refused(f"the key {key!r} appears twice, first in line {self.lines[below]}; keep one", key_node)
            result[key] = self.build(value_node, below)
            self.lines[below] = key_node.start_mark.line + 1
        return result


def text_document(text: str) -> tuple[Any, dict[str, int]]:
    """(a YAML document whose scalars are all text, or None for null; the line of each path in it).

    Raises yaml.YAMLError.
    """
    loader = _Text(text)
    node = loader.get_single_node()
    return (loader.build(node, "") if node is not None else None), loader.lines


def typed_document(text: str) -> Any:
    """A YAML document with YAML's types. Raises yaml.YAMLError."""
    return _Bounded(text).get_single_data()


def json_document(text: str, what: str) -> Any:
    """A JSON document; None if the text is not JSON. Beyond a limit, raises RankzeroError starting with `what`."""

    def number(digits: str) -> int | float:
        if len(digits) > MOST_DIGITS:
            raise RankzeroError(f"{what}: a number may have {MOST_DIGITS} digits, and one has {len(digits)}")
        return int(digits) if digits.lstrip("-").isdecimal() else float(digits)

    def mapping(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, value in pairs:
            if key in members:
                raise RankzeroError(f"{what}: the key {key!r} occurs twice in a map")
            members[key] = value
        return members

    def refused(word: str) -> None:
        raise RankzeroError(f"{what}: {word} is not a number; omit it, or quote it")

    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text, object_pairs_hook=mapping, parse_int=number, parse_float=number, parse_constant=refused)
    except (ValueError, RecursionError):
        return None


def _refused(problem: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, at.start_mark)
