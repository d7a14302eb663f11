# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The changed lines of code between launches, each of which keeps its own in the store. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import unified_diff

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref, first, recorded
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import short_digests, small_text

#: Of a comparison, the lines that are shown, and the characters of each.
MOST_LINES, MOST_CHARACTERS = 60, 200
#: Files up to this size are compared line by line.
TEXT_BYTES = 64 * 1024
#: Lines around a change.
AROUND = 1


def changed_code(before: RunDirectory, after: RunDirectory) -> list[str]:
    """The lines of a unified diff of what the two launches have run, without their secrets; [] if it is the same.

    Of code that is not kept, or of more than is compared, one line says so. What another user's launch says of its code
    is not believed: it could name a folder that is the reader's alone.
    """
    old, new = _code(before), _code(after)
    if (old and old.key) == (new and new.key):
        return []
    if not (is_own(before.path) and is_own(after.path)):
        return ["the code differs; it is read of one's own launches alone"]
    sides = [_Side(run, ref) for run, ref in ((before, old), (after, new))]
    if any(side.files is None for side in sides):
        return ["the code differs; that of one launch is not kept, or too large to be compared"]
    lines = list(_lines(*sides))
    more = len(lines) - MOST_LINES
    lines = [printable(line, MOST_CHARACTERS) for line in lines[:MOST_LINES]]
    return [*lines, f"and {more} more lines"] if more > 0 else lines


class _Side:
    """The code of a launch. `files`: path -> short digest; None if that is not known."""

    def __init__(self, run: RunDirectory, ref: Ref | None) -> None:
        self.root = ref.path if ref else ""
        self.files = short_digests(self.root) if os.path.isabs(self.root) else None
        self._redactor = redactor_of(run)

    def text(self, path: str) -> list[str] | None:
        """The lines of a small file of text, without secrets; [] for one that is not there."""
        if path not in (self.files or {}):
            return []
        text = small_text(os.path.join(self.root, path), TEXT_BYTES)
        return None if text is None else self._redactor.text(text).splitlines()


def _code(run: RunDirectory) -> Ref | None:
    return first(recorded((run.document("launch.json") or {}).get("refs")), CODE)


def _lines(before: _Side, after: _Side) -> Iterator[str]:
    old, new = before.files or {}, after.files or {}
    for path in sorted(path for path in {*old, *new} if old.get(path) != new.get(path)):
        was, now = before.text(path), after.text(path)
        names = f"a/{path}" if path in old else "/dev/null", f"b/{path}" if path in new else "/dev/null"
        changed = [] if was is None or now is None else list(unified_diff(was, now, *names, n=AROUND, lineterm=""))
        yield from changed or [f"{path}: changed"]
