# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python file of the program cannot be read."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    RAISED,
    Signature,
    raises,
)

SIGNATURE = Signature(
    family="syntax_error",
    what="a Python file has a syntax error",
    remedy=(
        "Correct that line of the Python file; if it is valid in a newer Python, choose that: `environment.python`, "
        "`container.image`, `setup.modules`."
    ),
    look="Read the line of the file that the message shows.",
    matches=(raises("^(?:SyntaxError|IndentationError|TabError)", strength=RAISED + 2),),
    examples=("SyntaxError: invalid syntax", "IndentationError: unexpected indent"),
)
