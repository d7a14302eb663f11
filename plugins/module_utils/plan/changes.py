# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a launch is another one than the nearest of its name: the changed values of its spec, the changed files. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import BY_NAME
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import role_values, short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse

KEY_DIGITS = 8
# What one line shows.
MOST_CHANGES = 6
MOST_CHARACTERS = 40


def recorded_spec(document: Parameters) -> LaunchSpec:
    """Return the spec that a run directory records. Wrong values count as not given."""
    return parse(merge([Layer("launch.json", document)])).spec


def code_changes(
    before: Parameters, files: Mapping[str, str], text_of: Callable[[str], str | None]
) -> tuple[list[str], list[str], list[str]]:
    """(the changes as words, and the lines of a diff before and after).

    `before`: what the cluster says about the earlier code (admission/predecessor.py). `files`: path -> digest of this
    launch's code. `text_of` returns the text of one of its files; None if it has none.
    """
    words, old, new = [], [], []
    for path, digest in before["files"].items():
        old.append(f"{path} {digest}")
        if path not in files:
            words.append(f"{path} removed")
            continue
        new.append(f"{path} {files[path]}")
        text, now = before["texts"].get(path), text_of(path) if path in before["texts"] else None
        counts = _counts(text.splitlines(), now.splitlines()) if text is not None and now is not None else ""
        words.append(f"{path} {counts or 'changed'}")
    for path in before["added"]:
        new.append(f"{path} {files.get(path, '')}")
        words.append(f"{path} added")
    return words, old, sorted(new)


def _counts(before: Sequence[str], after: Sequence[str]) -> str:
    """`+3 -1`; "" if no line has changed, only its end or the execute bit."""
    changed = [code for code in SequenceMatcher(None, before, after, False).get_opcodes() if code[0] != "equal"]
    added, removed = sum(code[4] - code[3] for code in changed), sum(code[2] - code[1] for code in changed)
    return " ".join(filter(None, [f"+{added}" if added else "", f"-{removed}" if removed else ""]))


def spec_changes(before: LaunchSpec, after: LaunchSpec) -> list[str]:
    """Return the changed values that are part of the launch key, as words: `command --steps 100 -> 200`."""
    changes: list[str] = []
    for path, keyed, old, new in _fields(before, after):
        if keyed and old != new:
            changes += _value_changes(path, old, new)
    return changes


def input_changes(before: Sequence[Ref], after: Sequence[Ref]) -> list[str]:
    """Return the changed inputs as words, except the code, which is compared file by file."""

    def by_kind(refs: Sequence[Ref]) -> dict[str, list[str]]:
        kinds: dict[str, list[str]] = {}
        for ref in refs:
            kind = BY_NAME.get(ref.kind)
            if kind is None or (kind.in_store and not kind.tree):
                kinds.setdefault(ref.kind, []).append(ref.key)
        return {kind: sorted(keys) for kind, keys in kinds.items()}

    old, new = by_kind(before), by_kind(after)
    return [
        f"{kind} {_shown_keys(old.get(kind))} -> {_shown_keys(new.get(kind))}"
        for kind in dict.fromkeys([*old, *new])
        if old.get(kind) != new.get(kind)
    ]


def _shown_keys(keys: Sequence[str] | None) -> str:
    return " ".join(key[:KEY_DIGITS] for key in keys) if keys else "none"


def sentence(key: str, changes: Sequence[str]) -> str:
    """`another launch than 469c8ef2: command --steps 100 -> 200, train.py +3 -1`."""
    shown = list(changes[:MOST_CHANGES])
    more = len(changes) - len(shown)
    shown += [f"and {more} more"] if more else []
    why = ", ".join(shown) or "the same spec and code, with other inputs"
    return f"another launch than {short_key(key)[:KEY_DIGITS]}: {why}"


def spec_lines(spec: LaunchSpec) -> list[str]:
    """Return the values of a spec that differ from the defaults, one line each, for a diff."""
    default = LaunchSpec()
    return [f"{path}: {_json(value)}" for path, _keyed, value, usual in _fields(spec, default) if value != usual]


def _fields(before: LaunchSpec, after: LaunchSpec) -> Iterator[tuple[str, bool, Any, Any]]:
    """(path, part of the launch key, value before, value after) of each field."""
    for info in fields_of(LaunchSpec):
        # Data and secrets are part of the key in another form.
        keyed = bool(info.meta["key"]) or info.path.split(".")[0] in ("data", "secrets")
        yield info.path, keyed, _value(before, info.path, info.default), _value(after, info.path, info.default)


def _value(spec: LaunchSpec, path: str, default: object) -> Any:
    if path == "roles":
        return role_values(spec)
    holder: Any = spec
    for part in path.split("."):
        if holder is None:  # a section that is not given; that an artifact is required at all is a change, too
            return None if path == "artifact.path" else default
        holder = getattr(holder, part)
    return holder


def _value_changes(path: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
        return [f"{path}.{name} {_short(old.get(name))} -> {_short(new.get(name))}" for name in names]
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return [f"{path} {change}" for change in _word_changes([*map(_text, old)], [*map(_text, new)])]
    if isinstance(old, str) and isinstance(new, str) and " " in old + new:
        return [f"{path} {change}" for change in _word_changes(old.split(), new.split())]
    return [f"{path} {_short(old)} -> {_short(new)}"]


def _word_changes(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The changed words of a command, each with the option before it."""
    changes = []
    for code, start, end, begin, stop in SequenceMatcher(None, old, new, False).get_opcodes():
        if code == "equal":
            continue
        gone, come = " ".join(old[start:end]), " ".join(new[begin:stop])
        option = f"{old[start - 1]} " if start and old[start - 1].startswith("-") and "=" not in old[start - 1] else ""
        if code == "replace":
            changes.append(f"{option}{_cut(gone)} -> {_cut(come)}")
        else:
            changes.append(f"without {_cut(gone)}" if code == "delete" else f"with {_cut(come)}")
    return changes


def _short(value: Any) -> str:
    return "none" if value is None else _cut(_text(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 3] + "..."


def _json(value: Any) -> str:
    def plain(value: object) -> object:
        return (
            dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)
        )

    return json.dumps(value, default=plain, sort_keys=True)
