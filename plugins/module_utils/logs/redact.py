# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace secrets in logs by the same number of asterisks, so that all offsets stay valid.

Secrets are the values that were given to the launch (as long as they are in its run directory: they are deleted when it
ends), tokens of common services, assignments to variables that are named like a secret, and passwords in URLs. Each
byte is checked with CONTEXT bytes before and after it, so block boundaries do not matter.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

# No secret with its surroundings spans more bytes than this.
CONTEXT = 512
SHORTEST = 6
_STAR = b"*"


@dataclass(frozen=True)
class _Rule:
    """A form of secrets. `literals`: each secret of this form has one of these texts.

    `pattern` is matched where a literal begins; its group 1 is the secret. All lengths are bounded: a log may be one
    very long line. `lower`: the literals are compared without regard to case, and are given in lower case. `before`:
    what must stand immediately before a literal.
    """

    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    lower: bool = False
    before: re.Pattern[bytes] | None = None

    def spans(self, data: bytes, lowered: bytes) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each secret in `data`. `lowered`: the same in lower case."""
        # To find a literal is much faster than to match a pattern everywhere: a log has few of them.
        text = lowered if self.lower else data
        for literal in self.literals:
            at = text.find(literal)
            while at >= 0:
                match = self.pattern.match(data, at)
                if match and (self.before is None or self.before.fullmatch(data, max(0, at - 3), at)):
                    yield match.span(1)
                at = text.find(literal, at + 1)


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
    """Replaces secrets in bytes by asterisks. `values`: known secrets; they and each of their lines match exactly."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        # Also line by line: where the ranks of a node share a log, each line begins with its rank.
        parts = {part for value in values for part in (value, *value.splitlines())}
        self._values = sorted({part for part in parts if SHORTEST <= len(part) <= CONTEXT}, key=len, reverse=True)

    def clean(self, data: bytes) -> bytes:
        """`data` with every secret replaced by asterisks; the length is unchanged."""
        for value in self._values:
            data = data.replace(value, _STAR * len(value))
        lowered = data.lower()
        spans = sorted(span for rule in _RULES for span in rule.spans(data, lowered))
        parts, end = [], 0
        for first, last in spans:
            if last > end:
                first = max(first, end)
                parts += [data[end:first], _STAR * (last - first)]
                end = last
        return b"".join([*parts, data[end:]]) if parts else data

    def read(self, stream: IO[bytes], start: int, count: int) -> bytes:
        """`count` bytes of a file from `start` on (fewer at its end), redacted with the bytes around them in view."""
        before = min(CONTEXT, start)
        stream.seek(start - before)
        data = stream.read(before + count + CONTEXT)
        return self.clean(data)[before : before + count]


class Plain(Redactor):
    """Redacts nothing."""

    def clean(self, data: bytes) -> bytes:
        """The bytes unchanged."""
        return data


def values_of(secrets: str) -> list[bytes]:
    """The values in the text of a launch's secrets.env (lines NAME=base64)."""
    values = []
    for line in secrets.splitlines():
        try:
            values.append(base64.b64decode(line.partition("=")[2], validate=True))
        except ValueError:
            continue
    return values


def redactor_of(run: RunDirectory) -> Redactor:
    """The redactor for the logs of one launch."""
    return Redactor(values_of(run.text("secrets.env")))
