# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a rendered launch is known on the cluster only: its generation, in which store a thing lies, and its digest.

They stand in the text as words that mean the same wherever they are quoted, and are replaced there. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

# What needs no quoting: not for the shell, not in JSON, not in a list of mounts.
PLAIN = r"/[A-Za-z0-9._/+@=-]*"


def with_generation(text: str, token: str, generation: int) -> str:
    """Rendered text for one generation: `token` (Plan.token) stands where its number belongs."""
    return text.replace(token, str(generation))


def digest_token(key: str) -> str:
    """Stands for the sha256 of what has this key: of the squashfs file, or of the list of a set of packages."""
    return f"SHA256-OF-{key}"


def text_replaced(value: T, texts: Mapping[str, str]) -> T:
    """A request, rendered files or lines with tokens and paths replaced by what they turned out to be.

    The shape stays, but for tuples, which become lists.
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
    return value
