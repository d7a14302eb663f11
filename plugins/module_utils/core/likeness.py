# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which name somebody meant who wrote another one: "did you mean" in every message, also of the command. Pure."""

from __future__ import annotations

from collections.abc import Collection


def nearest(word: str, names: Collection[str], likeness: float = 0.5) -> str | None:
    """Return the most similar name, or None if no similarity reaches `likeness` (0 to 1)."""
    if len(word) > 100:  # too long for a misspelling, and the time to compare grows with the square of the length
        return None
    # Importing difflib takes 10 ms, and it is needed only for error messages.
    import difflib

    matches = difflib.get_close_matches(word, list(names), n=1, cutoff=likeness)
    return matches[0] if matches else None


def did_you_mean(name: str | None) -> str:
    """Return `; did you mean X?`, or "" where no name is known."""
    return f"; did you mean {name}?" if name else ""


def suggestion(word: str, names: Collection[str]) -> str:
    """Return `; did you mean X?` with the most similar name, or ""."""
    return did_you_mean(nearest(word, names))
