# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a list of checksums in the format of sha256sum(1). Pure."""

from __future__ import annotations

import re

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import plain

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
_BSD = re.compile(r"SHA256 ?\((.+)\) ?= ?([0-9a-fA-F]{64})")


def parse(text: str, where: str) -> dict[str, str]:
    """Name -> sha256. Raises RankzeroError for an invalid line, an unsafe name, and two sums of one file."""
    sums: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match, other = _LINE.fullmatch(line), _BSD.fullmatch(line)
        if not match and not other:
            raise RankzeroError(
                f"checksums: line {number} of {where} is not a sha256sum line: {line[:80]!r}; expected 64 hexadecimal "
                "digits, two blanks and a name"
            )
        sha256, name = (match[1], match[2]) if match else (other[2], other[1])  # type: ignore[index]
        name = name[2:] if name.startswith("./") else name
        try:
            plain(name)
        except RankzeroError as error:
            raise RankzeroError(
                f"checksums: line {number} of {where} names {name!r}, which is outside the folder"
            ) from error
        if sums.setdefault(name, sha256.lower()) != sha256.lower():
            raise RankzeroError(f"checksums: {where} has two sums of {name}; remove the wrong one")
    if not sums:
        raise RankzeroError(f"checksums: {where} is empty")
    return sums
