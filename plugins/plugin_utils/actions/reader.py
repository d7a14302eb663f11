# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own reader of failures that no family knows: a program here, which gets a digest and returns a sentence.

The sentence is shown as that program's. It is never run, and changes neither cause nor line nor `retry`.
"""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters, answer_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_reader import READER
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid

#: How long it may take by default, and the bytes that are read and the characters that are shown of its answer.
SECONDS, MOST, SHOWN = 20, 4096, 300
#: The lines that its answer takes on a screen, and their width.
LINES, WIDTH = 3, 110


@dataclass(frozen=True)
class Reader:
    """`command`: the words of the program; `seconds`: how long it may take."""

    command: tuple[str, ...]
    seconds: int = SECONDS


def reader_of(given: Parameters | None) -> Reader | None:
    """The reader that a cluster declares; None without one. Raises RankzeroError."""
    if not given:
        return None
    try:
        return Reader(**READER.parse(given))
    except Invalid as error:
        raise RankzeroError(f"reader {error}; write reader: {{command: [PROGRAM, ARGUMENT]}}") from None


def with_reading(result: ModuleResult, reader: Reader) -> ModuleResult:
    """The result of module job_diagnosis, and what the reader says of its digest, in `reader` and below its lines."""
    digest = str(result.pop("digest", "") or "")
    if not digest or answer_of(result).failed:
        return result
    name = printable(reader.command[0], 100)
    sentence, trouble = _asked(reader, digest)
    text = f"{sentence} ({name} says so, and nothing here has checked it)" if sentence else trouble
    shown = textwrap.wrap(text, WIDTH, max_lines=LINES, placeholder=" ...", break_on_hyphens=False)
    lines = [f"{'' if number else 'reader':<10}{line}" for number, line in enumerate(shown)]
    reading = {"command": name, "sentence": sentence, "trouble": trouble}
    return {**result, "reader": reading, "lines": [*result.get("lines", []), *lines]}


def _asked(reader: Reader, digest: str) -> tuple[str, str]:
    """(sentence, why there is none)."""
    name, seconds = printable(reader.command[0], 100), reader.seconds
    try:
        # It gets no variable that may be a secret, and starts in no folder of the project.
        environment = child_environment(os.environ)
        ended = children.run(reader.command, environment, seconds=seconds, stdin=digest.encode(), cwd="/", most=MOST)
    except children.Late:
        return "", f"{name} gave no sentence within {seconds} s (diagnosis.reader.seconds)"
    except (OSError, ValueError) as error:
        return "", f"{name} cannot be started: {printable(error, 200)} (diagnosis.reader.command)"
    if ended.returncode:
        return "", f"{name} gave no sentence: {printable(ended.complaint, 200)} (exit code {ended.returncode})"
    first = next((line for line in ended.stdout.splitlines() if line.strip()), "")
    return printable(first.strip(), SHOWN), "" if first else f"{name} gave no sentence"
