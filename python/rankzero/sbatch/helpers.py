# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks of a script that a job does without: a clock in the log, a debug mode, the end of helpers. Pure."""

from __future__ import annotations

import re
from typing import Any

from rankzero.sbatch.lines import Piece

#: (section, key, value, what there is instead); no section if the job needs no key.
Helper = tuple[str, str, Any, str]
_CLOCK = re.compile(r"while (?::|true); do\s+date;\s+sleep (\d+);\s+done")
_DEBUG = re.compile(r'if \[\[? -n "?\$\{?DEBUG(?::-)?\}?"? \]\]?; then\s+(?P<body>[^()`]*?);?\s+fi')
_QUIET = re.compile(r"(?:set -\S+|export [A-Z_]+=\w+|echo [^>|&]*)")
_TRAP = re.compile(r"trap '?\"?(?P<what>[^'\"]*)'?\"? (?:EXIT|0|INT|TERM| )+")
_ENDS = re.compile(r"kill(?: -\w+)?(?: \$\w+)+(?: 2> ?/dev/null)?|wait|true|:")


def of(piece: Piece) -> Helper | None:
    """What a block or a trap is as a key of the job; None if a job has no such thing."""
    text = piece.text.strip()
    if piece.after == "&" and (match := _CLOCK.fullmatch(text)):
        return "monitor", "timestamps", int(match[1]), "monitor.timestamps"
    match = _DEBUG.fullmatch(text)
    if match and all(_QUIET.fullmatch(line.strip()) for line in match["body"].split(";") if line.strip()):
        return "", "", None, "nothing: run it with --set debug=true"
    match = _TRAP.fullmatch(text)
    if match and all(_ENDS.fullmatch(part.strip()) for part in re.split(r";|\|\|", match["what"]) if part.strip()):
        return "", "", None, "nothing: the job ends what it has started"
    return None
