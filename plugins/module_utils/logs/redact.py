# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace secrets in logs by the same number of asterisks, so that all offsets and lines stay as they are.

Secrets are the values that were given to the launch, also after its end (run/secrets/sums.py), tokens of common
services, assignments to variables that are named like a secret, and passwords in URLs. Each byte is checked with
CONTEXT bytes before and after it, so block boundaries do not matter.

Everything that returns text of a log to a person or a file passes it through the redactor of its launch.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.run.secrets.sums import FILE, LONGEST, KnownSecrets

# No secret with its surroundings spans more bytes than this.
CONTEXT = LONGEST
# CPython looks for texts of at most this many bytes in a long one two to three times as fast as for longer ones.
_SHORT = 5
# In a piece of at least so many bytes it pays to ask first which bytes occur at all: that is ten times as fast as to
# look for a text, and a log that has no `J` has no `eyJ`.
_LARGE = 4096
_SHOWN = re.compile(rb"[^\r\n]")


@dataclass(frozen=True)
class _Rule:
    """A form of secrets. `literals`: each secret of this form has one of these texts, whose beginning is looked for.

    `pattern` is matched where a literal begins; its group 1 is the secret. All lengths are bounded: a log may be one
    very long line. `lower`: the literals are compared without regard to case, and are given in lower case. `before`:
    what must stand immediately before a literal.
    """

    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    lower: bool = False
    before: re.Pattern[bytes] | None = None

    @functools.cached_property
    def _beginnings(self) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(literal[:_SHORT] for literal in self.literals))

    def spans(self, data: bytes, has: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each secret in `data`. `has`: whether a byte occurs in it; it may say so of more."""
        begins = [
            begin for begin in self._beginnings if all(has(byte) or (self.lower and has(byte ^ 32)) for byte in begin)
        ]
        # To find a literal is much faster than to match a pattern everywhere: a log has few of them.
        text = data.lower() if begins and self.lower else data
        for beginning in begins:
            at = text.find(beginning)
            while at >= 0:
                match = self.pattern.match(data, at)
                if match and (self.before is None or self.before.fullmatch(data, max(0, at - 3), at)):
                    yield match.span(1)
                at = text.find(beginning, at + 1)


_VALUE = rb"[\"']?[ ]{0,2}[=:][ ]{0,2}[\"']?([^\s\"',;]{6,200})"
_RULES = (
    # Hugging Face, GitHub, OpenAI and similar, Slack, AWS, JSON web tokens. A Weights & Biases key has no such form; it
    # is found by its variable.
    _Rule(
        (b"hf_", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"sk-", b"xox", b"AKIA", b"eyJ"),
        re.compile(
            rb"(?<![A-Za-z0-9_])(hf_[A-Za-z0-9]{20,100}|gh[pousr]_[A-Za-z0-9]{20,100}|github_pat_[A-Za-z0-9_]{20,120}"
            rb"|sk-[A-Za-z0-9_-]{20,150}|xox[abprs]-[A-Za-z0-9-]{10,100}|AKIA[0-9A-Z]{16}"
            rb"|eyJ[A-Za-z0-9_-]{10,150}\.[A-Za-z0-9_-]{10,150}\.[A-Za-z0-9_-]{5,100})"
        ),
    ),
    # HF_TOKEN=..., export WANDB_API_KEY="...", "AWS_SECRET_ACCESS_KEY": "...". Capitals only: `eos_token: </s>` is no
    # secret.
    _Rule(
        (b"TOKEN", b"SECRET", b"PASSWORD", b"PASSWD", b"API_KEY", b"ACCESS_KEY"),
        re.compile(rb"(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY)[A-Z0-9_]{0,20}" + _VALUE),
    ),
    _Rule(
        (b"authorization",),
        re.compile(
            rb"(?i:authorization[\"']?[ ]{0,2}[=:][ ]{0,2}[\"']?(?:bearer|basic|token)[ ]{1,2})([^\s\"',;]{6,200})"
        ),
        lower=True,
    ),
    _Rule(
        (b"password", b"passwd", b"api_key", b"api-key"),
        re.compile(rb"(?i:password|passwd|api[_-]key)" + _VALUE),
        lower=True,
    ),
    _Rule((b"://",), re.compile(rb"://[^\s/:@]{0,60}:([^\s/@]{3,100})@"), before=re.compile(rb"[a-z]{3}")),
)


class Redactor:
    """Replaces secrets by asterisks. `known`: those of the launch."""

    def __init__(self, known: KnownSecrets | None = None) -> None:
        self._known = known or KnownSecrets()

    def clean(self, data: bytes) -> bytes:
        """`data` with every secret replaced by asterisks; the length is unchanged."""
        data = _starred(data, self._known.spans(data))
        has = functools.lru_cache(maxsize=None)(data.__contains__) if len(data) >= _LARGE else _may_have
        return _starred(data, (span for rule in _RULES for span in rule.spans(data, has)))

    def stream(self, stream: IO[bytes]) -> IO[bytes]:
        """The same file, open for reading, without its secrets: for whoever searches a log before it is shown."""
        return cast("IO[bytes]", _CleanStream(stream, self))

    def text(self, text: str) -> str:
        """The same for text."""
        data = text.encode("utf-8", "surrogatepass")
        cleaned = self.clean(data)
        return text if cleaned == data else cleaned.decode("utf-8", "replace")

    def document(self, document: Any) -> Any:
        """A document of dicts, lists and scalars in which each text, but no key, is clean."""
        if isinstance(document, str):
            return self.text(document)
        if isinstance(document, dict):
            return {name: self.document(each) for name, each in document.items()}
        return [self.document(each) for each in document] if isinstance(document, (list, tuple)) else document

    def read(self, stream: IO[bytes], start: int, count: int) -> bytes:
        """`count` bytes of a file from `start` on (fewer at its end), redacted with the bytes around them in view."""
        before = min(CONTEXT, start)
        stream.seek(start - before)
        data = stream.read(before + count + CONTEXT)
        return self.clean(data)[before : before + count]


class _CleanStream:
    """A file whose content is redacted with the bytes around each piece in view."""

    def __init__(self, stream: IO[bytes], redactor: Redactor) -> None:
        self._stream, self._redactor = stream, redactor
        # Bytes of the file: those before the next piece, and those of it that are read already.
        self._before = self._ahead = b""

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; all for a negative number."""
        while size < 0 or len(self._ahead) < size + CONTEXT:
            more = self._stream.read(-1 if size < 0 else size + CONTEXT - len(self._ahead))
            if not more:
                break
            self._ahead += more
        size = len(self._ahead) if size < 0 else min(size, len(self._ahead))
        place = len(self._before)
        clean = self._redactor.clean(self._before + self._ahead[: size + CONTEXT])
        self._before = (self._before + self._ahead[:size])[-CONTEXT:]
        self._ahead = self._ahead[size:]
        return clean[place : place + size]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As that of the file, which has to be able to."""
        place = self._stream.seek(offset - len(self._ahead) if whence == os.SEEK_CUR else offset, whence)
        start = self._stream.seek(max(0, place - CONTEXT))
        self._before, self._ahead = self._stream.read(place - start), b""
        return place

    def tell(self) -> int:
        """As that of the file."""
        return self._stream.tell() - len(self._ahead)


class Plain(Redactor):
    """Redacts nothing."""

    def clean(self, data: bytes) -> bytes:
        """The bytes unchanged."""
        return data


class _HasText(Protocol):
    def text(self, name: str) -> str:
        """The text of a file in the run directory; empty if there is none."""


def redactor_of(run: _HasText) -> Redactor:
    """The redactor for the logs of one launch. Another user's launch may keep its secrets to itself."""
    return Redactor(KnownSecrets(run.text(FILE)))


def _may_have(_byte: int) -> bool:
    return True


def _starred(data: bytes, spans: Iterator[tuple[int, int]]) -> bytes:
    """`data` with asterisks in the place of each span; they may overlap."""
    parts, end = [], 0
    for first, last in sorted(spans):
        if last > end:
            first = max(first, end)
            # A line end inside of a secret stays: lines are counted.
            parts += [data[end:first], _SHOWN.sub(b"*", data[first:last])]
            end = last
    return b"".join([*parts, data[end:]]) if parts else data
