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
from collections.abc import Iterable
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

# No pattern spans more bytes than this.
CONTEXT = 512
SHORTEST = 6
_STAR = b"*"
# Group 1 is the secret. All lengths are bounded: a log may be one very long line.
_PATTERNS = (
    # Hugging Face, GitHub, OpenAI and similar, Slack, AWS, JSON web tokens. A Weights & Biases key has no such form; it
    # is found by its variable.
    re.compile(
        rb"(?<![A-Za-z0-9_])(hf_[A-Za-z0-9]{20,100}|gh[pousr]_[A-Za-z0-9]{20,100}|github_pat_[A-Za-z0-9_]{20,120}"
        rb"|sk-[A-Za-z0-9_-]{20,150}|xox[abprs]-[A-Za-z0-9-]{10,100}|AKIA[0-9A-Z]{16}"
        rb"|eyJ[A-Za-z0-9_-]{10,150}\.[A-Za-z0-9_-]{10,150}\.[A-Za-z0-9_-]{5,100})"
    ),
    # HF_TOKEN=..., export WANDB_API_KEY="...", "AWS_SECRET_ACCESS_KEY": "...". Capitals only: `eos_token: </s>` is no
    # secret.
    re.compile(
        rb"(?:[A-Z0-9_]{0,40}(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY)[A-Z0-9_]{0,20})"
        rb"[\"']?[ ]{0,2}[=:][ ]{0,2}[\"']?([^\s\"',;]{6,200})"
    ),
    re.compile(rb"(?i:authorization[\"']?[ ]{0,2}[=:][ ]{0,2}[\"']?(?:bearer|basic|token)[ ]{1,2})([^\s\"',;]{6,200})"),
    re.compile(rb"(?i:(?:password|passwd|api[_-]key)[\"']?[ ]{0,2}[=:][ ]{0,2}[\"']?)([^\s\"',;]{6,200})"),
    re.compile(rb"[a-z]{3,10}://[^\s/:@]{0,60}:([^\s/@]{3,100})@"),
)


class Redactor:
    """Replaces secrets in bytes by asterisks. `values`: known secrets, which are matched exactly."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        known = sorted({value for value in values if SHORTEST <= len(value) <= CONTEXT}, key=len, reverse=True)
        exact = (re.compile(b"(" + b"|".join(map(re.escape, known)) + b")"),) if known else ()
        self._patterns = (*exact, *_PATTERNS)

    def clean(self, data: bytes) -> bytes:
        """`data` with every secret replaced by asterisks; the length is unchanged."""
        for pattern in self._patterns:
            data = pattern.sub(_starred, data)
        return data

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


def _starred(match: re.Match[bytes]) -> bytes:
    begin, end = match.span(1)
    text, at = match.group(0), match.start()
    return text[: begin - at] + _STAR * (end - begin) + text[end - at :]


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
