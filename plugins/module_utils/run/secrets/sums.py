# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the values of a launch's secrets in text when the values themselves are gone. Pure.

The values leave the run directory when the launch ends; its logs are read long afterwards. What stays is, for each
value, a salted digest and its length. To digest every place of a log would take hours, so one bit of each of the first
bytes stays as well: the salt divides all bytes into two halves, and the bit says in which half the byte is. A log is
reduced to such bits at once, and only places with the right bits are digested.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# The file in a run directory.
FILE = "secrets.sums"
# Values of fewer bytes are words that stand in any log: they are not looked for. Longer ones are cut at `LONGEST`, so
# that a reader needs to see only that much around each byte.
SHORTEST, LONGEST = 6, 512
# How many of the first bytes leave a bit.
_BITS = 16
_MOST_ROWS = 1024
# Whoever owns a run directory can write the file, and a log to go with it: of this many bytes one is digested, and some
# more. Beyond that, the bits alone decide, so that too much is replaced and not too little.
_BYTES_A_DIGEST, _FREE_DIGESTS = 4, 10_000


class _Row(NamedTuple):
    """A value to look for. `bits`: of its first bytes, as bytes 0 and 1."""

    length: int
    bits: bytes
    digest: str


def values_of(secrets: str) -> list[bytes]:
    """The values in the text of a launch's secrets.env (lines NAME=base64)."""
    values = []
    for line in secrets.splitlines():
        try:
            values.append(base64.b64decode(line.partition("=")[2], validate=True))
        except ValueError:
            continue
    return values


def sums_of(values: Iterable[bytes]) -> str:
    """The text to keep of the values: it says nothing of those that are too short."""
    salt = os.urandom(16)
    halves = _halves(salt)
    rows = [
        [len(form), form[:_BITS].translate(halves).hex(), _digest(salt, form)]
        for form in sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
    ]
    return json.dumps({"salt": salt.hex(), "rows": rows[:_MOST_ROWS]}) + "\n"


class KnownSecrets:
    """The secrets of one launch. `text`: from `sums_of`; any other text has none."""

    def __init__(self, text: str = "") -> None:
        self._salt, rows = b"", []
        try:
            document = json.loads(text)
            self._salt = bytes.fromhex(document["salt"])
            rows = [_Row(int(length), bytes.fromhex(bits), str(digest)) for length, bits, digest in document["rows"]]
        except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
            rows = []
        # Values that look alike are looked for together.
        self._rows: dict[tuple[int, bytes], set[str]] = {}
        for row in rows[:_MOST_ROWS]:
            if SHORTEST <= row.length <= LONGEST and len(row.bits) == min(row.length, _BITS):
                self._rows.setdefault((row.length, row.bits), set()).add(row.digest)
        self._halves = _halves(self._salt) if self._rows else b""

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each secret in `data`."""
        bits = data.translate(self._halves) if self._rows else b""
        left = len(data) // _BYTES_A_DIGEST + _FREE_DIGESTS
        for (length, first), digests in self._rows.items():
            last = len(data) - length
            at = bits.find(first)
            while 0 <= at <= last:
                left -= 1
                if left < 0 or _digest(self._salt, data[at : at + length]) in digests:
                    yield at, at + length
                at = bits.find(first, at + (length if left < 0 else 1))


def _halves(salt: bytes) -> bytes:
    """The table for `bytes.translate` that says in which half of all bytes a byte is."""
    import hashlib  # a launch without secrets, which most looks read, needs none

    order = sorted(range(256), key=lambda byte: hashlib.sha256(salt + bytes([byte])).digest())
    table = bytearray(256)
    for byte in order[:128]:
        table[byte] = 1
    return bytes(table)


def _digest(salt: bytes, value: bytes) -> str:
    import hashlib

    return hashlib.sha256(salt + value).hexdigest()


def _forms(value: bytes) -> Iterator[bytes]:
    """The texts by which a value shows: whole, each of its lines, and as an address or JSON quotes them."""
    from urllib.parse import quote

    # By lines, too: where the ranks of a node share a log, each line begins with its rank.
    for part in (value, *value.splitlines()):
        for form in (part, quote(part, safe="").encode(), _in_json(part)):
            if len(form) >= SHORTEST:
                yield from (form[start : start + LONGEST] for start in range(0, len(form) - SHORTEST + 1, LONGEST))
                # The end of a long one may be too short for a piece of its own.
                yield form[-LONGEST:]


def _in_json(part: bytes) -> bytes:
    return json.dumps(part.decode("utf-8", "surrogateescape"))[1:-1].encode()
