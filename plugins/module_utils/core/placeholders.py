# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholders for values of a rendered launch that are known only on the cluster. Pure.

These values are the generation, the store that holds an item, and an item's digest. Each placeholder is a plain word
that needs no quoting anywhere, and is replaced on the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

T = TypeVar("T")

# Paths that need no quoting in the shell, in JSON or in a list of mounts.
PLAIN = r"/[A-Za-z0-9._/+@=-]*"


def generation_token(key: str) -> str:
    """Return the placeholder for the generation of the launch with this key."""
    return f"GENERATION-{key[-24:]}"


def with_generation(text: str, token: str, generation: int) -> str:
    """Return rendered text with `token` (Plan.token) replaced by the number of the generation."""
    return text.replace(token, str(generation))


def digest_token(key: str) -> str:
    """Return the placeholder for the sha256 of the item with this key: a squashfs file or the list of a package set."""
    return f"SHA256-OF-{key}"


def text_replaced(value: T, texts: Mapping[str, str]) -> T:
    """Return a request, rendered files or lines with tokens and paths replaced by their actual values.

    The structure is kept, except that tuples become lists.
    """
    return cast("T", _replaced(value, texts))


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for token, text in texts.items():
            value = value.replace(token, text)
        return value
    if isinstance(value, Mapping):
        return {name: _replaced(item, texts) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(item, texts) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{part.name: _replaced(getattr(value, part.name), texts) for part in fields(value)})
    return value
